#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <strand/body.h>
#include <strand/error.h>
#include <strand/store.h>

namespace strand {

// What a handler decides about the messages that it was given.
class Verdict {
 public:
  enum class Kind : std::uint8_t { ok, retry, dead, release, park };

  // Done: acknowledged.
  static Verdict ok() { return {Kind::ok, {}, {}}; }
  // Failed: charged one attempt, and tried again after the queue's backoff, or after `delay`.
  static Verdict retry(std::string reason, std::optional<Duration> delay = {}) {
    return {Kind::retry, std::move(reason), delay};
  }
  // Failed for good: a dead letter.
  static Verdict dead(std::string reason) { return {Kind::dead, std::move(reason), {}}; }
  // Given back, charged nothing, for another worker or a later time.
  static Verdict release() { return {Kind::release, {}, {}}; }
  // The whole lane stops, with this reason, until somebody resumes it; charged nothing. Not for
  // single messages (see Work::decide).
  static Verdict park(std::string reason) { return {Kind::park, std::move(reason), {}}; }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::optional<Duration> delay() const { return delay_; }

 private:
  Verdict(Kind kind, std::string reason, std::optional<Duration> delay)
      : kind_(kind), reason_(std::move(reason)), delay_(delay) {}

  Kind kind_;
  std::string reason_;
  std::optional<Duration> delay_;
};

// A batch of one lane's messages in a handler's hands.
//
// The verdict that the handler returns holds for every message whose fate it has not decided here.
// If that verdict is not ok and there are several such messages, it does not say which of them
// failed: the consumer then hands them out again, one at a time and in order, and the verdict over
// one message is its fate. So does an exception, which is a retry with its text.
//
// Threads: belongs to the handler, until it returns.
class Work {
 public:
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  [[nodiscard]] const std::string& queue() const { return lease_.queue; }
  // None: one unkeyed message.
  [[nodiscard]] const std::optional<std::string>& key() const { return lease_.key; }
  // In the order of the lane; at least one.
  [[nodiscard]] std::span<const Message> messages() const { return messages_; }
  // The first one: all there is if messages are handed out one by one.
  [[nodiscard]] const Message& message() const { return messages_.front(); }
  // The number to fence other systems with (see Epoch).
  [[nodiscard]] Epoch epoch() const { return lease_.token.epoch(); }
  [[nodiscard]] const Lease& lease() const { return lease_; }
  // The first batch under this lease. What the lease brought with it, such as the history, is then
  // as it was when it was leased; for a later batch it may be older than the last commit.
  [[nodiscard]] virtual bool first_of_lease() const = 0;

  // Set when the lease is lost, the handler's time is over, or the consumer is told to hurry: what
  // is done from then on is in vain, or is waited for.
  [[nodiscard]] std::stop_token stop_token() const { return stop_; }

  // What is to happen together with the messages' fates: sends, publications, records, appends.
  // Its settles and its durability are the consumer's business. If the verdict is not ok, it is
  // discarded, and what was decided to be ok is undecided again: nothing is acked without it.
  Transaction& transaction() {
    if (!transaction_) transaction_ = std::make_unique<Transaction>();
    return *transaction_;
  }

  // With an ok verdict: the lane's label from then on ("" removes it).
  void set_label(std::string label) { label_ = std::move(label); }

  // With an ok verdict: the lane stops then, with this reason, until somebody resumes it.
  void park_lane(std::string reason) { park_ = std::move(reason); }

  // With an ok verdict: who shall be asked first for this lane, for a while (see OwnerHint).
  void hint_owner(OwnerHint hint) { hint_ = std::move(hint); }

  // With an ok verdict over all messages: the lane is not given back, because the handler has
  // something at hand that serves its next messages. They come under the same lease. For how long,
  // the consumer's options say; and a consumer that has much else to do gives it back at once.
  // Returns whether it looks as if it were kept.
  virtual bool keep_lane() = 0;

  // Called when what was decided here is committed, before the next batch of the lane is handed
  // out; destroyed uncalled if that fails. From a thread of the consumer: must not block, nor
  // throw.
  void when_committed(std::move_only_function<void()> call) { committed_call_ = std::move(call); }

