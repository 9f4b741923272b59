#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <strand/store.h>

namespace strand::model {

// When a call of the store ran. Two calls whose spans do not overlap have an order; others do not.
struct Call {
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
  Time store_time{};  // read after the call: what the call did happened at this time or before

  [[nodiscard]] bool before(const Call& other) const { return end < other.begin; }
};

// What a queue holds when all threads have stopped.
struct Remains {
  std::string queue = {};
  QueueStats stats = {};
  std::vector<DeadLetter> dead = {};
  std::vector<PeekedMessage> left = {};
};

// The record of what many threads asked of a store and were told, and the judgement whether any
// order of their calls explains it. Unlike Model it knows no order but that of ids, of epochs, and
// of calls that do not overlap; where these leave a doubt, the store has its benefit.
//
// What the threads may do is what makes this exact: keyed and unkeyed sends without TTL, each named
// body and each message name used for one message only (repeats under the same transaction or dedup
// id apart), settles by `end` or `keep`, pulls with the newest cursor, renews, cancels, redrives
// into the same queue; a token at most once a call (of several that are refused together, none is
// judged); retry policy `block` without backoff of the
// queue's, exhausted messages become dead letters. No seize, purge, park, or removal.
//
// Threads: log() may be called concurrently; each Log belongs to one thread. check() when all of
// them have stopped.
class Recorder {
 public:
  struct Applied {
    Call call = {};
    Transaction transaction = {};
    Result<Receipt> answer = Receipt{};
  };
  struct Leased {
    Call call = {};
    Lease lease = {};
  };
  struct PulledMore {
    Call call = {};
    Token token = {};
    std::vector<Message> messages = {};
  };
  struct Renewed {
    Call call = {};
    Token token = {};
    Time expires_at{};
  };
  struct Counted {
    Call call = {};
    std::string queue = {};
    QueueStats stats = {};
  };
  using Entry = std::variant<Applied, Leased, PulledMore, Renewed, Counted>;

  // What one thread did, in its order. Failed pulls and renews are of no interest.
  class Log {
   public:
    void add(Entry entry) { entries_.push_back(std::move(entry)); }
    [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

   private:
    std::vector<Entry> entries_;
  };

  // max_attempts: of all queues and messages; 0: unlimited.
  explicit Recorder(std::uint32_t max_attempts) : max_attempts_(max_attempts) {}

  // Another thread's log. The reference stays good as long as the recorder.
  Log& log();

  // Throws a Violation that names the broken invariant: I1 to I6, or I8. Every queue that was used
  // must be among `remains`.
  void check(std::span<const Remains> remains) const;

 private:
  std::uint32_t max_attempts_;
  std::mutex mutex_;
  std::deque<Log> logs_;
};

}  // namespace strand::model
