#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml.hpp>

#include <strand/error.h>
#include <strand/time.h>

namespace strand::toml_file {

// One table of a TOML file while it is read. Each call takes one key, if it is there, into its
// target. The first error is kept, and finish() returns it, or complains about a key that nobody
// asked for.
class Section {
 public:
  Section(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  void text(const std::string& key, std::string& target);
  void text(const std::string& key, std::optional<std::string>& target);
  void number(const std::string& key, std::uint32_t& target, std::uint32_t min);
  void boolean(const std::string& key, bool& target);
  void duration(const std::string& key, Duration& target);
  // Empty text: none.
  void duration(const std::string& key, std::optional<Duration>& target);
  void durations(const std::string& key, std::vector<Duration>& target);
  void texts(const std::string& key, std::vector<std::string>& target);
  void map(const std::string& key, std::map<std::string, std::string>& target);

  template <class Choice>
  void choice(const std::string& key, Choice& target,
              const std::vector<std::pair<std::string, Choice>>& choices) {
    std::string word;
    text(key, word);
    if (word.empty()) return;
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) {
      if (name == word) {
        target = value;
        return;
      }
      names.push_back(name);
    }
    complain_choice(key, word, names);
  }

  // A table within this one, or nothing.
  const toml::table* inner(const std::string& key);

  void complain(const std::string& key, std::string_view what);
  [[nodiscard]] Result<void> finish();

 private:
  const toml::value* find(const std::string& key);
  void complain_choice(const std::string& key, const std::string& word,
                       const std::vector<std::string>& names);

  const toml::table& table_;
  std::string where_;  // such as "relay.toml: [tables.outbox]"
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

// Reads a whole file, or says in one line what is wrong with it, and where. `name` is for
// complaints.
Result<toml::value> parse(std::string_view text, const std::string& name);
// The same for a file with secrets: a complaint names the line, and shows nothing of it.
Result<toml::value> parse_secret(std::string_view text, const std::string& name);

// The line on which a value stands, in the text that it was read from.
std::size_t line_of(const toml::value& value);

// Text as TOML writes it, in quotes. It has no control characters.
std::string in_quotes(std::string_view text);

// A value as the text that it would be on a command line: numbers and booleans too. Nothing for
// tables, arrays and times.
std::optional<std::string> plain_text(const toml::value& value);

}  // namespace strand::toml_file
