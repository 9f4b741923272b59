#include "server/http/queue_settings.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "queue/json.h"

namespace strand::server::http {

namespace {

template <class Policy>
Member policy_member(std::string name, Policy& target, Policy one, Policy other) {
  return {std::move(name), [&target, one, other](const json::View& view) -> Result<void> {
            const auto text = view.text();
            if (!text) return std::unexpected(text.error());
            for (const Policy policy : {one, other}) {
              if (shown::name_of(policy) != *text) continue;
              target = policy;
              return {};
            }
            return view.fail(
                fmt::format("expected {} or {}", shown::name_of(one), shown::name_of(other)));
          }};
}

Result<void> read_notice(const json::View& view, std::optional<Address>& target) {
  if (view.is_null()) {
    target.reset();
    return {};
  }
  Address address;
  if (auto read = read_members(view, {member("queue", address.queue), member("key", address.key)});
      !read) {
    return read;
  }
  target = std::move(address);
  return {};
}

}  // namespace

std::vector<Member> settings_members(QueueSettings& settings) {
  return {
      member("max_attempts", settings.max_attempts),
      member("backoff_ms", settings.backoff),
      member("backoff_jitter_percent", settings.backoff_jitter_percent),
      policy_member("retry_policy", settings.retry_policy, RetryPolicy::block, RetryPolicy::skip),
      policy_member("on_exhausted", settings.on_exhausted, OnExhausted::dead, OnExhausted::park),
      member("ttl_ms", settings.ttl),
      policy_member("on_expired", settings.on_expired, OnExpired::drop, OnExpired::dead),
      member("dedup_window_ms", settings.dedup_window),
      member("lease_ms", settings.lease),
      member("starvation_after_ms", settings.starvation_after),
      member("max_length", settings.max_length),
      {"dead_notice_to",
       [&settings](const json::View& view) { return read_notice(view, settings.dead_notice_to); }},
  };
}

}  // namespace strand::server::http
