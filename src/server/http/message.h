#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/error.h>

// A request and its answer, apart from how they travel.

namespace strand::server::http {

struct Request {
  std::string method = {};  // "GET"
  std::string path = {};    // as it was sent, still with its escapes
  std::string query = {};   // what is behind the '?'
  std::optional<std::string> host = {};
  std::string origin = {};      // of the web page that sent it, if one did
  std::string fetch_site = {};  // what its browser says of that page
  std::string content_type = {};
  std::string content_encoding = {};
  std::optional<std::string> authorization = {};
  bool has_body = false;
  std::string body = {};
  std::string id = {};  // names it in answers and logs
};

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside those that all have
};

// The one place that says which status an error of the store has.
[[nodiscard]] unsigned status_of(Errc code);

// {"error":{"code":…,"message":…,"request_id":…}}
[[nodiscard]] Response error_response(unsigned status, std::string_view code,
                                      std::string_view message, std::string_view request_id);
[[nodiscard]] Response error_response(const Error& error, std::string_view request_id);

// The id that the caller gave if it is fit for logs, else a new one.
[[nodiscard]] std::string request_id(std::string_view given);

}  // namespace strand::server::http
