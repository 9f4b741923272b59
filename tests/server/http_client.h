#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json.hpp>

namespace strand::server {

inline constexpr std::chrono::milliseconds usual_patience{5'000};

// An answer as it came.
struct HttpAnswer {
  unsigned status = 0;                             // 0: none came
  std::map<std::string, std::string> fields = {};  // names in small letters
  std::string body = {};

  // Null if it is not JSON.
  [[nodiscard]] boost::json::value json() const;
  // Of an error; "" if it is none.
  [[nodiscard]] std::string code() const;
  [[nodiscard]] std::string message() const;
  [[nodiscard]] std::string field(const std::string& name) const;
};

// A connection of a caller who may say anything.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient();

  // False: the other side does not listen any more.
  bool send(std::string_view bytes) const;
  // Hangs up without a farewell: what is on its way is lost.
  void vanish();
  // The next answer, read as a browser would. Status 0: the connection ended, or nothing came.
  HttpAnswer answer(bool head = false, std::chrono::milliseconds patience = usual_patience);
  // What came up to and including `end`, or all that came.
  std::string read_until(std::string_view end, std::chrono::milliseconds patience = usual_patience);
  // Whether the other side hangs up within that time; what comes before is dropped.
  bool is_closed_within(std::chrono::milliseconds patience);

 private:
  // Adds what comes to `pending_`; false: nothing comes any more.
  bool receive(std::chrono::steady_clock::time_point end);

  int socket_ = -1;
  bool ended_ = false;
  std::string pending_;
};

// What a request needs besides method and target.
struct HttpExtras {
  std::optional<std::string> token = {};
  std::optional<std::string> body = {};
  std::string content_type = "application/json";
  std::string fields = {};  // whole lines, each with its end
};

std::string request_text(std::string_view method, std::string_view target,
                         const HttpExtras& extras = {});
// One request on a connection of its own.
HttpAnswer request(std::uint16_t port, std::string_view method, std::string_view target,
                   const HttpExtras& extras = {});

}  // namespace strand::server
