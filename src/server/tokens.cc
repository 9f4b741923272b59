#include "server/tokens.h"

#include <algorithm>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "base/planted.h"
#include "base/text.h"
#include "server/private_file.h"
#include "toml_file/section.h"

namespace strand::server {

namespace {

using toml_file::in_quotes;

constexpr std::string_view token_prefix = "strand_";
constexpr std::size_t tokens_max = 10'000;
constexpr std::size_t name_bytes_max = 100;
constexpr std::size_t pattern_bytes_max = 512;

std::unexpected<Error> wrong(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

std::string hex(const Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

std::optional<Digest> parse_hex(std::string_view text) {
  Digest digest{};
  if (text.size() != digest.size() * 2) return std::nullopt;
  const auto value_of = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = value_of(text[2 * i]);
    const int low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

void read_grants(toml_file::Section& section, Role role, TokenEntry& entry) {
  const std::string key(to_string(role));
  std::vector<std::string> patterns;
  section.texts(key, patterns);
  for (std::string& pattern : patterns) {
    if (auto good = check_pattern(pattern); !good) section.complain(key, good.error().message);
    entry.grants.push_back({.role = role, .pattern = std::move(pattern)});
  }
}

Result<TokenEntry> read_entry(const toml::table& table, const std::string& where) {
  TokenEntry entry;
  toml_file::Section section(table, where);
  std::string digest;
  std::string expires;
  section.text("name", entry.name);
  section.text("sha256", digest);
  for (const Role role : {Role::send, Role::receive, Role::admin})
    read_grants(section, role, entry);
  section.text("expires", expires);
  if (auto done = section.finish(); !done) return std::unexpected(done.error());

  if (entry.name.empty() || entry.name.size() > name_bytes_max ||
      !base::is_plain_text(entry.name)) {
    return wrong(fmt::format("{} name: write a name of at most {} bytes", where, name_bytes_max));
  }
  if (entry.name.starts_with(token_prefix)) {
    return wrong(where + " name: this looks like a token; names are shown in logs");
  }
  const auto bytes = parse_hex(digest);
  if (!bytes) {
    return wrong(where +
                 " sha256: write the 64 hexadecimal digits that `strand token new` printed; not "
                 "the token itself, which must be in no file of the server");
  }
  entry.digest = *bytes;
  if (!table.contains("expires")) return entry;
  const auto end = parse_time(expires);
  if (!end) return wrong(fmt::format("{} expires: {}", where, end.error().message));
  entry.expires = *end;
  return entry;
}

}  // namespace

std::string new_token() {
  std::array<std::uint8_t, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw std::runtime_error("there are no random bytes to be had");
  }
  std::string text = base::base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  OPENSSL_cleanse(bytes.data(), bytes.size());
  std::erase(text, '=');
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return std::string(token_prefix) + text;
}

Digest digest_of(std::string_view token) {
  Digest digest{};
  SHA256(reinterpret_cast<const std::uint8_t*>(token.data()), token.size(), digest.data());
  return digest;
}

std::string to_toml(const TokenEntry& entry) {
  std::string text = fmt::format("[[token]]\nname = {}\nsha256 = \"{}\"\n", in_quotes(entry.name),
                                 hex(entry.digest));
  for (const Role role : {Role::send, Role::receive, Role::admin}) {
    std::vector<std::string> patterns;
    for (const Permit::Grant& grant : entry.grants)
      if (grant.role == role) patterns.push_back(in_quotes(grant.pattern));
    if (patterns.empty()) continue;
    text += fmt::format("{} = [{}]\n", to_string(role), fmt::join(patterns, ", "));
  }
  if (entry.expires) text += fmt::format("expires = \"{}\"\n", format_time(*entry.expires));
  return text;
}

Result<void> check_pattern(std::string_view pattern) {
  const auto refuse = [&](std::string_view why) {
    return wrong(fmt::format("'{}' is no pattern of names: {}", base::printable(pattern), why));
  };
  if (pattern.empty()) return refuse("it is empty; '#' stands for all names");
  if (pattern.size() > pattern_bytes_max) return refuse("it is too long");
  if (!base::is_plain_text(pattern)) return refuse("it has control characters");
  std::string_view rest = pattern;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view segment = rest.substr(0, dot);
    const bool last = dot == std::string_view::npos;
    if (segment.empty()) return refuse("it has an empty segment; remove a dot");
    if (segment == "#" && !last) return refuse("'#' stands at the end only");
    if (segment.size() > 1 && segment.find_first_of("*#") != std::string_view::npos) {
      return refuse("'*' and '#' are whole segments, as in 'orders.*'");
    }
    if (last) return {};
    rest.remove_prefix(dot + 1);
  }
}

Result<std::vector<TokenEntry>> parse_tokens(std::string_view text, const std::string& file) {
  const auto root = toml_file::parse_secret(text, file);
  if (!root) return std::unexpected(root.error());
  std::vector<TokenEntry> entries;
  for (const auto& [key, value] : root->as_table()) {
    const std::string where = fmt::format("{}:{}:", file, toml_file::line_of(value));
    if (key != "token" || !value.is_array()) {
      return wrong(
          fmt::format("{} there is no '{}': a file of tokens has [[token]] and nothing else", where,
                      base::printable(key)));
    }
    if (value.as_array().size() > tokens_max) {
      return wrong(fmt::format("{} more than {} tokens", where, tokens_max));
    }
    std::set<std::string> names;
    std::set<Digest> digests;
    for (const toml::value& element : value.as_array()) {
      const std::string place = fmt::format("{}:{}: [[token]]", file, toml_file::line_of(element));
      if (!element.is_table()) return wrong(place + " write a table");
      auto entry = read_entry(element.as_table(), place);
      if (!entry) return std::unexpected(entry.error());
      if (!names.insert(entry->name).second) {
        return wrong(fmt::format("{} name: there is another token \"{}\"", place, entry->name));
      }
      if (!digests.insert(entry->digest).second) {
        return wrong(
            fmt::format("{} sha256: \"{}\" is a token that is already there", place, entry->name));
      }
      entries.push_back(*std::move(entry));
    }
  }
  return entries;
}

Result<void> append_token(const std::filesystem::path& file, const TokenEntry& entry) {
  return append_private(file, [&](std::string_view before) -> Result<std::string> {
    std::string added = to_toml(entry);
    if (!before.empty()) added.insert(0, before.ends_with('\n') ? "\n" : "\n\n");
    // What was there has to be right, and what is there then, too.
    if (auto old = parse_tokens(before, file.string()); !old) return std::unexpected(old.error());
    const auto both = parse_tokens(std::string(before) + added, file.string());
    if (!both) return std::unexpected(both.error());
    return added;
  });
}

TokenAccess::TokenAccess(std::filesystem::path file, std::shared_ptr<Clock> clock)
    : file_(std::move(file)), clock_(clock ? std::move(clock) : system_clock()) {}

Result<std::unique_ptr<TokenAccess>> TokenAccess::open(std::filesystem::path file,
                                                       std::shared_ptr<Clock> clock) {
  std::unique_ptr<TokenAccess> access(new TokenAccess(std::move(file), std::move(clock)));
  access->tokens_ = std::make_shared<const Tokens>();
  if (auto loaded = access->reload(); !loaded) return std::unexpected(loaded.error());
  return access;
}

Result<void> TokenAccess::reload() {
  if (STRAND_PLANTED("failed-reload-forgets-tokens")) {
    const std::lock_guard lock(mutex_);
    tokens_ = std::make_shared<const Tokens>(Tokens{{}, {}, tokens_->generation + 1});
  }
  const auto text = read_private(file_);
  if (!text) return std::unexpected(text.error());
  auto entries = parse_tokens(*text, file_.string());
  if (!entries) return std::unexpected(entries.error());
  auto fresh = std::make_shared<Tokens>();
  for (TokenEntry& entry : *entries) {
    Known& known = fresh->known.emplace_back();
    known.digest = entry.digest;
    known.permit = std::make_shared<const Permit>(std::move(entry.name), std::move(entry.grants));
    known.expires = entry.expires.value_or(Time::max());
    if (entry.expires) fresh->ends.push_back(*entry.expires);
  }
  std::ranges::sort(fresh->ends);
  const std::lock_guard lock(mutex_);
  // Above all that was shown of the tokens before, expired ones included.
  fresh->generation = tokens_->generation + tokens_->ends.size() + 1;
  tokens_ = std::move(fresh);
  return {};
}

std::shared_ptr<const TokenAccess::Tokens> TokenAccess::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

Result<std::shared_ptr<const Permit>> TokenAccess::admit(
    std::optional<std::string_view> bearer) const {
  const auto tokens = this->tokens();
  const Digest digest = digest_of(bearer.value_or(""));
  const Known* found = nullptr;
  for (const Known& known : tokens->known) {
    if (CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) found = &known;
  }
  const bool expired = found != nullptr && clock_->wall() >= found->expires &&
                       !STRAND_PLANTED("expired-token-admitted");
  if (!bearer || found == nullptr || expired) {
    return failure(Errc::forbidden,
                   "this server wants a token, and none that it knows has come; bring one that is "
                   "good as \"authorization: Bearer TOKEN\"");
  }
  return found->permit;
}

std::uint64_t TokenAccess::Tokens::generation_at(Time now) const {
  const auto expired = std::ranges::upper_bound(ends, now) - ends.begin();
  return generation + static_cast<std::uint64_t>(expired);
}

std::uint64_t TokenAccess::generation() const { return tokens()->generation_at(clock_->wall()); }

std::size_t TokenAccess::size() const { return tokens()->known.size(); }

}  // namespace strand::server