  // How long was waited for more messages; none if nobody did.
  [[nodiscard]] virtual std::optional<Duration> gathered() const = 0;

  // From now on the lease is renewed for so long at a time, and has so long to run now. For a
  // handler that knows better than the queue how soon its death should be noticed.
  virtual Result<void> lease_for(Duration length) = 0;

  // The fate of one message of the batch, whatever the verdict over the others. The last one
  // counts. Throws std::invalid_argument for a message of another batch, and for a park.
  void decide(const Message& message, Verdict verdict);

  // Commits now what would be committed after an ok verdict: the fates (undecided ones are acked)
  // and the transaction. `lease_lost` means that nothing was. After a success the handler is done:
  // its verdict counts no more.
  virtual Result<Receipt> commit() = 0;

 protected:
  Work(const Lease& lease, std::span<const Message> messages, std::stop_token stop)
      : lease_(lease), messages_(messages), stop_(std::move(stop)) {}

  using Fates = std::vector<std::pair<MessageId, Verdict>>;
  [[nodiscard]] const Fates& fates() const { return fates_; }
  // None if the handler did not ask for one.
  std::unique_ptr<Transaction>& own_transaction() { return transaction_; }
  [[nodiscard]] const std::optional<std::string>& own_label() const { return label_; }
  [[nodiscard]] const std::optional<std::string>& own_park() const { return park_; }
  [[nodiscard]] const std::optional<OwnerHint>& own_hint() const { return hint_; }
  std::move_only_function<void()>& own_call() { return committed_call_; }

 private:
  const Lease& lease_;
  std::span<const Message> messages_;
  std::stop_token stop_;
  std::unique_ptr<Transaction> transaction_;
  std::optional<std::string> label_;
  std::optional<std::string> park_;
  std::optional<OwnerHint> hint_;
  std::move_only_function<void()> committed_call_;
  Fates fates_;
};

// What a consumer does with each batch. Runs on one of its threads; may block. It runs at least
// once for a message: a crash, or a lost lease, lets it run again.
using Handler = std::function<Verdict(Work&)>;

// A handler that returns nothing is content when it returns.
template <class F>
  requires std::invocable<F&, Work&>
Handler make_handler(F function) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, Work&>>) {
    return [function = std::move(function)](Work& work) mutable {
      function(work);
      return Verdict::ok();
    };
  } else {
    return function;
  }
}

// A handler of values: called as f(const T&, Work&) for one message after the other, until one
// fails. A body that is no T is a dead letter at once: trying again would not help.
template <class T, class F>
  requires std::invocable<F&, const T&, Work&>
Handler handle_each(F function) {
  return [function = std::move(function)](Work& work) mutable {
    for (const Message& message : work.messages()) {
      const Result<T> value = from_body<T>(message.body);
      if (!value) {
        work.decide(message, Verdict::dead(value.error().message));
        continue;
      }
      if constexpr (std::is_void_v<std::invoke_result_t<F&, const T&, Work&>>) {
        function(*value, work);
      } else if (Verdict verdict = function(*value, work); verdict.kind() != Verdict::Kind::ok) {
        return verdict;
      }
    }
    return Verdict::ok();
  };
}

// How messages reach the handler.
enum class HandOut : std::uint8_t {
  lanes,     // all visible messages of a lane at once, up to the batch's limits; one commit
  messages,  // one message at a time, in order, each with a commit of its own
};

// Waiting a little for more messages of a lane, where handling many at once is worth it.
struct Coalesce {
  Duration window = std::chrono::milliseconds{100};
  std::uint32_t messages = 50;  // enough; do not wait any longer
  // Which leases are worth it; none: all. Must be quick, and not call the consumer.
  std::function<bool(const Lease&)> worth = {};
  bool kept_lanes = false;  // also when messages come to a lane that was kept
};

// How long lanes are kept for handlers that want it (see Work::keep_lane).
struct KeepLanes {
  Duration idle = std::chrono::seconds{10};  // without a message
  Duration total = std::chrono::minutes{1};  // since it was leased; at least `idle`
  std::size_t lanes_max = 100;  // beyond, the one that was idle for longest is given back
};

