#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include <strand/time.h>

namespace strand::server {

enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class LogFormat : std::uint8_t { text, json };
std::string_view to_string(LogLevel level);

// One figure or name of a line. Borrows the text: for the time of a call only.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, const std::string& text)
      : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, bool truth) : name(field), value(truth) {}
  LogField(std::string_view field, double number) : name(field), value(number) {}
  LogField(std::string_view field, Duration duration)  // in seconds
      : name(field), value(static_cast<double>(duration.count()) / 1000) {}
  template <std::signed_integral T>
  LogField(std::string_view field, T number) : name(field), value(std::int64_t{number}) {}
  template <std::unsigned_integral T>
  LogField(std::string_view field, T number) : name(field), value(std::uint64_t{number}) {}

  std::string_view name;  // such as "request_id": letters, digits and underscores
  Value value;
};

// Names one request in all its lines, and to who made it: no other of any server has the same. Not
// secret, and can be guessed.
[[nodiscard]] std::string new_request_id();

struct LogOptions {
  LogFormat format = LogFormat::text;
  LogLevel level = LogLevel::info;  // the least that is written
  int fd = 2;
  std::shared_ptr<Clock> clock = {};  // none: the system's
};

// Structured logs, one line for each event:
//
//   2026-01-01T00:00:00.000Z warning grpc.refused the token is not known peer=10.0.0.7 count=3
//   {"time":"2026-01-01T00:00:00.000Z","level":"warning","event":"grpc.refused",
//    "message":"the token is not known","peer":"10.0.0.7","count":3}
//
// Whatever a value holds, it is one line, and in text no value looks like another field: control
// characters are escaped, and what has blanks, quotes or '=' is quoted. Long values are cut; a line
// is at most 4096 bytes, for which fields are left off at its end.
//
// Threads:  every method may be called concurrently.
// Blocking: each line is one write, of at most what a pipe with room takes whole. If nobody reads
//           the other end, a line waits 20 ms for room and is then left out; those after it wait
//           for nothing. When there is room again, a line "log.lost" says how many are missing.
// Failure:  a line that cannot be written is lost.
class Log {
 public:
  explicit Log(LogOptions options = {});
  // Says what seldom() has left out.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  using Fields = std::initializer_list<LogField>;

  [[nodiscard]] bool on(LogLevel level) const { return level >= options_.level; }
  // `event` is a constant such as "http.request", for programs; `message` is for people.
  void write(LogLevel level, std::string_view event, std::string_view message, Fields fields = {});
  // The same for what somebody outside can cause as often as he likes: at most ten lines of an
  // event within ten seconds. The next one after that says how many were `left_out`.
  void seldom(LogLevel level, std::string_view event, std::string_view message, Fields fields = {});

  void debug(std::string_view event, std::string_view message, Fields fields = {}) {
    write(LogLevel::debug, event, message, fields);
  }
  void info(std::string_view event, std::string_view message, Fields fields = {}) {
    write(LogLevel::info, event, message, fields);
  }
  void warning(std::string_view event, std::string_view message, Fields fields = {}) {
    write(LogLevel::warning, event, message, fields);
  }
  void error(std::string_view event, std::string_view message, Fields fields = {}) {
    write(LogLevel::error, event, message, fields);
  }

 private:
  struct Repeats {
    Duration since{0};
    std::uint32_t written = 0;
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] std::string line(LogLevel level, std::string_view event, std::string_view message,
                                 Fields fields, std::uint64_t left_out) const;
  void put(const std::string& line);      // with the lock held
  bool try_put(const std::string& line);  // the same

  const LogOptions options_;
  const std::shared_ptr<Clock> clock_;

  std::mutex mutex_;  // for everything below
  std::map<std::string, Repeats, std::less<>> repeats_;
  std::uint64_t lost_ = 0;
};

}  // namespace strand::server
