#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "base/text.h"
#include "server/config.h"

// The table of settings: the one place that knows all of them.

namespace strand::server {

namespace {

using Kind = Setting::Kind;

std::unexpected<Error> wrong(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < min || value > max) {
    return wrong(
        fmt::format("'{}' is no whole number from {} to {}", base::printable(text), min, max));
  }
  return value;
}

Result<void> check_listen(std::string_view text) {
  if (text.empty()) return {};
  if (const auto address = parse_address(text); !address) return std::unexpected(address.error());
  return {};
}

// How a setting is called where its name is too long for what is typed every day.
std::string flag_of(const std::string& name) {
  if (name == "store.url") return "--store";
  if (name == "http.listen") return "--http";
  if (name == "grpc.listen") return "--grpc";
  std::string flag = "--" + name;
  for (char& c : flag)
    if (c == '.' || c == '_') c = '-';
  return flag;
}

// Collects the rows. `at` finds the member in a configuration.
class Table {
 public:
  template <class At>
  void text(std::string name, std::string help, At at,
            Result<void> (*accept)(std::string_view) = nullptr) {
    add(
        std::move(name), Kind::text, std::move(help),
        [at, accept](ServerConfig& config, std::string_view text) -> Result<void> {
          if (!base::is_plain_text(text)) return wrong("no control characters, please");
          if (accept != nullptr) {
            if (auto accepted = accept(text); !accepted) return accepted;
          }
          at(config) = text;
          return {};
        },
        [at](const ServerConfig& config) { return at(config); });
  }

  template <class At>
  void boolean(std::string name, std::string help, At at) {
    add(
        std::move(name), Kind::boolean, std::move(help),
        [at](ServerConfig& config, std::string_view text) -> Result<void> {
          if (text != "true" && text != "false") {
            return wrong(fmt::format("'{}' is neither true nor false", base::printable(text)));
          }
          at(config) = text == "true";
          return {};
        },
        [at](const ServerConfig& config) { return at(config) ? "true" : "false"; });
  }

  template <class At>
  void number(std::string name, std::uint32_t min, std::string help, At at) {
    add(
        std::move(name), Kind::number, std::move(help),
        [at, min](ServerConfig& config, std::string_view text) -> Result<void> {
          constexpr std::uint32_t max = 1'000'000'000;
          const auto value = parse_number(text, min, max);
          if (!value) return std::unexpected(value.error());
          at(config) = static_cast<std::uint32_t>(*value);
          return {};
        },
        [at](const ServerConfig& config) { return fmt::to_string(at(config)); });
  }

  template <class At>
  void bytes(std::string name, std::uint64_t min, std::string help, At at) {
    add(
        std::move(name), Kind::bytes, std::move(help),
        [at, min](ServerConfig& config, std::string_view text) -> Result<void> {
          const auto value = parse_bytes(text);
          if (!value) return std::unexpected(value.error());
          if (*value < min) return wrong(fmt::format("at least {}", format_bytes(min)));
          at(config) = *value;
          return {};
        },
        [at](const ServerConfig& config) { return format_bytes(at(config)); });
  }

  template <class At>
  void duration(std::string name, Duration min, std::string help, At at) {
    add(
        std::move(name), Kind::duration, std::move(help),
        [at, min](ServerConfig& config, std::string_view text) -> Result<void> {
          const auto value = parse_duration(text);
          if (!value) return std::unexpected(value.error());
          if (*value < min) return wrong(fmt::format("at least {}", format_duration(min)));
          at(config) = *value;
          return {};
        },
        [at](const ServerConfig& config) { return format_duration(at(config)); });
  }

  template <class Choice, class At>
  void choice(std::string name, const std::vector<std::pair<std::string, Choice>>& choices,
              std::string help, At at) {
    std::vector<std::string> names;
    for (const auto& [word, value] : choices)
      names.push_back(word);
    add(
        std::move(name), Kind::choice, std::move(help),
        [at, choices, names](ServerConfig& config, std::string_view text) -> Result<void> {
          for (const auto& [word, value] : choices) {
            if (word != text) continue;
            at(config) = value;
            return {};
          }
          return wrong(fmt::format("there is no '{}'{} (there are {})", base::printable(text),
                                   base::suggestion(text, names), fmt::join(names, ", ")));
        },
        [at, choices](const ServerConfig& config) {
          for (const auto& [word, value] : choices)
            if (value == at(config)) return word;
          return std::string();
        });
    rows.back().choices = std::move(names);
  }

  std::vector<Setting> rows;

