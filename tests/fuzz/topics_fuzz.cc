// Topics and patterns: the trie finds what a matcher that is too plain to be wrong finds, and the
// validators take what the documentation says.
//
// The input is text: each line is a pattern, the last one a topic.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "fuzz/target.h"
#include "store/contract/check.h"
#include "store/engine/queue.h"
#include "store/engine/topic_trie.h"

namespace strand::fuzz {

namespace {

using Segments = std::vector<std::string_view>;

constexpr std::size_t patterns_max = 40;
constexpr std::size_t segments_max = 60;

Segments split(std::string_view text, char separator) {
  Segments parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// As docs/semantics.md says it.
bool is_valid(std::string_view text, bool pattern) {
  if (text.empty() || text.size() > Limits{}.name_bytes_max || !base::is_plain_text(text)) {
    return false;
  }
  const Segments segments = split(text, '.');
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::string_view segment = segments[i];
    if (segment.empty()) return false;
    if (segment.find_first_of("*#") == std::string_view::npos) continue;
    if (!pattern || segment.size() > 1) return false;
    if (segment == "#" && i + 1 < segments.size()) return false;
  }
  return true;
}

bool matches(const Segments& pattern, const Segments& topic) {
  if (pattern.back() == "#") {
    const Segments start(pattern.begin(), pattern.end() - 1);
    return topic.size() >= start.size() &&
           std::ranges::equal(
               start, topic | std::views::take(start.size()),
               [](auto wanted, auto found) { return wanted == "*" || wanted == found; });
  }
  return std::ranges::equal(
      pattern, topic, [](auto wanted, auto found) { return wanted == "*" || wanted == found; });
}

bool takes_pattern(std::string_view pattern) {
  Transaction transaction;
  transaction.admin =
      Subscribe{.queue = "queue", .pattern = std::string(pattern), .from = std::nullopt};
  return check_transaction(transaction, Limits{}).has_value();
}

bool takes_topic(std::string_view topic) {
  Publish publish;
  publish.topic = topic;
  Transaction transaction;
  transaction.publishes.push_back(std::move(publish));
  return check_transaction(transaction, Limits{}).has_value();
}

std::vector<std::string> names_of(const std::vector<engine::Queue*>& queues) {
  std::vector<std::string> names;
  for (const engine::Queue* queue : queues)
    names.push_back(queue->name);
  return names;
}

void run(std::string_view bytes) {
  Segments lines = split(bytes, '\n');
  const std::string_view topic = lines.back();
  lines.pop_back();
  FUZZ_REQUIRE(takes_topic(topic) == is_valid(topic, false), "topics are checked as documented");

  struct Subscriber {
    std::string_view pattern;
    std::unique_ptr<engine::Queue> queue;
  };
  std::vector<Subscriber> subscribers;
  engine::TopicTrie trie;
  for (const std::string_view pattern : lines) {
    const bool valid = is_valid(pattern, true);
    FUZZ_REQUIRE(takes_pattern(pattern) == valid, "patterns are checked as documented");
    if (!valid || subscribers.size() == patterns_max) continue;
    auto queue = std::make_unique<engine::Queue>();
    queue->name = fmt::format("q{:02}", subscribers.size());
    trie.add(pattern, *queue);
    subscribers.push_back({.pattern = pattern, .queue = std::move(queue)});
  }
  if (!is_valid(topic, false)) return;
  const Segments segments = split(topic, '.');
  if (segments.size() > segments_max) return;  // '*' at each of them would take long, and no more

  // All of them, and then fewer and fewer: removing one leaves the others as they were.
  while (true) {
    std::vector<std::string> expected;
    for (const auto& [pattern, queue] : subscribers) {
      const bool matched = matches(split(pattern, '.'), segments);
      FUZZ_REQUIRE(engine::topic_matches(pattern, topic) == matched, "one pattern by itself");
      if (matched) expected.push_back(queue->name);
    }
    FUZZ_REQUIRE(names_of(trie.match(topic)) == expected, "the trie finds the same, by name");
    if (subscribers.empty()) return;
    trie.remove(subscribers.back().pattern, *subscribers.back().queue);
    subscribers.pop_back();
  }
}

const Target target("topics", run, 3'000);

}  // namespace

}  // namespace strand::fuzz
