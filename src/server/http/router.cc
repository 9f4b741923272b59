#include "server/http/router.h"

#include <utility>

#include <fmt/format.h>

namespace strand::server::http {

Result<void> Call::read_body(const std::vector<Member>& members) const {
  if (request.body.empty()) return {};
  const auto wrong = [](const Error& error) {
    return failure(Errc::invalid_argument, "the body: " + error.message);
  };
  if (auto shallow = check_depth(request.body, surroundings.limits.json_depth); !shallow)
    return wrong(shallow.error());
  const auto document = json::Document::parse(request.body);
  if (!document) return wrong(document.error());
  if (auto read = read_members(document->view(), members); !read) return wrong(read.error());
  return {};
}

const std::vector<Route>& all_routes() {
  static const std::vector<Route> routes = [] {
    std::vector<Route> all;
    for (auto* part : {queue_routes, dead_letter_routes, topic_routes, workflow_routes,
                       store_routes, server_routes}) {
      for (Route& route : part())
        all.push_back(std::move(route));
    }
    return all;
  }();
  return routes;
}

namespace {

struct Template {
  const Route* route;
  std::vector<std::string> segments;
};

bool is_name(std::string_view segment) { return segment.starts_with('{'); }

const std::vector<Template>& templates() {
  static const std::vector<Template> all = [] {
    std::vector<Template> made;
    for (const Route& route : all_routes())
      made.push_back({&route, *path_segments(route.path)});
    return made;
  }();
  return all;
}

// The values of the names, if the path fits. A name is never empty.
std::optional<std::vector<std::string>> values_of(const Template& wanted,
                                                  std::span<const std::string> segments) {
  if (wanted.segments.size() != segments.size()) return std::nullopt;
  std::vector<std::string> values;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (is_name(wanted.segments[i])) {
      if (segments[i].empty()) return std::nullopt;
      values.push_back(segments[i]);
    } else if (wanted.segments[i] != segments[i]) {
      return std::nullopt;
    }
  }
  return values;
}

}  // namespace

Match find_route(std::span<const std::string> segments, std::string_view method) {
  const std::string_view asked = method == "HEAD" ? "GET" : method;
  Match match;
  for (const Template& candidate : templates()) {
    auto values = values_of(candidate, segments);
    if (!values) continue;
    match.allowed.push_back(candidate.route->method);
    if (candidate.route->method == "GET") match.allowed.emplace_back("HEAD");
    if (candidate.route->method != asked) continue;
    match.route = candidate.route;
    match.values = *std::move(values);
    return match;
  }
  return match;
}

Response json_response(const boost::json::object& object) {
  Response response;
  response.body = boost::json::serialize(object);
  return response;
}

boost::json::object page_json(boost::json::array items, bool more, const std::string& next) {
  return {{"items", std::move(items)},
          {"more", more},
          {"next", more ? boost::json::value(next) : boost::json::value(nullptr)}};
}

Result<std::uint64_t> administer(Store& store, Administration administration) {
  Transaction transaction;
  transaction.admin = std::move(administration);
  const auto receipt = store.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->affected;
}

}  // namespace strand::server::http
