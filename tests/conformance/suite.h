#pragma once

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/strand.h>

// The fixture of the conformance suite: what a test of the store contract needs, and nothing that
// knows how a store is made. See README.md.
//
// A test reads as given, when, then. Helpers that return a plain value (enqueue, lease_one, stats)
// end the test with a clear message when they cannot have it; those that return an Answer (ack,
// settle, apply, pull) leave the judgement to the test. No test sleeps: time is a ManualClock.
//
// After each test, TearDown
//   - checks conservation (S16) on every queue, and the counts against what peek shows;
//   - closes the store, opens it again, and checks that every queue is as before (S1);
//   - has the store look at its own invariants, if it can do that while it is open.

namespace strand {

// How values look in failed assertions.
void PrintTo(Errc code, std::ostream* out);
void PrintTo(MessageId id, std::ostream* out);
void PrintTo(Epoch epoch, std::ostream* out);
void PrintTo(Version version, std::ostream* out);
void PrintTo(Cursor cursor, std::ostream* out);
void PrintTo(MessageState state, std::ostream* out);
void PrintTo(Priority priority, std::ostream* out);
void PrintTo(const Token& token, std::ostream* out);
void PrintTo(const Header& header, std::ostream* out);
void PrintTo(const Message& message, std::ostream* out);
void PrintTo(const PeekedMessage& message, std::ostream* out);
void PrintTo(const DeadLetter& letter, std::ostream* out);
void PrintTo(const Failure& failure, std::ostream* out);
void PrintTo(const Lease& lease, std::ostream* out);
void PrintTo(const Pulled& pulled, std::ostream* out);
void PrintTo(const QueueStats& stats, std::ostream* out);
void PrintTo(const QueueInfo& info, std::ostream* out);
void PrintTo(const Execution& execution, std::ostream* out);
void PrintTo(const History& history, std::ostream* out);
void PrintTo(const Record& record, std::ostream* out);
void PrintTo(const Receipt& receipt, std::ostream* out);
void PrintTo(const Sent& sent, std::ostream* out);

}  // namespace strand

// Time and Duration are types of the standard library, for which GoogleTest has no other hook.
template <>
class testing::internal::UniversalPrinter<strand::Time> {
 public:
  static void Print(strand::Time time, std::ostream* out);
};
template <>
class testing::internal::UniversalPrinter<strand::Duration> {
 public:
  static void Print(strand::Duration duration, std::ostream* out);
};

namespace strand::conformance {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using Then = Settle::Then;

// Thrown by helpers when a test cannot go on; GoogleTest reports it as a failure of the test.
class CannotGoOn : public std::runtime_error {
 public:
  CannotGoOn(const std::string& what, const std::source_location& where);
};

std::string describe(const Error& error);

// What there is when nothing is returned, and all went well.
struct Done {};

// A Result that says what went wrong: EXPECT_TRUE(answer) prints the error, answer.value() of a
// failure and answer.error() of a success end the test instead of being undefined.
template <class T>
class [[nodiscard]] Answer {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): an Answer is a Result with manners.
  Answer(Result<T> result) : result_(std::move(result)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): the same.
  Answer(Result<void> result)
    requires std::same_as<T, Done>
  {
    if (!result) result_ = std::unexpected(std::move(result.error()));
  }

  explicit operator bool() const { return result_.has_value(); }
  // NOLINTNEXTLINE(google-explicit-constructor): this is what EXPECT_TRUE looks for.
  operator ::testing::AssertionResult() const {
    if (result_) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << describe(result_.error());
  }

  const T& value(std::source_location where = std::source_location::current()) const& {
    if (!result_) throw CannotGoOn(describe(result_.error()), where);
    return *result_;
  }
  T value(std::source_location where = std::source_location::current()) && {
    if (!result_) throw CannotGoOn(describe(result_.error()), where);
    return std::move(*result_);
  }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }

  const Error& error(std::source_location where = std::source_location::current()) const& {
    if (result_) throw CannotGoOn("succeeded, but an error was expected", where);
    return result_.error();
  }
  Error error(std::source_location where = std::source_location::current()) && {
    if (result_) throw CannotGoOn("succeeded, but an error was expected", where);
    return std::move(result_.error());
  }

 private:
  Result<T> result_;
};
Answer(Result<void>) -> Answer<Done>;

// --- Messages ---

// The key of a message: key("cust-7"), or `unkeyed`.
struct Key {
  std::optional<std::string> value;
};
inline Key key(std::string value) { return Key{std::move(value)}; }
inline const Key unkeyed{};