 private:
  void add(std::string name, Kind kind, std::string help,
           std::function<Result<void>(ServerConfig&, std::string_view)> set,
           std::function<std::string(const ServerConfig&)> get) {
    std::string flag = flag_of(name);
    rows.push_back({.name = std::move(name),
                    .flag = std::move(flag),
                    .kind = kind,
                    .help = std::move(help),
                    .choices = {},
                    .set = std::move(set),
                    .get = std::move(get)});
  }
};

// A member of the configuration, by its path, for reading and for writing.
#define AT(path) ([](auto& config) -> auto& { return config.path; })

void add_general(Table& table) {
  table.text("tokens", "The file with the tokens; empty: everybody may do everything", AT(tokens));
  table.boolean("insecure", "Listen beyond this machine although there is no TLS", AT(insecure));
  table.duration("patience", Duration{0}, "How long calls that run may take to end when it stops",
                 AT(patience));
}

void add_store(Table& table) {
  table.text("store.url", "The store: rocksdb:PATH, sqlite:PATH, memory:, postgres://HOST/DATABASE",
             AT(store.url));
  table.bytes("store.cache_bytes", std::uint64_t{1} << 20U,
              "Memory for buffers and caches of a store on disk", AT(store.cache_bytes));
  table.bytes("store.memory_bytes_max", std::uint64_t{1} << 20U,
              "What waiting messages may take of memory; sends beyond it are refused",
              AT(store.memory_bytes_max));
  table.bytes("store.disk_reserve_bytes", 0, "With less left on the disk than this, no more sends",
              AT(store.disk_reserve_bytes));
  table.bytes("store.disk_settle_reserve_bytes", 0,
              "With less left than this, no more settles that also send",
              AT(store.disk_settle_reserve_bytes));
  table.bytes("store.body_bytes_max", 1, "The largest body of a message", AT(store.body_bytes_max));
}

void add_http(Table& table) {
  constexpr Duration least{1};
  table.text("http.listen", "Address of the admin API, the dashboard and /metrics; empty: none",
             AT(http.listen), check_listen);
  table.bytes("http.header_bytes", 256, "The largest header of a request", AT(http.header_bytes));
  table.bytes("http.body_bytes", 0, "The largest body of a request", AT(http.body_bytes));
  table.number("http.json_depth", 1, "How deep JSON may be nested", AT(http.json_depth));
  table.number("http.connections", 1, "Connections at a time", AT(http.connections));
  table.number("http.in_flight", 1, "Requests at a time", AT(http.in_flight));
  table.number("http.streams", 0, "Event streams at a time", AT(http.streams));
  table.duration("http.header_timeout", least, "For a header to arrive", AT(http.header_timeout));
  table.duration("http.body_timeout", least, "For a body to arrive", AT(http.body_timeout));
  table.duration("http.idle_timeout", least, "A connection without a request is closed after it",
                 AT(http.idle_timeout));
  table.duration("http.write_timeout", least, "For an answer to be taken", AT(http.write_timeout));
}

void add_grpc(Table& table) {
  table.text("grpc.listen", "Address for clients; empty: none", AT(grpc.listen), check_listen);
  // A transaction must fit, of 16 MiB and what its parts take on the wire.
  table.bytes("grpc.message_bytes", std::size_t{24} << 20U, "The largest request; 24MiB at least",
              AT(grpc.message_bytes));
  table.bytes("grpc.memory_bytes", std::size_t{64} << 20U,
              "Memory for what is received and sent over gRPC; 64MiB at least",
              AT(grpc.memory_bytes));
  table.number("grpc.connections", 0, "Connections at a time; 0: no limit", AT(grpc.connections));
  table.number("grpc.in_flight", 1, "Calls at a time of one connection", AT(grpc.in_flight));
  table.number("grpc.waits_max", 1, "Calls that wait for messages at a time", AT(grpc.waits_max));
  table.number("grpc.streams", 1, "Streams that watch at a time", AT(grpc.streams));
  table.duration("grpc.idle_timeout", Duration{0},
                 "A connection without a call is closed after it; 0s: never",
                 AT(grpc.idle_timeout));
}

void add_rest(Table& table) {
  table.text("tls.certificate",
             "PEM file with the certificate and those that signed it; empty: no TLS",
             AT(tls.certificate));
  table.text("tls.key", "PEM file with its key", AT(tls.key));
  table.text("tls.client_ca",
             "PEM file with who may sign certificates of clients; then they need one",
             AT(tls.client_ca));
  table.choice<LogFormat>("log.format", {{"text", LogFormat::text}, {"json", LogFormat::json}},
                          "text for people, json for programs", AT(log.format));
  table.choice<LogLevel>("log.level",
                         {{"debug", LogLevel::debug},
                          {"info", LogLevel::info},
                          {"warning", LogLevel::warning},
                          {"error", LogLevel::error}},
                         "The least that is logged", AT(log.level));
  table.number("metrics.queues_max", 0,
               "So many queues, those with the most messages, have metrics of their own",
               AT(metrics.queues_max));
  table.duration("metrics.interval", Duration{0},
                 "Figures of queues are not counted anew more often than this; 0s: at each look",
                 AT(metrics.interval));
}

#undef AT

}  // namespace

std::string Setting::environment() const {
  std::string result(environment_prefix);
  for (const char c : name)
    result += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}

std::string Setting::type() const {
  switch (kind) {
    case Kind::text:
      return "TEXT";
    case Kind::boolean:
      return "true|false";
    case Kind::number:
      return "N";
    case Kind::bytes:
      return "BYTES";
    case Kind::duration:
      return "D";
    case Kind::choice:
      return fmt::format("{}", fmt::join(choices, "|"));
  }
  return {};
}

std::span<const Setting> settings() {
  static const std::vector<Setting> all = [] {
    Table table;
    add_general(table);  // a TOML file has what is in no table first
    add_store(table);
    add_http(table);
    add_grpc(table);
    add_rest(table);
    return std::move(table.rows);
  }();
  return all;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::string_view digits = text;
  unsigned shift = 0;
  for (const auto& [suffix, bits] : {std::pair{"KiB", 10U}, {"MiB", 20U}, {"GiB", 30U}}) {
    if (!text.ends_with(suffix)) continue;
    digits.remove_suffix(3);
    shift = bits;
  }
  const auto number = parse_number(digits, 0, std::numeric_limits<std::int64_t>::max() >> shift);
  if (!number) {
    return wrong(fmt::format("'{}' is no size; write bytes, such as 65536, 64KiB or 1MiB",
                             base::printable(text)));
  }
  return *number << shift;
}

std::string format_bytes(std::uint64_t bytes) {
  for (const auto& [suffix, bits] : {std::pair{"GiB", 30U}, {"MiB", 20U}, {"KiB", 10U}}) {
    if (bytes != 0 && bytes % (std::uint64_t{1} << bits) == 0) {
      return fmt::format("{}{}", bytes >> bits, suffix);
    }
  }
  return fmt::to_string(bytes);
}

}  // namespace strand::server
