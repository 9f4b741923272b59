#include "server/http_client.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <arpa/inet.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strand::server {

namespace {

namespace beast_http = boost::beast::http;
using Clock = std::chrono::steady_clock;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string error_part(const HttpAnswer& answer, std::string_view name) {
  const boost::json::value body = answer.json();
  if (!body.is_object() || !body.get_object().contains("error")) return "";
  return std::string(body.at("error").at(name).as_string());
}

}  // namespace

boost::json::value HttpAnswer::json() const {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(body, error);
  return error ? boost::json::value(nullptr) : value;
}

std::string HttpAnswer::code() const { return error_part(*this, "code"); }
std::string HttpAnswer::message() const { return error_part(*this, "message"); }

std::string HttpAnswer::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

RawClient::RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  ended_ = ::connect(socket_, plain, sizeof(address)) != 0;
}

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      ended_(other.ended_),
      pending_(std::move(other.pending_)) {}

RawClient::~RawClient() {
  if (socket_ >= 0) ::close(socket_);
}

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawClient::vanish() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(std::exchange(socket_, -1));
  ended_ = true;
}

bool RawClient::receive(Clock::time_point end) {
  if (ended_) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  pollfd wanted{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, std::max(0, static_cast<int>(left.count()))) <= 0) return false;
  std::array<char, 65536> room;
  const ssize_t count = ::recv(socket_, room.data(), room.size(), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  pending_.append(room.data(), static_cast<std::size_t>(count));
  return true;
}

HttpAnswer RawClient::answer(bool head, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  beast_http::response_parser<beast_http::string_body> parser;
  parser.eager(true);
  parser.skip(head);
  parser.body_limit(std::uint64_t{64} << 20U);
  parser.header_limit(65536);
  do {
    boost::system::error_code error;
    while (!pending_.empty() && !parser.is_done()) {
      const std::size_t used = parser.put(boost::asio::buffer(pending_), error);
      pending_.erase(0, used);
      if (error) break;
    }
    if (error && error != beast_http::error::need_more) return {};
  } while (!parser.is_done() && receive(end));
  if (!parser.is_header_done()) return {};
  HttpAnswer answer;
  answer.status = parser.get().result_int();
  for (const auto& field : parser.get())
    answer.fields[lower(std::string(field.name_string()))] = std::string(field.value());
  answer.body = parser.get().body();
  return answer;
}

std::string RawClient::read_until(std::string_view end, std::chrono::milliseconds patience) {
  const auto latest = Clock::now() + patience;
  while (true) {
    const std::size_t found = pending_.find(end);
    if (found != std::string::npos) {
      std::string text = pending_.substr(0, found + end.size());
      pending_.erase(0, found + end.size());
      return text;
    }
    if (!receive(latest)) return std::exchange(pending_, {});
  }
}

bool RawClient::is_closed_within(std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (receive(end))
    pending_.clear();
  return ended_;
}

std::string request_text(std::string_view method, std::string_view target,
                         const HttpExtras& extras) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n", method, target);
  if (extras.token) text += fmt::format("Authorization: Bearer {}\r\n", *extras.token);
  if (extras.body) {
    text += fmt::format("Content-Length: {}\r\n", extras.body->size());
    if (!extras.content_type.empty())
      text += fmt::format("Content-Type: {}\r\n", extras.content_type);
  }
  return text + extras.fields + "\r\n" + extras.body.value_or("");
}

HttpAnswer request(std::uint16_t port, std::string_view method, std::string_view target,
                   const HttpExtras& extras) {
  RawClient client(port);
  client.send(request_text(method, target, extras));
  return client.answer(method == "HEAD");
}

}  // namespace strand::server