// All that a Send has beyond queue, key and body: {.delay = 10s, .name = "timer"}.
struct SendOptions {
  Headers headers = {};
  Priority priority = Priority::normal;
  Duration delay{0};
  std::optional<Duration> ttl = {};
  std::optional<std::string> dedup_id = {};
  std::string label = {};
  std::optional<std::string> name = {};
  std::optional<std::uint32_t> max_attempts = {};
  std::optional<Address> dead_notice_to = {};
};

// A Send for use in a transaction of one's own.
Send send(std::string queue, const Key& key, Bytes body, SendOptions options = {});

using Bodies = std::vector<Bytes>;
using Ids = std::vector<MessageId>;

Bodies bodies(const std::vector<Message>& messages);
Bodies bodies(const std::vector<PeekedMessage>& messages);
Bodies bodies(const std::vector<DeadLetter>& letters);
Bodies bodies(const Lease& lease);
Bodies bodies(const Pulled& pulled);
Bodies bodies(const std::vector<Lease>& leases);  // of all leases, one after the other

Ids ids(const std::vector<Message>& messages);
Ids ids(const Lease& lease);
Ids ids(const std::vector<DeadLetter>& letters);

std::vector<std::string> reasons(const std::vector<Failure>& failures);

// The message of the lease (or page, or list of dead letters) with this body.
const Message& message_of(const Lease& lease, std::string_view body,
                          std::source_location where = std::source_location::current());
MessageId id_of(const Lease& lease, std::string_view body,
                std::source_location where = std::source_location::current());

// --- Outcomes, for settle() ---

Outcome acked(MessageId id);
Outcome retried(MessageId id, std::optional<Duration> delay = {}, std::string reason = "failed");
Outcome made_dead(MessageId id, std::string reason = "hopeless");
Outcome released(MessageId id);

// A Settle for use in a transaction of one's own.
Settle settlement(const Lease& lease, std::vector<Outcome> outcomes, Then then = Then::end);

// --- Waiting for callbacks ---

// Counts the calls of a Watch; waits for them without sleeping.
//
// Threads: every method may be called concurrently. Outlives the watch whose callback it gave.
class Calls {
 public:
  std::function<void()> callback();
  [[nodiscard]] std::uint64_t count() const;
  // Waits until more than `seen` calls have come. False only when none came for so long that the
  // test has failed: EXPECT_TRUE(calls.more_than(0)).
  [[nodiscard]] bool more_than(std::uint64_t seen) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

// --- The stores ---

// One kind of store that the suite runs on. The list is in suite.cc, and nowhere else.
struct StoreUnderTest {
  std::string name;                                     // in the names of the tests
  std::function<std::string(const std::string&)> url;   // of the store that is known by a name
  std::function<void(const std::string&)> remove = {};  // what is left of the store at a URL
  bool single_owner = true;                             // a second open of one store is `in_use`
  // What is wrong inside the store at a URL, in words; it is open meanwhile.
  std::function<std::vector<std::string>(const std::string&)> findings = {};
  // Opens the store at a URL; none: strand::open.
  std::function<Result<std::unique_ptr<Store>>(const std::string&, const OpenOptions&)> opener = {};

  [[nodiscard]] Result<std::unique_ptr<Store>> open(const std::string& at,
                                                    const OpenOptions& options) const {
    return opener ? opener(at, options) : strand::open(at, options);
  }
};
void PrintTo(const StoreUnderTest& store, std::ostream* out);

// Those that STRAND_CONFORMANCE_STORE names (separated by commas), or all of them.
std::vector<StoreUnderTest> stores_under_test();

// --- The fixture ---

class StoreConformance : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Store& store();
  ManualClock& clock() { return *clock_; }
  Time now() { return store().now(); }

  // Closes the store and opens it again, with the same clock; with other limits, if given.
  void reopen();
  void reopen(const Limits& limits);
  void close();
  // Opens the store under test a second time, without closing it: for tests of ownership.
  Answer<std::unique_ptr<Store>> open_again();
  // Opens a fresh store of the same kind: its tokens are foreign to the store under test.
  std::unique_ptr<Store> open_another();

  // --- Sending ---

  MessageId enqueue(const std::string& queue, const Key& key, Bytes body, SendOptions options = {},
                    std::source_location where = std::source_location::current());
  // One transaction for all of them.
  Ids enqueue_all(const std::string& queue, const Key& key, std::initializer_list<Bytes> bodies,
                  const SendOptions& options = {},
                  std::source_location where = std::source_location::current());
  Answer<Sent> try_enqueue(const std::string& queue, const Key& key, Bytes body,
                           SendOptions options = {});

  Answer<Receipt> apply(const Transaction& transaction);
  // Whether there was a message of that name.
  bool cancel(const std::string& queue, const std::string& name,
              std::source_location where = std::source_location::current());

