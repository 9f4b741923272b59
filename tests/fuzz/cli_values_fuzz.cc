// What people type behind options of the program: numbers, ids, headers, settings. What is taken is
// what was written, and a refusal is one line.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/errors.h"
#include "cli/settings.h"
#include "cli/values.h"
#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

void is_refusal(const Error& error) {
  FUZZ_REQUIRE(error.code == Errc::invalid_argument, "what was mistyped is a bad argument");
  FUZZ_REQUIRE(!error.message.empty() && base::is_utf8(error.message),
               "a refusal is text that a terminal can show");
}

template <class T>
void read_number(std::string_view text, T min, T max) {
  const auto number = cli::parse_number<T>(text, min, max);
  if (!number) return is_refusal(number.error());
  FUZZ_REQUIRE(*number >= min && *number <= max, "a number is in its range");
  const std::size_t zeros = std::min(text.find_first_not_of('0'), text.size() - 1);
  FUZZ_REQUIRE(fmt::to_string(*number) == text.substr(zeros), "and the one that was written");
}

void read_header(std::string_view text) {
  const auto header = cli::parse_header(text);
  if (!header) {
    FUZZ_REQUIRE(text.empty() || text.front() == '=' || text.find('=') == std::string_view::npos,
                 "NAME=VALUE is a header");
    return is_refusal(header.error());
  }
  FUZZ_REQUIRE(header->name + "=" + header->value == text, "a header is what was written");
  FUZZ_REQUIRE(!header->name.empty() && header->name.find('=') == std::string::npos,
               "the first '=' ends the name");
}

void read_setting(std::string_view text) {
  QueueSettings settings;
  if (const auto done = cli::set_setting(settings, text); !done) {
    FUZZ_REQUIRE(settings == QueueSettings{}, "what is refused changes nothing");
    return is_refusal(done.error());
  }
  // All settings as text make the same settings of any other ones.
  QueueSettings again;
  again.max_attempts = 77;
  again.backoff.clear();
  again.ttl = Duration{1};
  for (const cli::Setting& setting : cli::list_settings(settings)) {
    FUZZ_REQUIRE(cli::set_setting(again, setting.name + "=" + setting.value),
                 "what is listed can be set");
  }
  FUZZ_REQUIRE(again == settings, "and is the same then");
}

void run(std::string_view text) {
  read_number<std::uint32_t>(text, 0, UINT32_MAX);
  read_number<std::uint32_t>(text, 1, 10'000);
  read_number<std::uint64_t>(text, 0, UINT64_MAX);
  const auto id = cli::parse_id(text);
  FUZZ_REQUIRE(id.has_value() == cli::parse_number<std::uint64_t>(text, 0).has_value(),
               "every number is an id, and nothing else is");
  read_header(text);
  read_setting(text);
  if (text.size() > 200) return;  // the next one takes the square of it
  const std::string hint = cli::suggestion(text, cli::setting_names());
  FUZZ_REQUIRE(hint.empty() || hint.starts_with("; did you mean '"), "a suggestion, or none");
}

const Target target("cli_values", run, 4'000);

}  // namespace

}  // namespace strand::fuzz
