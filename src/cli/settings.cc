#include "cli/settings.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <strand/time.h>

#include "base/text.h"
#include "cli/errors.h"
#include "cli/values.h"
#include "queue/json.h"

namespace strand::cli {

using shown::name_of;

namespace {

// --- Values as text, and back. One pair for each kind of setting. ---

std::string show(std::uint32_t value) { return fmt::to_string(value); }
std::string show(std::uint64_t value) { return fmt::to_string(value); }
std::string show(Duration value) { return format_duration(value); }
std::string show(RetryPolicy value) { return std::string(name_of(value)); }
std::string show(OnExhausted value) { return std::string(name_of(value)); }
std::string show(OnExpired value) { return std::string(name_of(value)); }

std::string show(const std::optional<Duration>& value) {
  return value ? format_duration(*value) : "none";
}

std::string show(const std::vector<Duration>& steps) {
  std::vector<std::string> texts;
  for (const Duration step : steps)
    texts.push_back(format_duration(step));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ","));
}

template <class T>
Result<void> take(T& target, Result<T> value) {
  if (!value) return std::unexpected(std::move(value).error());
  target = *std::move(value);
  return {};
}

Result<void> read(std::uint32_t& target, std::string_view text) {
  return take(target, parse_number<std::uint32_t>(text, 0));
}
Result<void> read(std::uint64_t& target, std::string_view text) {
  return take(target, parse_number<std::uint64_t>(text, 0));
}
Result<void> read(Duration& target, std::string_view text) {
  return take(target, parse_duration(text));
}

Result<void> read(std::optional<Duration>& target, std::string_view text) {
  if (text == "none") {
    target.reset();
    return {};
  }
  Duration value{};
  if (auto done = read(value, text); !done) return done;
  target = value;
  return {};
}

Result<void> read(std::vector<Duration>& target, std::string_view text) {
  std::vector<Duration> steps;
  while (text != "none") {
    const std::size_t comma = text.find(',');
    if (auto done = read(steps.emplace_back(), text.substr(0, comma)); !done) return done;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  target = std::move(steps);
  return {};
}

template <class Policy>
Result<void> read_policy(Policy& target, std::string_view text, Policy one, Policy other) {
  for (const Policy policy : {one, other}) {
    if (name_of(policy) != text) continue;
    target = policy;
    return {};
  }
  return failure(
      Errc::invalid_argument,
      fmt::format("'{}' is neither {} nor {}", base::printable(text), show(one), show(other)));
}

Result<void> read(RetryPolicy& target, std::string_view text) {
  return read_policy(target, text, RetryPolicy::block, RetryPolicy::skip);
}
Result<void> read(OnExhausted& target, std::string_view text) {
  return read_policy(target, text, OnExhausted::dead, OnExhausted::park);
}
Result<void> read(OnExpired& target, std::string_view text) {
  return read_policy(target, text, OnExpired::drop, OnExpired::dead);
}

// --- The settings by name ---

struct Entry {
  std::string_view name;
  Result<void> (*set)(QueueSettings&, std::string_view);
  std::string (*get)(const QueueSettings&);
};

template <auto Member>
constexpr Entry entry(std::string_view name) {
  return {
      name,
      [](QueueSettings& settings, std::string_view text) { return read(settings.*Member, text); },
      [](const QueueSettings& settings) { return show(settings.*Member); }};
}

// An address is two settings, because the name of a queue may contain whatever would part it from a
// key. A key alone makes an address that no store takes, which is said when it is tried.
constexpr Entry notice_queue_entry = {
    "dead_notice_to",
    [](QueueSettings& settings, std::string_view text) -> Result<void> {
      if (text == "none") {
        settings.dead_notice_to.reset();
        return {};
      }
      if (!settings.dead_notice_to) settings.dead_notice_to.emplace();
      settings.dead_notice_to->queue = std::string(text);
      return {};
    },
    [](const QueueSettings& settings) {
      return settings.dead_notice_to ? settings.dead_notice_to->queue : std::string("none");
    }};

constexpr Entry notice_key_entry = {
    "dead_notice_key",
    [](QueueSettings& settings, std::string_view text) -> Result<void> {
      if (text == "none") {
        if (settings.dead_notice_to) settings.dead_notice_to->key.reset();
        return {};
      }
      if (!settings.dead_notice_to) settings.dead_notice_to.emplace();
      settings.dead_notice_to->key = std::string(text);
      return {};
    },
    [](const QueueSettings& settings) {
      const auto& address = settings.dead_notice_to;
      return address && address->key ? *address->key : std::string("none");
    }};

constexpr std::array<Entry, 13> entries = {
    entry<&QueueSettings::max_attempts>("max_attempts"),
    entry<&QueueSettings::backoff>("backoff"),
    entry<&QueueSettings::backoff_jitter_percent>("backoff_jitter_percent"),
    entry<&QueueSettings::retry_policy>("retry_policy"),
    entry<&QueueSettings::on_exhausted>("on_exhausted"),
    entry<&QueueSettings::ttl>("ttl"),
    entry<&QueueSettings::on_expired>("on_expired"),
    entry<&QueueSettings::dedup_window>("dedup_window"),
    entry<&QueueSettings::lease>("lease"),
    entry<&QueueSettings::starvation_after>("starvation_after"),
    entry<&QueueSettings::max_length>("max_length"),
    notice_queue_entry,
    notice_key_entry,
};

}  // namespace

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries)
    names.emplace_back(entry.name);
  return names;
}

Result<void> set_setting(QueueSettings& settings, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not a setting; write NAME=VALUE, for example lease=30s",
                               base::printable(assignment)));
  }
  const std::string_view name = assignment.substr(0, equals);
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    auto done = entry.set(settings, assignment.substr(equals + 1));
    if (!done)
      return failure(Errc::invalid_argument, fmt::format("{}: {}", name, done.error().message));
    return {};
  }
  const auto known = setting_names();
  return failure(Errc::invalid_argument,
                 fmt::format("there is no setting '{}'{} (there are {})", base::printable(name),
                             suggestion(name, known), fmt::join(known, ", ")));
}

std::vector<Setting> list_settings(const QueueSettings& settings) {
  std::vector<Setting> list;
  for (const Entry& entry : entries)
    list.push_back({.name = std::string(entry.name), .value = entry.get(settings)});
  return list;
}

}  // namespace strand::cli
