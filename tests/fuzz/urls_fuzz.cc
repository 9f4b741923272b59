// URLs of stores: what is taken apart can be put together again, and a refusal says what to write.

#include <string>
#include <string_view>

#include "base/text.h"
#include "fuzz/target.h"
#include "store/postgres/location.h"
#include "store/remote/location.h"
#include "store/url.h"

namespace strand::fuzz {

namespace {

std::string_view scheme_of(store::Url::Scheme scheme) {
  switch (scheme) {
    case store::Url::Scheme::memory:
      return "memory";
    case store::Url::Scheme::rocksdb:
      return "rocksdb";
    case store::Url::Scheme::sqlite:
      return "sqlite";
    case store::Url::Scheme::postgres:
    case store::Url::Scheme::strand:
      return "";  // read as a whole
  }
  return {};
}

void require_clear(const Error& error) {
  FUZZ_REQUIRE(error.code == Errc::invalid_argument || error.code == Errc::unsupported,
               "a URL is refused as bad, or as unsupported");
  FUZZ_REQUIRE(!error.message.empty() && base::is_plain_text(error.message),
               "a refusal is one line that a terminal can show");
}

void locate(const std::string& text) {
  const auto location = postgres::parse_location(text);
  if (!location) return require_clear(location.error());
  FUZZ_REQUIRE(!location->schema.empty() && location->connections_max > 0,
               "a store has a schema, and may connect to it");
}

void locate_server(const std::string& text) {
  const auto location = remote::parse_location(text);
  if (!location) return require_clear(location.error());
  FUZZ_REQUIRE(!location->host.empty() && location->port > 0, "a server has a host and a port");
  FUZZ_REQUIRE(location->tls || location->ca_file.empty(), "certificates are for TLS");
}

void run(std::string_view text) {
  const auto url = store::parse_url(text);
  if (url) {
    const std::string scheme(scheme_of(url->scheme));
    const std::string again = scheme.empty() ? url->rest : scheme + ":" + url->rest;
    FUZZ_REQUIRE(again == text, "a URL is its kind, a colon and the rest, and nothing else");
    const bool on_disk = url->scheme != store::Url::Scheme::memory;
    FUZZ_REQUIRE(!on_disk || !url->rest.empty(), "a store on disk has a path");
    FUZZ_REQUIRE(!on_disk || url->rest.find('\0') == std::string::npos,
                 "a path with a zero byte would name another file than it says");
    if (url->scheme == store::Url::Scheme::postgres) locate(url->rest);
    if (url->scheme == store::Url::Scheme::strand) locate_server(url->rest);
    return;
  }
  require_clear(url.error());
}

const Target target("urls", run);

}  // namespace

}  // namespace strand::fuzz
