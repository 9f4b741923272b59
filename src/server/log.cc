#include "server/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"

namespace strand::server {

namespace {

constexpr std::size_t value_bytes_max = 1000;
constexpr std::size_t line_bytes_max = 4096;
static_assert(line_bytes_max <= PIPE_BUF, "a pipe with room takes a line whole");
constexpr int room_wait_ms = 20;

constexpr Duration repeat_window = std::chrono::seconds{10};
constexpr std::uint32_t repeats_max = 10;

using Fields = std::span<const LogField>;

// Escaped, and cut between two characters.
std::string shortened(std::string_view text) {
  std::string escaped = base::escaped(text.substr(0, value_bytes_max));
  if (text.size() <= value_bytes_max && escaped.size() <= value_bytes_max) return escaped;
  escaped.resize(std::min(escaped.size(), value_bytes_max));
  while (!base::is_utf8(escaped))
    escaped.pop_back();
  return escaped + "…";
}

// So that it cannot be taken for the end of the value and the beginning of another field.
std::string quoted(std::string_view text) {
  std::string clean = shortened(text);
  if (!clean.empty() && clean.find_first_of(" \"=\\") == std::string::npos) return clean;
  std::string result = "\"";
  for (const char c : clean) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

struct AsText {
  std::string operator()(std::string_view text) const { return quoted(text); }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  std::string operator()(auto number) const { return fmt::to_string(number); }
};

struct AsJson {
  boost::json::value operator()(std::string_view text) const {
    return boost::json::string(shortened(text));
  }
  boost::json::value operator()(double number) const {
    if (!std::isfinite(number)) return nullptr;
    return number;
  }
  boost::json::value operator()(auto value) const { return value; }
};

std::string text_line(Time time, LogLevel level, std::string_view event, std::string_view message,
                      Fields fields) {
  const bool plain = message.find('=') == std::string_view::npos;
  std::string line = fmt::format("{} {:<7} {} {}", format_time(time), to_string(level), event,
                                 plain ? shortened(message) : quoted(message));
  for (const LogField& field : fields)
    line += fmt::format(" {}={}", field.name, std::visit(AsText{}, field.value));
  return line + '\n';
}

std::string json_line(Time time, LogLevel level, std::string_view event, std::string_view message,
                      Fields fields) {
  boost::json::object object;
  object["time"] = format_time(time);
  object["level"] = to_string(level);
  object["event"] = event;
  object["message"] = shortened(message);
  for (const LogField& field : fields)
    object.insert(boost::json::key_value_pair(field.name, std::visit(AsJson{}, field.value)));
  return boost::json::serialize(object) + '\n';
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  STRAND_ASSERT(false, "every LogLevel has a name");
  return {};
}

std::string new_request_id() {
  static const std::uint64_t process = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32U | device();
  }();
  static std::atomic<std::uint64_t> count = 0;
  return fmt::format("{:016x}-{:x}", process, count.fetch_add(1, std::memory_order_relaxed));
}

Log::Log(LogOptions options)
    : options_(std::move(options)), clock_(options_.clock ? options_.clock : system_clock()) {}

Log::~Log() {
  for (const auto& [event, repeats] : repeats_) {
    if (repeats.left_out == 0) continue;
    put(line(LogLevel::warning, event, "more of these lines were left out", {}, repeats.left_out));
  }
}

std::string Log::line(LogLevel level, std::string_view event, std::string_view message,
                      Fields fields, std::uint64_t left_out) const {
  std::vector<LogField> all(fields);
  if (left_out > 0) all.insert(all.begin(), LogField("left_out", left_out));
  const Time time = clock_->wall();
  while (true) {
    std::string result = options_.format == LogFormat::json
                             ? json_line(time, level, event, message, all)
                             : text_line(time, level, event, message, all);
    if (result.size() <= line_bytes_max || all.empty()) return result;
    all.pop_back();
  }
}

void Log::write(LogLevel level, std::string_view event, std::string_view message, Fields fields) {
  if (!on(level)) return;
  const std::string text = line(level, event, message, fields, 0);
  const std::lock_guard lock(mutex_);
  put(text);
}

void Log::seldom(LogLevel level, std::string_view event, std::string_view message, Fields fields) {
  if (!on(level)) return;
  const Duration now = clock_->monotonic();
  const std::lock_guard lock(mutex_);
  auto found = repeats_.find(event);
  if (found == repeats_.end()) {
    found = repeats_.emplace(std::string(event), Repeats{.since = now}).first;
  }
  Repeats& repeats = found->second;
  if (now - repeats.since >= repeat_window) {
    repeats.since = now;
    repeats.written = 0;
  }
  if (repeats.written == repeats_max) {
    ++repeats.left_out;
    return;
  }
  ++repeats.written;
  put(line(level, event, message, fields, std::exchange(repeats.left_out, 0)));
}

void Log::put(const std::string& line) {
  if (lost_ > 0) {
    const LogField missing("lines", lost_);
    if (!try_put(
            this->line(LogLevel::warning, "log.lost", "nobody took these lines", {missing}, 0))) {
      ++lost_;
      return;
    }
    lost_ = 0;
  }
  if (!try_put(line)) ++lost_;
}

bool Log::try_put(const std::string& line) {
  pollfd room{.fd = options_.fd, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&room, 1, lost_ > 0 ? 0 : room_wait_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return false;
  ssize_t written = 0;
  do {
    written = ::write(options_.fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return std::cmp_equal(written, line.size());
}

}  // namespace strand::server
