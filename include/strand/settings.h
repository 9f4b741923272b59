#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <strand/message.h>
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
  // Lengthens a wait by backoff by up to so many percent (0 to 100), so that messages which failed
  // together are not tried again together. An explicit retry delay is kept to the millisecond. By
  // how much is not random, but follows from the message's id and its attempts, this failure
  // included: with x = id * 0x9E3779B97F4A7C15 + attempts (modulo 2^64, as all of this) and
  //   x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
  //   x = (x ^ (x >> 27)) * 0x94D049BB133111EB
  //   x = x ^ (x >> 31)
  // the wait is step + step * percent * (x mod 1001) / 100000, in milliseconds, rounded down.
  std::uint32_t backoff_jitter_percent = 0;
  RetryPolicy retry_policy = RetryPolicy::block;
  OnExhausted on_exhausted = OnExhausted::dead;
  std::optional<Duration> ttl = {};  // of messages that bring none
  OnExpired on_expired = OnExpired::drop;
  Duration dedup_window = std::chrono::minutes{5};
  Duration lease = std::chrono::seconds{30};  // of requests that name none
  Duration starvation_after = std::chrono::seconds{30};
  std::uint64_t max_length = 0;  // live messages; 0: no limit of its own
  // Told when a message of this queue becomes a dead letter, unless the message itself says whom to
  // tell. The notice has the headers of notices only (see message.h), not those of the message. A
  // notice that becomes a dead letter tells nobody, so that no two queues can keep each other busy.
  std::optional<Address> dead_notice_to = {};

  friend bool operator==(const QueueSettings&, const QueueSettings&) = default;
};

// Settings of one topic.
struct TopicSettings {
  // How long published messages are kept for subscriptions that start in the past; 0: not at all.
  Duration retain{0};

  friend bool operator==(const TopicSettings&, const TopicSettings&) = default;
};

}  // namespace strand
