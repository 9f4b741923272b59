#include "server/http/message.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/text.h"

namespace strand::server::http {

unsigned status_of(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
    case Errc::invalid_token:
    case Errc::invalid_cursor:
    case Errc::unsupported:
      return 400;
    case Errc::forbidden:
      return 403;
    case Errc::not_found:
      return 404;
    case Errc::already_exists:
    case Errc::in_use:
    case Errc::name_taken:
    case Errc::lease_lost:
    case Errc::message_not_leased:
    case Errc::version_mismatch:
    case Errc::history_mismatch:
    case Errc::transaction_conflict:
    case Errc::transaction_expired:
      return 409;
    case Errc::limit_exceeded:
      return 400;
    case Errc::transaction_too_large:
      return 413;
    case Errc::queue_full:
      return 429;
    case Errc::store_full:
      return 507;
    case Errc::unavailable:
      return 503;
    case Errc::unknown_outcome:
    case Errc::io_error:
    case Errc::corrupt:
      return 500;
  }
  return 500;
}

Response error_response(unsigned status, std::string_view code, std::string_view message,
                        std::string_view request_id) {
  // What is quoted in a message may be anything.
  const std::string text = base::is_utf8(message) ? std::string(message) : base::escaped(message);
  Response response;
  response.status = status;
  response.body = boost::json::serialize(boost::json::object{
      {"error",
       boost::json::object{{"code", code}, {"message", text}, {"request_id", request_id}}}});
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

Response error_response(const Error& error, std::string_view request_id) {
  return error_response(status_of(error.code), to_string(error.code), error.message, request_id);
}

std::string request_id(std::string_view given) {
  constexpr std::size_t length_max = 64;
  const bool sane =
      !given.empty() && given.size() <= length_max && std::ranges::all_of(given, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
      });
  if (sane) return std::string(given);
  // Different for each process and each request; nobody needs to be kept from guessing it.
  static const std::uint64_t process = std::random_device{}();
  static std::atomic<std::uint64_t> count = 0;
  return fmt::format("{:08x}-{:x}", process, ++count);
}

}  // namespace strand::server::http
