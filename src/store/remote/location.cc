#include "store/remote/location.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::remote {

namespace {

std::unexpected<Error> refuse(std::string_view url, std::string_view why) {
  return failure(Errc::invalid_argument,
                 fmt::format("\"{}\" {}; write strand://HOST:PORT", base::printable(url), why));
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned char byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* first = text.data() + i + 1;
    const auto [end, error] = std::from_chars(first, first + 2, byte, 16);
    if (error != std::errc{} || end != first + 2 || byte == 0) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

Result<void> read_options(std::string_view url, std::string_view options, Location& location) {
  const std::array<std::pair<std::string_view, std::string*>, 4> known = {{
      {"token-file", &location.token_file},
      {"ca", &location.ca_file},
      {"cert", &location.certificate_file},
      {"key", &location.key_file},
  }};
  while (!options.empty()) {
    const std::size_t end = options.find('&');
    const std::string_view option = options.substr(0, end);
    options = end == std::string_view::npos ? std::string_view{} : options.substr(end + 1);
    const std::size_t equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    std::string* field = nullptr;
    for (const auto& [known_name, known_field] : known) {
      if (known_name == name) field = known_field;
    }
    if (field == nullptr) {
      return refuse(url,
                    fmt::format("has the unknown option \"{}\"; there are token-file, ca, cert "
                                "and key",
                                base::printable(name)));
    }
    const auto value = equals == std::string_view::npos
                           ? std::nullopt
                           : percent_decoded(option.substr(equals + 1));
    if (!value || value->empty()) {
      return refuse(url, fmt::format("has no path behind \"{}=\"", base::printable(name)));
    }
    *field = *value;
  }
  return {};
}

Result<void> read_host(std::string_view url, std::string_view place, Location& location) {
  std::string_view port;
  bool has_port = false;
  if (place.starts_with('[')) {
    const std::size_t close = place.find(']');
    if (close == std::string_view::npos) return refuse(url, "has a '[' without a ']'");
    location.host = place.substr(1, close - 1);
    const std::string_view rest = place.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port) return refuse(url, "has something behind the ']'");
    if (has_port) port = rest.substr(1);
  } else {
    const std::size_t colon = place.find(':');
    location.host = place.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = place.substr(colon + 1);
  }
  if (location.host.empty()) return refuse(url, "names no host");
  for (const char c : location.host) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == '_' || c == ':' || c == '%';
    if (!good) return refuse(url, "has a character in its host that no host has");
  }
  if (has_port) {
    const auto number = port_of(port);
    if (!number) return refuse(url, "has no port from 1 to 65535 behind the colon");
    location.port = *number;
  }
  return {};
}

}  // namespace

std::string Location::address() const {
  return host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port)
                                             : fmt::format("{}:{}", host, port);
}

Result<Location> parse_location(std::string_view url) {
  Location location;
  std::string_view rest = url;
  if (rest.starts_with("strands:")) {
    location.tls = true;
    rest.remove_prefix(std::string_view("strands:").size());
  } else if (rest.starts_with("strand:")) {
    rest.remove_prefix(std::string_view("strand:").size());
  }
  if (!rest.starts_with("//")) return refuse(url, "has no \"//\" behind the colon");
  rest.remove_prefix(2);
  const std::size_t question = rest.find('?');
  std::string_view place = rest.substr(0, question);
  if (place.ends_with('/')) place.remove_suffix(1);
  if (auto read = read_host(url, place, location); !read) {
    return std::unexpected(std::move(read).error());
  }
  if (question != std::string_view::npos) {
    if (auto read = read_options(url, rest.substr(question + 1), location); !read) {
      return std::unexpected(std::move(read).error());
    }
  }
  if (!location.tls &&
      !(location.ca_file + location.certificate_file + location.key_file).empty()) {
    return refuse(url, "names certificates, but is not strands://");
  }
  if (location.certificate_file.empty() != location.key_file.empty()) {
    return refuse(url, "needs cert and key together");
  }
  return location;
}

}  // namespace strand::remote
