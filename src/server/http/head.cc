#include "server/http/head.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <fmt/format.h>

#include "base/planted.h"

namespace strand::server::http {

namespace {

namespace beast = boost::beast;
using beast::http::field;

std::string text_of(const Parser& parser, field name) { return std::string(parser.get()[name]); }

bool occurs_twice(const Parser& parser, field name) { return parser.get().count(name) > 1; }

std::optional<Refusal> bad(std::string message) { return Refusal{.message = std::move(message)}; }

}  // namespace

std::optional<Refusal> check_bytes(std::string_view head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    const char c = head[i];
    const char next = i + 1 < head.size() ? head[i + 1] : '\0';
    if (c == '\r' && next != '\n') return bad("a carriage return without a line feed");
    if (c == '\n') {
      if (i == 0 || head[i - 1] != '\r') return bad("a line feed without a carriage return");
      if ((next == ' ' || next == '\t') && !STRAND_PLANTED("http-folded-fields")) {
        return bad("a field that goes on in the next line");
      }
    } else if (c != '\r' && c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) {
      return bad("a control character in the head");
    }
  }
  return std::nullopt;
}

std::optional<Refusal> check_head(const Parser& parser) {
  const auto& head = parser.get();
  if (head.version() != 10 && head.version() != 11) {
    return Refusal{.status = 505, .code = "unsupported", .message = "HTTP/1.1 is spoken here"};
  }
  const auto encoding = head.find(field::transfer_encoding);
  if (encoding != head.end() && !STRAND_PLANTED("http-length-and-encoding")) {
    if (head.find(field::content_length) != head.end()) {
      return bad("both Content-Length and Transfer-Encoding");
    }
    if (head.version() != 11 || occurs_twice(parser, field::transfer_encoding) ||
        !beast::iequals(encoding->value(), "chunked")) {
      return Refusal{
          .status = 501, .code = "unsupported", .message = "the only Transfer-Encoding is chunked"};
    }
  }
  for (const field name : {field::content_length, field::host, field::authorization,
                           field::content_type, field::content_encoding}) {
    if (occurs_twice(parser, name)) {
      return bad(fmt::format("{} occurs twice", std::string_view(beast::http::to_string(name))));
    }
  }
  if (head.version() == 11 && head.find(field::host) == head.end()) return bad("no Host");
  if (!head.target().starts_with('/')) return bad("the target is not a path that begins with /");
  const auto expect = head.find(field::expect);
  if (expect != head.end() && !beast::iequals(expect->value(), "100-continue")) {
    return Refusal{
        .status = 417, .code = "unsupported", .message = "the only expectation is 100-continue"};
  }
  return std::nullopt;
}

Request to_request(const Parser& parser) {
  const auto& head = parser.get();
  Request request;
  request.method = std::string(head.method_string());
  const std::string_view target(head.target().data(), head.target().size());
  const std::size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = target.substr(std::min(mark + 1, target.size()));
  if (head.find(field::host) != head.end()) request.host = text_of(parser, field::host);
  request.origin = text_of(parser, field::origin);
  request.fetch_site = std::string(head["Sec-Fetch-Site"]);
  request.content_type = text_of(parser, field::content_type);
  request.content_encoding = text_of(parser, field::content_encoding);
  if (head.find(field::authorization) != head.end()) {
    request.authorization = text_of(parser, field::authorization);
  }
  request.has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  request.id = request_id(std::string(head["X-Request-Id"]));
  return request;
}

Refusal refusal_of(boost::system::error_code error, const HttpLimits& limits) {
  using Problem = beast::http::error;
  if (error == Problem::body_limit) {
    return {.status = 413,
            .code = "limit_exceeded",
            .message = fmt::format("the body has more than {} bytes", limits.body_bytes)};
  }
  if (error == Problem::header_limit || error == Problem::buffer_overflow) {
    return {.status = 431,
            .code = "limit_exceeded",
            .message = fmt::format("the head has more than {} bytes", limits.header_bytes)};
  }
  return {.message = fmt::format("not HTTP: {}", error.message())};
}

std::optional<Refusal> parse_head(Parser& parser, std::string_view head, const HttpLimits& limits) {
  if (auto refused = check_bytes(head)) return refused;
  parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser.body_limit(STRAND_PLANTED("http-no-body-limit") ? UINT64_MAX : limits.body_bytes);
  boost::system::error_code error;
  const std::size_t used = parser.put(boost::asio::buffer(head), error);
  if (error) return refusal_of(error, limits);
  if (!parser.is_header_done() || used != head.size()) return Refusal{.message = "not HTTP"};
  return check_head(parser);
}

}  // namespace strand::server::http
