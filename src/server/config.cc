#include "server/config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/planted.h"
#include "base/text.h"
#include "toml_file/section.h"

namespace strand::server {

namespace {

using Kind = Setting::Kind;

std::unexpected<Error> wrong(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

const Setting* find_setting(std::string_view name) {
  const auto all = settings();
  const auto found = std::ranges::find(all, name, &Setting::name);
  return found == all.end() ? nullptr : &*found;
}

// The first setting of the table `name`.
const Setting* first_of_table(const std::string& name) {
  const auto all = settings();
  const auto found = std::ranges::find_if(
      all, [&](const Setting& setting) { return setting.name.starts_with(name + "."); });
  return found == all.end() ? nullptr : &*found;
}

template <class Name>
std::string suggest(std::string_view word, Name name) {
  std::vector<std::string> known;
  for (const Setting& setting : settings())
    known.push_back(std::invoke(name, setting));
  return base::suggestion(word, known);
}

Result<void> set(const Setting& setting, std::string_view text, const std::string& where,
                 ServerConfig& config) {
  auto done = setting.set(config, text);
  if (!done) return wrong(fmt::format("{}: {}", where, done.error().message));
  return {};
}

// --- The file ---

// The value as it would be written on a command line; an error says how to write it here.
Result<std::string> text_of(const Setting& setting, const toml::value& value) {
  switch (setting.kind) {
    case Kind::boolean:
      if (!value.is_boolean()) return wrong("write true or false, without quotes");
      break;
    case Kind::number:
      if (!value.is_integer()) return wrong("write a whole number, without quotes");
      break;
    case Kind::bytes:
      if (!value.is_integer() && !value.is_string()) {
        return wrong("write a number of bytes, or a text such as \"64KiB\"");
      }
      break;
    case Kind::duration:
      if (!value.is_string()) return wrong("write a duration in quotes, such as \"250ms\"");
      break;
    case Kind::text:
    case Kind::choice:
      if (!value.is_string()) return wrong("write a text in quotes");
      break;
  }
  return toml_file::plain_text(value).value_or("");
}

std::unexpected<Error> unknown_key(const std::string& name, const std::string& where) {
  if (const Setting* first = first_of_table(name)) {
    return wrong(fmt::format("{}: {} is a table; did you mean '{}'?", where, name, first->name));
  }
  return wrong(fmt::format("{}: there is no setting '{}'{}", where, base::printable(name),
                           suggest(name, [](const Setting& setting) { return setting.name; })));
}

Result<void> read_table(const toml::table& table, const std::string& prefix,
                        const std::string& file, ServerConfig& config) {
  std::vector<const toml::table::value_type*> entries;
  for (const auto& entry : table)
    entries.push_back(&entry);
  // The table has no order, and the first complaint should be about the first mistake.
  std::ranges::sort(entries, {}, [](const auto* entry) {
    return std::pair(toml_file::line_of(entry->second), entry->first);
  });
  for (const auto* entry : entries) {
    const auto& [key, value] = *entry;
    const std::string name = prefix + key;
    const std::string where = fmt::format("{}:{}", file, toml_file::line_of(value));
    if (value.is_table() && first_of_table(name) != nullptr) {
      if (auto done = read_table(value.as_table(), name + ".", file, config); !done) return done;
      continue;
    }
    const Setting* setting = find_setting(name);
    if (setting == nullptr) return unknown_key(name, where);
    const auto text = text_of(*setting, value);
    if (!text) return wrong(fmt::format("{}: {}: {}", where, name, text.error().message));
    auto done = set(*setting, *text, fmt::format("{}: {}", where, name), config);
    if (!done) return done;
  }
  return {};
}

Result<void> read_file(const std::string& path, ServerConfig& config) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file has nothing to copy, which the stream takes for a failure. A folder can be
  // opened, but not read.
  const bool empty = file && file.peek() == std::ifstream::traits_type::eof() && !file.bad();
  if (!empty && !(file && text << file.rdbuf())) {
    return failure(Errc::not_found,
                   fmt::format("cannot read the configuration {}: name a file with --config",
                               base::printable(path)));
  }
  return read_config(text.str(), base::printable(path), config);
}

// --- Environment and flags ---

using Pairs = std::vector<std::pair<std::string, std::string>>;

Result<void> read_environment(const Pairs& environment, ServerConfig& config) {
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(environment_prefix) || name == environment_file) continue;
    const auto all = settings();
    const auto found = std::ranges::find(all, name, &Setting::environment);
    if (found == all.end()) {
      return wrong(fmt::format("the environment has {}, which is no setting{}",
                               base::printable(name), suggest(name, &Setting::environment)));
    }
    if (auto done = set(*found, value, name, config); !done) return done;
  }
  return {};
}

Result<void> read_flags(const Pairs& flags, ServerConfig& config) {
  for (const auto& [name, value] : flags) {
    const Setting* setting = find_setting(name);
    if (setting == nullptr) return unknown_key(name, "the command line");
    if (auto done = set(*setting, value, setting->flag, config); !done) return done;
  }
  return {};
}

