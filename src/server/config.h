#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/error.h>
#include <strand/store.h>
#include <strand/time.h>

#include "server/log.h"

namespace strand::server {

struct TlsConfig {
  std::string certificate = {};  // PEM files
  std::string key = {};
  std::string client_ca = {};

  [[nodiscard]] bool on() const { return !certificate.empty(); }
  friend bool operator==(const TlsConfig&, const TlsConfig&) = default;
};

struct StoreConfig {
  std::string url = "rocksdb:strand-data";
  std::size_t cache_bytes = OpenOptions{}.cache_bytes;
  std::size_t memory_bytes_max = Limits{}.memory_bytes_max;
  std::size_t disk_reserve_bytes = Limits{}.disk_reserve_bytes;
  std::size_t disk_settle_reserve_bytes = Limits{}.disk_settle_reserve_bytes;
  std::size_t body_bytes_max = Limits{}.body_bytes_max;

  [[nodiscard]] OpenOptions open_options() const;
  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

struct HttpConfig {
  std::string listen = "127.0.0.1:7480";  // "": no HTTP
  std::size_t header_bytes = 16384;
  std::size_t body_bytes = std::size_t{1} << 20U;
  std::uint32_t json_depth = 32;
  std::uint32_t connections = 1000;
  std::uint32_t in_flight = 64;
  std::uint32_t streams = 100;
  Duration header_timeout = std::chrono::seconds{10};
  Duration body_timeout = std::chrono::seconds{30};
  Duration idle_timeout = std::chrono::seconds{60};
  Duration write_timeout = std::chrono::seconds{30};

  friend bool operator==(const HttpConfig&, const HttpConfig&) = default;
};

struct GrpcConfig {
  std::string listen = "127.0.0.1:7481";  // "": no gRPC
  std::size_t message_bytes = std::size_t{32} << 20U;
  std::size_t memory_bytes = std::size_t{1} << 30U;
  std::uint32_t connections = 20'000;  // 0: no limit
  std::uint32_t in_flight = 1000;      // of one connection
  std::uint32_t waits_max = 100'000;
  std::uint32_t streams = 100'000;
  Duration idle_timeout{0};  // 0: never

  friend bool operator==(const GrpcConfig&, const GrpcConfig&) = default;
};

struct LogConfig {
  LogFormat format = LogFormat::text;
  LogLevel level = LogLevel::info;

  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

struct MetricsConfig {
  std::uint32_t queues_max = 100;
  Duration interval = std::chrono::seconds{1};

  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

// How a server is to run. Where each setting may be said is in settings().
struct ServerConfig {
  StoreConfig store = {};
  HttpConfig http = {};
  GrpcConfig grpc = {};
  TlsConfig tls = {};
  LogConfig log = {};
  MetricsConfig metrics = {};
  std::string tokens = {};  // the file; "": everybody may do everything
  bool insecure = false;
  Duration patience = std::chrono::seconds{10};

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

// One setting, for all the places where it can be said.
struct Setting {
  enum class Kind : std::uint8_t { text, boolean, number, bytes, duration, choice };

  std::string name;  // in the file: "http.listen" is `listen` in [http]
  std::string flag;  // such as "--http"
  Kind kind;
  std::string help;                  // one sentence without its full stop
  std::vector<std::string> choices;  // of a choice
  // By text, as it is written on a command line. An error says what to write instead.
  std::function<Result<void>(ServerConfig&, std::string_view)> set;
  std::function<std::string(const ServerConfig&)> get;

  // "STRAND_SERVE_HTTP_LISTEN".
  [[nodiscard]] std::string environment() const;
  // What stands for a value in a help text: "N", "BYTES", "text|json".
  [[nodiscard]] std::string type() const;
};
std::span<const Setting> settings();

inline constexpr std::string_view environment_prefix = "STRAND_SERVE_";
inline constexpr std::string_view environment_file = "STRAND_SERVE_CONFIG";

// Where the settings come from. What is said later in this list wins; the defaults are before it.
struct ConfigSources {
  // None: the one that STRAND_SERVE_CONFIG names, if any.
  std::optional<std::string> file = {};
  std::vector<std::pair<std::string, std::string>> environment = {};  // all of it
  std::vector<std::pair<std::string, std::string>> flags = {};        // names of settings, values
};

// Each complaint is one line, and names the file and line, the variable or the flag. A key, or a
// variable that begins with STRAND_SERVE_, that is no setting is refused with the nearest one.
// What was read is checked as check() does.
Result<ServerConfig> load_config(const ConfigSources& sources);

// The same for the text of a file alone, and without the check.
Result<void> read_config(std::string_view text, const std::string& name, ServerConfig& config);

// What goes across settings: plain text in the open, keys without certificates.
Result<void> check(const ServerConfig& config);

// All settings as a file that reads back to the same.
std::string print(const ServerConfig& config);

// The variables of this process.
std::vector<std::pair<std::string, std::string>> process_environment();

// "127.0.0.1:7480" or "[::1]:7480" taken apart.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  // Only this machine can reach it. A name is taken for one of this machine only if it is
  // "localhost".
  [[nodiscard]] bool loopback() const;
};
Result<Address> parse_address(std::string_view text);

// "65536", "64KiB", "1MiB", "2GiB"; and back, with the largest unit that divides it.
Result<std::uint64_t> parse_bytes(std::string_view text);
std::string format_bytes(std::uint64_t bytes);

}  // namespace strand::server
