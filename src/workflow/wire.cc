#include "workflow/wire.h"

#include <algorithm>
#include <charconv>

#include <strand/json.h>

namespace strand {

namespace {

constexpr std::string_view names[] = {"fixed", "linear", "exponential"};

}  // namespace

std::string_view to_string(WorkflowError::Kind kind) {
  switch (kind) {
    case WorkflowError::Kind::failed:
      return "failed";
    case WorkflowError::Kind::timed_out:
      return "timed_out";
    case WorkflowError::Kind::crashed:
      return "crashed";
    case WorkflowError::Kind::cancelled:
      return "cancelled";
    case WorkflowError::Kind::terminated:
      return "terminated";
    case WorkflowError::Kind::refused:
      return "refused";
  }
  return "";
}

// As people write it: {"attempts":4,"backoff":"exponential","first":1000,…}.
void write_json(json::Writer& out, const Retry& retry) {
  out.begin_object();
  out.member("attempts", retry.attempts);
  out.name("backoff");
  out.text(names[static_cast<std::size_t>(retry.backoff)]);
  out.member("first_ms", retry.first);
  out.member("factor", retry.factor);
  out.member("max_ms", retry.max);
  out.member("jitter_percent", retry.jitter_percent);
  if (!retry.not_for.empty()) out.member("not_for", retry.not_for);
  out.end_object();
}

Result<void> read_json(const json::View& in, Retry& retry) {
  if (auto object = in.expect_object(); !object) return object;
  std::string backoff;
  std::optional<std::vector<std::string>> not_for;
  for (Result<void> done :
       {in.member("attempts", retry.attempts), in.member("backoff", backoff),
        in.member("first_ms", retry.first), in.member("factor", retry.factor),
        in.member("max_ms", retry.max), in.member("jitter_percent", retry.jitter_percent),
        in.member("not_for", not_for)}) {
    if (!done) return done;
  }
  const auto* const found = std::ranges::find(names, backoff);
  if (found == std::end(names)) return in.fail("backoff is none of fixed, linear, exponential");
  retry.backoff = static_cast<Retry::Backoff>(found - std::begin(names));
  retry.not_for = std::move(not_for).value_or(std::vector<std::string>{});
  return {};
}

Duration Retry::wait_after(std::uint32_t attempt, std::uint64_t random) const {
  double factor_now = 1;
  const std::uint32_t steps = std::min<std::uint32_t>(attempt == 0 ? 0 : attempt - 1, 10'000);
  if (backoff == Backoff::linear) factor_now = steps + 1.0;
  const double limit = static_cast<double>(max.count());
  double wait = static_cast<double>(first.count()) * factor_now;
  if (backoff == Backoff::exponential) {
    for (std::uint32_t i = 0; i < steps && wait < limit; ++i)
      wait *= factor;
  }
  wait = std::clamp(wait, 0.0, limit);
  const double share = static_cast<double>(random % 1001) / 1000.0;
  wait += wait * static_cast<double>(jitter_percent) / 100.0 * share;
  return Duration{static_cast<std::int64_t>(wait)};
}

namespace workflow::wire {

std::string_view header(const Headers& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &Header::name);
  return found == headers.end() ? std::string_view{} : std::string_view(found->value);
}

void add(Headers& headers, std::string_view name, std::string_view value) {
  headers.push_back({.name = std::string(name), .value = std::string(value)});
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Duration> milliseconds(const Headers& headers, std::string_view name) {
  const auto value = number(header(headers, name));
  constexpr std::uint64_t longest = std::uint64_t{1} << 48U;
  if (!value || *value > longest) return std::nullopt;
  return Duration{static_cast<std::int64_t>(*value)};
}

std::string to_text(const Retry& retry) { return json::write(retry).value_or(std::string{}); }

Retry retry_from(std::string_view text) {
  if (text.empty()) return {};
  return json::read<Retry>(text).value_or(Retry{});
}

std::string activity_label(std::string_view activity, std::string_view label) {
  std::string result(activity);
  if (!label.empty()) result.append("@").append(label);
  return result;
}

WorkflowError::Kind kind_from(std::string_view text) {
  using enum WorkflowError::Kind;
  for (const auto kind : {failed, timed_out, crashed, cancelled, terminated, refused}) {
    if (to_string(kind) == text) return kind;
  }
  return failed;
}

}  // namespace workflow::wire

}  // namespace strand
