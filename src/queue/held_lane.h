#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <strand/consumer.h>

namespace strand::queue {

// What a handler has decided about single messages.
using Fates = std::vector<std::pair<MessageId, Verdict>>;

// What may be handed to a handler at once.
struct BatchLimits {
  std::uint32_t messages = 100;
  std::size_t bytes = std::size_t{4} << 20U;
};

// One lane in a consumer's hands, from its lease to the commit that ends it.
//
// Times are those of the consumer's clock.
//
// Threads: none of its own; belongs to one thread at a time, which the loop sees to.
struct HeldLane {
  enum class Stage : std::uint8_t {
    gathering,   // waits for more messages
    waiting,     // for a worker
    kept,        // without a message, for the next one
    pulling,     // kept, and somebody looks whether it has messages
    deferred,    // for an earlier handler of the same lane, which has lost its lease, to return
    running,     // in a handler
    committing,  // handled, to be written
    gone,        // committed, or lost: the loop does not hold it any more
  };

  std::size_t place = 0;  // among all that the loop holds
  Lease lease;
  Duration length{0};  // of the lease
  Stage stage = Stage::waiting;

  bool singly = false;    // its messages are handed out one at a time
  std::size_t count = 0;  // of the first messages: those handed out last
  bool fresh = true;      // nothing was committed under this lease

  std::stop_source stop{std::nostopstate};  // of the handler that runs
  bool told_to_stop = false;
  Duration renew_at{0};
  bool renewed = true;                    // goes on being renewed
  std::optional<Duration> stop_at = {};   // the handler's time is over
  std::optional<Duration> ready_at = {};  // gathering: its window has passed
  bool poked = false;                     // more may have come
  Watch watch;                            // gathering, or kept
  bool watched = false;                   // once it is, until it is gone
  std::optional<Duration> gathered = {};  // how long it has waited for more messages

  Duration since{0};  // when it was leased
  bool keep = false;  // the handler wants it to be kept
  Duration kept_until{0};
  std::uint64_t used = 0;    // of those that are kept: a higher number was used later
  std::uint64_t looked = 0;  // at what there was by then (see Loop::seen())
  bool queued = false;       // kept, and to be pulled
  std::list<std::shared_ptr<HeldLane>>::iterator kept_place = {};  // while it is kept

  // To be committed: what becomes of the messages, and what is to happen with it, if anything.
  Settle settle;
  std::unique_ptr<Transaction> rest;
  std::optional<std::string> label = {};      // that the handler wants for the lane
  std::optional<std::string> park = {};       // that it wants the lane to stop, and why
  std::optional<OwnerHint> hint = {};         // who shall have the lane next
  std::move_only_function<void()> call = {};  // once it is committed
  Durability durability = Durability::sync;
  std::uint32_t refusals = 0;  // of commits, one after the other

  // Two leases of one lane. Unkeyed messages have no lane to share.
  [[nodiscard]] bool same_lane(const HeldLane& other) const {
    return lease.key && lease.key == other.lease.key && lease.queue == other.lease.queue;
  }

  // The messages for the next handler call, in order; at least one if any are left.
  std::span<const Message> hand_out(const BatchLimits& limits);
  [[nodiscard]] bool ends() const { return settle.then != Settle::Then::keep; }
  // What the last commit settled is not handed out again.
  void drop_settled();
};
using HeldPointer = std::shared_ptr<HeldLane>;

// Settles everything by the fates that the handler decided; the others are acked. The lease goes on
// if more messages are left.
Settle settle_success(const HeldLane& held, std::span<const Message> messages, const Fates& fates);

// Settles what can be settled after a verdict that is not ok; it may be nothing. If that verdict
// does not say which message failed, the rest is to be handed out one at a time.
Settle settle_failure(HeldLane& held, std::span<const Message> messages, const Fates& fates,
                      const Verdict& verdict);

// Ends a lease and settles nothing: what it carries is released, charged nothing.
Settle settle_nothing(const HeldLane& held);

// Text that a store takes as a reason: what is too long is cut.
std::string fit_reason(std::string_view text);

}  // namespace strand::queue