// A value as TOML writes it.
std::string toml_of(const Setting& setting, const std::string& text) {
  const bool plain =
      setting.kind == Kind::boolean || setting.kind == Kind::number ||
      (setting.kind == Kind::bytes && text.find_first_not_of("0123456789") == std::string::npos);
  return plain ? text : toml_file::in_quotes(text);
}

Result<void> check_open(std::string_view name, const std::string& listen,
                        const ServerConfig& config) {
  if (listen.empty() || config.tls.on() || config.insecure) return {};
  const auto address = parse_address(listen);
  if (!address) return std::unexpected(address.error());
  if (address->loopback()) return {};
  return wrong(fmt::format(
      "{}: {} can be reached from other machines, and there is no TLS: set tls.certificate and "
      "tls.key, or listen on 127.0.0.1, or say insecure if the network is safe",
      name, base::printable(listen)));
}

}  // namespace

OpenOptions StoreConfig::open_options() const {
  OpenOptions options;
  options.cache_bytes = cache_bytes;
  options.limits.memory_bytes_max = memory_bytes_max;
  options.limits.disk_reserve_bytes = disk_reserve_bytes;
  options.limits.disk_settle_reserve_bytes = disk_settle_reserve_bytes;
  options.limits.body_bytes_max = body_bytes_max;
  return options;
}

Result<void> read_config(std::string_view text, const std::string& name, ServerConfig& config) {
  const auto root = toml_file::parse(text, name);
  if (!root) return std::unexpected(root.error());
  return read_table(root->as_table(), "", name, config);
}

Result<ServerConfig> load_config(const ConfigSources& sources) {
  ServerConfig config;
  std::optional<std::string> file = sources.file;
  for (const auto& [name, value] : sources.environment)
    if (name == environment_file && !file && !value.empty()) file = value;
  Result<void> done;
  if (file) done = read_file(*file, config);
  if (STRAND_PLANTED("environment-beats-flags")) {
    if (done) done = read_flags(sources.flags, config);
    if (done) done = read_environment(sources.environment, config);
  } else {
    if (done) done = read_environment(sources.environment, config);
    if (done) done = read_flags(sources.flags, config);
  }
  if (done) done = check(config);
  if (!done) return std::unexpected(done.error());
  return config;
}

Result<void> check(const ServerConfig& config) {
  if (config.http.listen.empty() && config.grpc.listen.empty()) {
    return wrong("http.listen and grpc.listen are both empty: a server has to listen somewhere");
  }
  if (config.store.url.empty()) {
    return wrong("store.url: name the store, such as \"rocksdb:strand-data\"");
  }
  if (config.store.url.starts_with("strand:")) {
    return wrong("store.url: a server serves a store, and not another server");
  }
  if (config.tls.on() && config.tls.key.empty()) {
    return wrong("tls.key: tls.certificate needs the key that belongs to it");
  }
  if (!config.tls.on() && !config.tls.key.empty()) {
    return wrong("tls.certificate: tls.key needs the certificate that belongs to it");
  }
  if (!config.tls.on() && !config.tls.client_ca.empty()) {
    return wrong("tls.certificate: tls.client_ca needs TLS, which needs a certificate and a key");
  }
  if (config.store.disk_settle_reserve_bytes > config.store.disk_reserve_bytes) {
    return wrong("store.disk_settle_reserve_bytes: at most store.disk_reserve_bytes");
  }
  if (auto done = check_open("http.listen", config.http.listen, config); !done) return done;
  return check_open("grpc.listen", config.grpc.listen, config);
}

std::string print(const ServerConfig& config) {
  std::string text;
  std::string table;
  for (const Setting& setting : settings()) {
    const std::size_t dot = setting.name.find('.');
    std::string own = dot == std::string::npos ? "" : setting.name.substr(0, dot);
    if (own != table) {
      text += fmt::format("\n[{}]\n", own);
      table = std::move(own);
    }
    text += fmt::format("# {}\n{} = {}\n", setting.help,
                        setting.name.substr(dot == std::string::npos ? 0 : dot + 1),
                        toml_of(setting, setting.get(config)));
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

bool Address::loopback() const {
  if (host == "localhost") return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24U == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Result<Address> parse_address(std::string_view text) {
  const auto refuse = [&] {
    return wrong(fmt::format(
        "'{}' is no address; write HOST:PORT, such as \"127.0.0.1:7480\" or \"[::1]:7480\"",
        base::printable(text)));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return refuse();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.find_first_of("[]/ ") != std::string_view::npos) return refuse();
  in6_addr six{};
  const bool is_six = ::inet_pton(AF_INET6, std::string(host).c_str(), &six) == 1;
  if (bracketed != is_six) return refuse();
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return refuse();
  return Address{.host = std::string(host), .port = port};
}

}  // namespace strand::server