// Something that a person may want to know of. The consumer has dealt with it.
struct ConsumerTrouble {
  enum class Kind : std::uint8_t {
    lease_lost,      // a batch that was handled could not be committed: it will be handled again
    commit_refused,  // the store refuses the handler's transaction; counts as a retry
    handler_failed,  // it threw, or its verdict was retry, dead or park
    store_failed,    // a lease, renewal or commit failed, and is tried again
  };
  Kind kind{};
  std::string queue = {};
  std::optional<std::string> key = {};
  std::string reason = {};
};

struct ConsumerOptions {
  std::vector<std::string> queues = {};  // served in turns; they need not exist yet
  HandOut hand_out = HandOut::lanes;
  std::uint32_t workers = 1;  // handlers that run at the same time

  // The limits of one batch.
  std::uint32_t batch_messages = 100;
  std::size_t batch_bytes = std::size_t{4} << 20U;
  // Lanes leased at a time: waiting for a worker, in a handler, or being committed. 0: so many that
  // quick handlers need not wait for the disk.
  std::uint32_t lanes_in_flight = 0;

  std::optional<Duration> lease = {};         // none: the queue's setting. Renewed while it is held
  std::optional<Duration> handler_time = {};  // longer: told to stop, and no longer renewed
  std::vector<std::string> labels = {};       // as in LeaseRequest
  std::string owner = {};
  bool history = false;  // lanes come with the open execution of their instance (see Lease)
  std::size_t history_limit = std::numeric_limits<std::size_t>::max();  // of its events
  std::optional<KeepLanes> keep = {};                                   // none: no lane is kept
  std::optional<Coalesce> coalesce = {};     // none: a lane is handled as soon as it is leased
  Durability durability = Durability::sync;  // of commits

  // Called from threads of the consumer, one at a time; must not block for long.
  std::function<void(const ConsumerTrouble&)> on_trouble = {};
  std::shared_ptr<Clock> clock = {};  // none: the system's. With a manual one, as the store's
};

struct ConsumerStats {
  std::uint64_t batches = 0;   // handed to a handler, those one at a time included
  std::uint64_t messages = 0;  // committed with whatever fate
  std::uint64_t acked = 0;
  std::uint64_t retried = 0;
  std::uint64_t dead = 0;
  std::uint64_t released = 0;
  std::uint64_t lost = 0;       // handled, and not committed because the lease was lost
  std::uint64_t in_flight = 0;  // lanes leased now, but for those that are kept
  std::uint64_t kept = 0;       // lanes kept now, with no message at hand
  std::uint64_t running = 0;    // handlers running now
};

// Works on queues: leases lanes, hands their messages to a handler, renews the leases while it
// runs, and commits what it decides.
//
// Threads:    `workers` for handlers, and three of its own (leasing, committing, renewing). Every
//             method may be called from any thread but a handler's.
// Order:      no two handlers of one lane run at once; messages of a lane come in its order.
// Durability: a handler's commit is durable as `durability` says, before its lane goes on.
// Failure:    handlers run at least once. What the store refuses for a while is tried again; see
//             on_trouble.
class Consumer {
 public:
  // `store` must outlive the consumer. Options that make no sense are `invalid_argument`.
  static Result<std::unique_ptr<Consumer>> start(Store& store, ConsumerOptions options,
                                                 Handler handler);
  template <class F>
    requires(std::invocable<F&, Work&> && !std::same_as<std::remove_cvref_t<F>, Handler>)
  static Result<std::unique_ptr<Consumer>> start(Store& store, ConsumerOptions options, F handler) {
    return start(store, std::move(options), make_handler(std::move(handler)));
  }
  // stop().
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Waits until nothing is in flight and nothing is ready. What is delayed, in backoff or held by
  // others is not waited for.
  void wait_idle();

  // Leases no more, lets running handlers finish and commits what they decide; what was leased and
  // not begun is released, charged nothing. Returns when that is done. Can be called again.
  void stop();
  // The same, but after `patience` handlers are told to stop by their token, and what they have not
  // decided when they return is released. Returns whether that was not needed.
  bool stop(Duration patience);

  // Gives a lane back that is kept. Any other is left alone.
  void let_go(const std::string& queue, const std::string& key);

  [[nodiscard]] ConsumerStats stats() const;

 private:
  class Loop;
  explicit Consumer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace strand
