#include "store/url.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::store {

namespace {

constexpr std::string_view supported =
    "rocksdb:PATH, sqlite:PATH, postgres://…, strand://HOST:PORT, memory: and memory:NAME";

bool is_scheme(std::string_view text) {
  // As RFC 3986 has it; so neither a path nor text with blanks is mistaken for one.
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto other = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, other);
}

// Where a store on disk lies. '?' is kept for options that may come.
Result<Url> on_disk(Url::Scheme scheme, std::string_view text, std::string_view path) {
  if (path.empty()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("\"{}\" names no path; write one behind the colon", base::printable(text)));
  }
  if (path.find('?') != std::string_view::npos || path.find('\0') != std::string_view::npos) {
    return failure(Errc::invalid_argument,
                   fmt::format("\"{}\" has a '?' or a zero byte in its path; name another path",
                               base::printable(text)));
  }
  return Url{scheme, std::string(path)};
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  if (text.empty()) {
    return failure(Errc::invalid_argument,
                   fmt::format("the URL of the store is empty; supported are {}", supported));
  }
  const std::size_t colon = text.find(':');
  const std::string_view scheme = text.substr(0, colon);
  if (colon == std::string_view::npos || !is_scheme(scheme)) {
    return failure(Errc::invalid_argument,
                   fmt::format("\"{}\" is not the URL of a store, because it does not start with a "
                               "kind of store and a colon; supported are {}",
                               base::printable(text), supported));
  }
  const std::string_view rest = text.substr(colon + 1);
  if (scheme == "memory") return Url{Url::Scheme::memory, std::string(rest)};
  if (scheme == "rocksdb") return on_disk(Url::Scheme::rocksdb, text, rest);
  if (scheme == "sqlite") return on_disk(Url::Scheme::sqlite, text, rest);
  const bool database = scheme == "postgres" || scheme == "postgresql";
  if (database || scheme == "strand" || scheme == "strands") {
    if (text.find('\0') != std::string_view::npos) {
      return failure(Errc::invalid_argument,
                     fmt::format("\"{}\" has a zero byte in it", base::printable(text)));
    }
    return Url{database ? Url::Scheme::postgres : Url::Scheme::strand, std::string(text)};
  }
  return failure(Errc::unsupported,
                 fmt::format("there is no kind of store named \"{}:\"; supported are {}",
                             base::printable(scheme), supported));
}

}  // namespace strand::store
