#pragma once

#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::remote {

// Where a server is, and how to be let in.
//
//   strand://HOST[:PORT]    as it is
//   strands://HOST[:PORT]   over TLS
//
// Behind a '?', separated by '&': token-file=PATH (the bearer token is its first line), and for TLS
// ca=PATH (certificates that are trusted; the system's by default), cert=PATH and key=PATH (of the
// client). Without token-file, the environment's STRAND_TOKEN_FILE names one. A token itself is
// never part of a URL, because URLs are seen by everyone on the machine.
struct Location {
  std::string host;
  std::uint16_t port = 7481;
  bool tls = false;
  std::string token_file;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;

  // As people and gRPC write it: HOST:PORT, with brackets around an IPv6 address.
  [[nodiscard]] std::string address() const;
};

Result<Location> parse_location(std::string_view url);

}  // namespace strand::remote
