#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/http/limits.h"
#include "server/http/message.h"

// Requests as they come over the wire: Beast takes them apart; here is what it lets pass and we do
// not, because others on the way (proxies, caches) may read it differently.

namespace strand::server::http {

using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Why a request is not taken, before anything is known of it.
struct Refusal {
  unsigned status = 400;
  std::string_view code = "invalid_argument";
  std::string message = {};
};

// The bytes up to and including the empty line: fields that go on in the next line, bare line ends
// and control characters are refused.
std::optional<Refusal> check_bytes(std::string_view head);

// What the parsed head says: its version, its length, its target.
std::optional<Refusal> check_head(const Parser& parser);

// Without its body. Fields behind a chunked body change nothing any more.
Request to_request(const Parser& parser);

// What a failure of the parser means.
Refusal refusal_of(boost::system::error_code error, const HttpLimits& limits);

// Sets the limits, and parses the head. `head` is all of it, as check_bytes has seen it.
std::optional<Refusal> parse_head(Parser& parser, std::string_view head, const HttpLimits& limits);

}  // namespace strand::server::http
