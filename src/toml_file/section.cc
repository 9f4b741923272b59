#include "toml_file/section.h"

#include <exception>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "base/text.h"

namespace strand::toml_file {

namespace {

// toml11 explains with a picture of the place, on several lines.
std::string one_line(std::string_view what) {
  std::string result;
  for (const char c : what)
    result += c == '\n' ? ' ' : c;
  return result;
}

}  // namespace

Result<toml::value> parse(std::string_view text, const std::string& name) {
  try {
    std::istringstream stream{std::string(text)};
    return toml::parse(stream, name);
  } catch (const std::exception& error) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is no TOML: {}", name, base::escaped(one_line(error.what()))));
  }
}

Result<toml::value> parse_secret(std::string_view text, const std::string& name) {
  try {
    std::istringstream stream{std::string(text)};
    return toml::parse(stream, name);
  } catch (const toml::exception& error) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}:{}: this is no TOML", name, error.location().line()));
  } catch (const std::exception&) {
    return failure(Errc::invalid_argument, name + " is no TOML");
  }
}

std::size_t line_of(const toml::value& value) { return value.location().line(); }

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::optional<std::string> plain_text(const toml::value& value) {
  if (value.is_string()) return value.as_string().str;
  if (value.is_boolean()) return value.as_boolean() ? "true" : "false";
  if (value.is_integer()) return fmt::to_string(value.as_integer());
  if (value.is_floating()) return fmt::to_string(value.as_floating());
  return std::nullopt;
}

const toml::value* Section::find(const std::string& key) {
  known_.push_back(key);
  const auto found = table_.find(key);
  return found == table_.end() ? nullptr : &found->second;
}

void Section::complain(const std::string& key, std::string_view what) {
  if (error_) return;
  error_ = Error{Errc::invalid_argument, fmt::format("{} {}: {}", where_, key, what)};
}

void Section::complain_choice(const std::string& key, const std::string& word,
                              const std::vector<std::string>& names) {
  complain(key, fmt::format("there is no '{}'{} (there are {})", base::printable(word),
                            base::suggestion(word, names), fmt::join(names, ", ")));
}

void Section::text(const std::string& key, std::string& target) {
  const toml::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return complain(key, "write a text in quotes");
  target = value->as_string().str;
}

void Section::text(const std::string& key, std::optional<std::string>& target) {
  if (table_.contains(key)) {
    text(key, target.emplace());
  } else {
    known_.push_back(key);
  }
}

void Section::number(const std::string& key, std::uint32_t& target, std::uint32_t min) {
  const toml::value* value = find(key);
  if (value == nullptr) return;
  constexpr std::int64_t max = 1'000'000;
  if (!value->is_integer() || value->as_integer() < min || value->as_integer() > max) {
    return complain(key, fmt::format("write a whole number from {} to {}", min, max));
  }
  target = static_cast<std::uint32_t>(value->as_integer());
}

void Section::boolean(const std::string& key, bool& target) {
  const toml::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return complain(key, "write true or false");
  target = value->as_boolean();
}

void Section::duration(const std::string& key, Duration& target) {
  std::string word;
  text(key, word);
  if (word.empty()) {
    if (table_.contains(key)) complain(key, "write a duration such as \"250ms\" or \"30s\"");
    return;
  }
  const auto parsed = parse_duration(word);
  if (!parsed) return complain(key, parsed.error().message);
  target = *parsed;
}

void Section::duration(const std::string& key, std::optional<Duration>& target) {
  std::string word;
  text(key, word);
  if (!table_.contains(key)) return;
  target = std::nullopt;
  if (!word.empty()) duration(key, target.emplace());
}

void Section::durations(const std::string& key, std::vector<Duration>& target) {
  std::vector<std::string> words;
  texts(key, words);
  if (!table_.contains(key)) return;
  if (words.empty()) return complain(key, R"(write durations, such as ["1s", "10s"])");
  target.clear();
  for (const std::string& word : words) {
    const auto parsed = parse_duration(word);
    if (!parsed) return complain(key, parsed.error().message);
    target.push_back(*parsed);
  }
}

void Section::texts(const std::string& key, std::vector<std::string>& target) {
  const toml::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return complain(key, "write a list, such as [\"a\", \"b\"]");
  target.clear();
  for (const toml::value& element : value->as_array()) {
    const auto word = plain_text(element);
    if (!word) return complain(key, "write a list of texts");
    target.push_back(*word);
  }
}

void Section::map(const std::string& key, std::map<std::string, std::string>& target) {
  const toml::table* entries = inner(key);
  if (entries == nullptr) return;
  target.clear();
  for (const auto& [name, value] : *entries) {
    const auto word = plain_text(value);
    if (!word) return complain(key, fmt::format("the value of {} is no text", name));
    target[name] = *word;
  }
}

const toml::table* Section::inner(const std::string& key) {
  const toml::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_table()) {
    complain(key, "write a table, such as { name = \"value\" }");
    return nullptr;
  }
  return &value->as_table();
}

Result<void> Section::finish() {
  for (const auto& [key, value] : table_) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    complain(base::printable(key),
             fmt::format("there is no such key{}", base::suggestion(key, known_)));
  }
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace strand::toml_file
