#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <strand/time.h>

namespace strand {

// What a failed message does to its lane while it waits for its next try.
enum class RetryPolicy : std::uint8_t {
  block,  // holds back itself and everything behind it
  skip,   // lets the lane go on
};

// What happens when `max_attempts` have failed.
enum class OnExhausted : std::uint8_t {
  dead,  // the message becomes a dead letter
  park,  // the lane stops with its reason until it is resumed
};

// What happens to a message whose TTL has ended.
enum class OnExpired : std::uint8_t { drop, dead };

// Settings of one queue. Durable; changed at run time; messages already waiting obey the new ones
// from their next failure or lease on.
struct QueueSettings {
  std::uint32_t max_attempts = 4;  // the first try and three retries; 0: unlimited
  // The wait after the first, second, … failure; the last one repeats. Empty: no wait.
  std::vector<Duration> backoff = {std::chrono::minutes{1}, std::chrono::minutes{5},
                                   std::chrono::minutes{30}};
  RetryPolicy retry_policy = RetryPolicy::block;
  OnExhausted on_exhausted = OnExhausted::dead;
  std::optional<Duration> ttl = {};  // of messages that bring none
  OnExpired on_expired = OnExpired::drop;
  Duration dedup_window = std::chrono::minutes{5};
  Duration lease = std::chrono::seconds{30};  // of requests that name none
  Duration starvation_after = std::chrono::seconds{30};
  std::uint64_t max_length = 0;  // live messages; 0: no limit of its own

  friend bool operator==(const QueueSettings&, const QueueSettings&) = default;
};

// Settings of one topic.
struct TopicSettings {
  // How long published messages are kept for subscriptions that start in the past; 0: not at all.
  Duration retain{0};

  friend bool operator==(const TopicSettings&, const TopicSettings&) = default;
};

}  // namespace strand
