#include "server/http/api.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/planted.h"
#include "base/text.h"

namespace strand::server::http {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// "127.0.0.1:7480", "[::1]", "localhost:7480".
bool is_loopback(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, std::min(host.find(']'), host.size()) - 1);
  } else {
    host = host.substr(0, host.rfind(':'));
  }
  if (same_word(host, "localhost")) return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::size_t end = type.find_last_not_of(" \t");
  return end != std::string_view::npos && same_word(type.substr(0, end + 1), "application/json");
}

Response unauthorized(const Error& error, const Request& request) {
  Response response = error_response(401, "unauthorized", error.message, request.id);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

bool changes_something(const Request& request) {
  return request.method != "GET" && request.method != "HEAD";
}

// A form or a script on any page can have a browser send a request without a body anywhere; but the
// browser says where that page is from.
bool is_of_another_site(const Request& request) {
  if (!request.fetch_site.empty() && request.fetch_site != "same-origin" &&
      request.fetch_site != "none") {
    return true;
  }
  const std::string host = request.host.value_or("");
  return !request.origin.empty() && request.origin != "http://" + host &&
         request.origin != "https://" + host;
}

// What does not depend on the route.
std::optional<Response> check_content(const Request& request) {
  if (changes_something(request) && is_of_another_site(request) &&
      !STRAND_PLANTED("http-any-origin")) {
    return error_response(403, "forbidden", "pages of other sites may not change anything here",
                          request.id);
  }
  if (!request.content_encoding.empty() && !same_word(request.content_encoding, "identity")) {
    return error_response(415, "unsupported",
                          "bodies are taken as they are: without Content-Encoding", request.id);
  }
  if (!request.has_body) return std::nullopt;
  if (!changes_something(request)) {
    return error_response(400, "invalid_argument", fmt::format("{} takes no body", request.method),
                          request.id);
  }
  // A web page can send other types anywhere without asking, this one not.
  if (!is_json(request.content_type)) {
    return error_response(415, "unsupported", "write Content-Type: application/json", request.id);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> token_of(const Request& request) {
  if (!request.authorization) return std::nullopt;
  return bearer_of(*request.authorization);
}

Api::Admitted Api::admit(const Request& head) const {
  Admitted admitted;
  // Where everybody is let in, a token proves nothing. Who brings no name at all is no browser.
  if (loopback_only_ && head.host && !is_loopback(*head.host) && access_.admit(std::nullopt) &&
      !STRAND_PLANTED("http-any-host")) {
    admitted.refused = error_response(
        421, "misdirected",
        fmt::format("this server is not called '{}'; without a token it answers to the names of "
                    "its own machine only",
                    base::printable(*head.host)),
        head.id);
    return admitted;
  }
  const auto segments = path_segments(head.path);
  const bool is_public = !head.path.starts_with("/api/") && head.path != "/metrics";
  // Before it is said what there is: who is not known learns nothing.
  auto permit = access_.admit(token_of(head));
  if (permit) {
    admitted.permit = *std::move(permit);
  } else if (!is_public) {
    admitted.refused = unauthorized(permit.error(), head);
    return admitted;
  }
  if (!segments) {
    admitted.refused = error_response(segments.error(), head.id);
    return admitted;
  }
  Match match = find_route(*segments, head.method);
  if (match.route == nullptr && match.allowed.empty()) {
    admitted.refused =
        error_response(404, "not_found",
                       fmt::format("there is no {}; see /", base::printable(head.path)), head.id);
    return admitted;
  }
  if (match.route == nullptr) {
    const std::string allowed = fmt::format("{}", fmt::join(match.allowed, ", "));
    admitted.refused = error_response(405, "method_not_allowed",
                                      fmt::format("{} takes {}, not {}", base::printable(head.path),
                                                  allowed, base::printable(head.method)),
                                      head.id);
    admitted.refused->headers.emplace_back("Allow", allowed);
    return admitted;
  }
  admitted.route = match.route;
  admitted.values = std::move(match.values);
  if (auto refused = check_content(head)) {
    admitted.refused = std::move(refused);
  } else if (auto done = admit(head, admitted); !done) {
    admitted.refused = error_response(done.error(), head.id);
  }
  return admitted;
}

Result<void> Api::admit(const Request& head, Admitted& admitted) const {
  auto query = Query::parse(head.query);
  if (!query) return std::unexpected(std::move(query.error()));
  std::vector<std::string> known;
  for (const Parameter& parameter : admitted.route->query)
    known.push_back(parameter.name);
  if (auto names = query->check_names(known); !names) return names;
  admitted.query = *std::move(query);
  if (admitted.route->needs == Needs::store && store_ == nullptr) {
    return failure(Errc::unavailable, "loading: the store is not open yet");
  }
  return {};
}

Response Api::answer(const Admitted& admitted, const Request& request) const {
  if (admitted.refused) return *admitted.refused;
  try {
    auto response = run(admitted, request);
    return response ? *std::move(response) : error_response(response.error(), request.id);
  } catch (const std::exception& problem) {
    return error_response(500, "internal", fmt::format("this is a bug: {}", problem.what()),
                          request.id);
  }
}

Result<Response> Api::run(const Admitted& admitted, const Request& request) const {
  static const Permit nobody("", {});
  const Call call{.request = request,
                  .path = admitted.values,
                  .query = admitted.query,
                  .permit = admitted.permit ? *admitted.permit : nobody,
                  .store_or_null = store_,
                  .surroundings = surroundings_};
  if (admitted.route->takes.empty()) {
    if (auto nothing = call.read_body({}); !nothing)
      return std::unexpected(std::move(nothing.error()));
  }
  return admitted.route->answer(call);
}

}  // namespace strand::server::http