  // --- Leasing ---

  // The lane that is served next. Ends the test when there is none.
  Lease lease_one(const std::string& queue, std::optional<Duration> lease = {},
                  std::source_location where = std::source_location::current());
  // The lane of that key. Ends the test when it cannot be had.
  Lease lease_key(const std::string& queue, const std::string& key,
                  std::optional<Duration> lease = {},
                  std::source_location where = std::source_location::current());
  // All ready lanes, in the order in which they are served.
  std::vector<Lease> lease_all(const std::string& queue, std::optional<Duration> lease = {},
                               std::source_location where = std::source_location::current());
  std::vector<Lease> lease(const LeaseRequest& request,
                           std::source_location where = std::source_location::current());
  Answer<std::vector<Lease>> try_lease(const LeaseRequest& request);
  // Takes the lane from whoever has it.
  Lease seize(const std::string& queue, const std::string& key, std::optional<Duration> lease = {},
              std::source_location where = std::source_location::current());

  Answer<Time> renew(const Lease& lease, Duration duration);
  Answer<Pulled> pull(const Lease& lease, PullLimits limits = {});  // with the lease's cursor
  Answer<Pulled> pull(const Lease& lease, Cursor cursor, PullLimits limits = {});

  // Leases and acks until nothing is ready; what it got, in the order of service.
  Bodies drain(const std::string& queue,
               std::source_location where = std::source_location::current());

  // --- Settling ---

  Answer<Receipt> settle(const Lease& lease, std::vector<Outcome> outcomes, Then then = Then::end);
  Answer<Receipt> settle(const Settle& settle);
  // All messages of the lease.
  Answer<Receipt> ack(const Lease& lease, Then then = Then::end);
  // The oldest message of the lease; the rest is released.
  Answer<Receipt> retry(const Lease& lease, std::optional<Duration> delay = {},
                        std::string reason = "failed");
  Answer<Receipt> dead(const Lease& lease, std::string reason = "hopeless");
  // Nothing is settled.
  Answer<Receipt> release(const Lease& lease);
  Answer<Receipt> keep(const Lease& lease);
  Answer<Receipt> park(const Lease& lease, std::string reason = "parked");

  // --- Administration ---

  Answer<Receipt> admin(Administration administration);
  // These end the test when they fail.
  void configure(const std::string& queue, const QueueSettings& settings,
                 std::source_location where = std::source_location::current());
  void pause(const std::string& queue,
             std::source_location where = std::source_location::current());
  void resume(const std::string& queue,
              std::source_location where = std::source_location::current());
  void resume_lane(const std::string& queue, const std::string& key,
                   std::source_location where = std::source_location::current());
  void redrive(const std::string& queue, Ids ids, std::optional<std::string> to = {},
               std::source_location where = std::source_location::current());
  void purge(const std::string& queue, std::optional<std::string> key = {},
             std::source_location where = std::source_location::current());

  // --- Reading ---

  QueueStats stats(const std::string& queue,
                   std::source_location where = std::source_location::current());
  QueueSettings settings(const std::string& queue,
                         std::source_location where = std::source_location::current());
  bool has_queue(const std::string& queue,
                 std::source_location where = std::source_location::current());
  // All pages of it.
  std::vector<PeekedMessage> peek(const std::string& queue, std::optional<MessageState> state = {},
                                  std::source_location where = std::source_location::current());
  std::vector<PeekedMessage> peek_lane(
      const std::string& queue, const std::string& key,
      std::source_location where = std::source_location::current());
  PeekedMessage peek_one(const std::string& queue, std::string_view body,
                         std::source_location where = std::source_location::current());
  std::vector<DeadLetter> dead_letters(
      const std::string& queue, std::source_location where = std::source_location::current());
  DeadLetter dead_letter(const std::string& queue, std::string_view body,
                         std::source_location where = std::source_location::current());

  // S16: what was accepted is somewhere, and the counts are what peek and dead_letters show.
  void expect_conserved(const std::string& queue);

 private:
  struct QueueState;

  std::vector<QueueState> states_of_all_queues();
  // The fixture expects the store to be the same after a reopen as before.
  void expect_reopening_changes_nothing();
  std::vector<PeekedMessage> all_pages(PeekQuery query, const std::source_location& where);

  std::shared_ptr<ManualClock> clock_;
  Time wall_at_zero_{};  // to see whether a test has set the wall clock by hand
  std::string name_;
  OpenOptions options_;
  std::unique_ptr<Store> store_;
  std::vector<std::string> other_urls_;
};

}  // namespace strand::conformance
