// Files of a server: the configuration and the tokens. They are read or refused in one plain line;
// what was read is written so that it reads back.

#include <string>
#include <string_view>

#include "base/text.h"
#include "fuzz/target.h"
#include "server/config.h"
#include "server/tokens.h"

namespace strand::fuzz {

namespace {

void require_clear(const Error& error) {
  FUZZ_REQUIRE(error.code == Errc::invalid_argument, "a file is refused as bad");
  FUZZ_REQUIRE(!error.message.empty() && base::is_plain_text(error.message),
               "a refusal is one line that a terminal can show");
}

void read_as_config(std::string_view text) {
  server::ServerConfig config;
  if (const auto read = server::read_config(text, "file", config); !read) {
    return require_clear(read.error());
  }
  server::ServerConfig again;
  FUZZ_REQUIRE(server::read_config(server::print(config), "printed", again) && again == config,
               "what is printed reads back to the same");
  if (const auto checked = server::check(config); !checked) require_clear(checked.error());
}

void read_as_tokens(std::string_view text) {
  const auto entries = server::parse_tokens(text, "file");
  if (!entries) return require_clear(entries.error());
  std::string written;
  for (const server::TokenEntry& entry : *entries)
    written += server::to_toml(entry);
  const auto again = server::parse_tokens(written, "written");
  FUZZ_REQUIRE(again && again->size() == entries->size(), "entries read back");
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const server::TokenEntry& before = (*entries)[i];
    const server::TokenEntry& after = (*again)[i];
    FUZZ_REQUIRE(after.name == before.name && after.digest == before.digest &&
                     after.expires == before.expires && after.grants.size() == before.grants.size(),
                 "an entry reads back as it was");
  }
}

void run(std::string_view text) {
  read_as_config(text);
  read_as_tokens(text);
}

const Target target("server_config", run, 2'000);

}  // namespace

}  // namespace strand::fuzz
