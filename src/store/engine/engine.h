#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "store/contract/wakes.h"
#include "store/engine/backend.h"

namespace strand::engine {

// Numbers batches; each batch that the engine yields has a higher one.
using CommitNumber = std::uint64_t;

// Why a store is read: it was opened, or a write failed and its outcome must be found out. Only an
// opening lets leases run for another 10 s.
enum class Loading : std::uint8_t { open, rebuild };

// What makes one store different from all others; drawn at random when it is created.
struct Identity {
  std::uint64_t store = 0;
  std::uint64_t secret[2] = {0, 0};  // seals tokens
};

// One message of a grant: its entry in the archive has the rest.
struct GrantedMessage {
  MessageId id{};
  std::uint32_t deliveries = 0;
  std::uint32_t attempts = 0;
};

// A lease that the engine has decided on. Shown only after its batch was written; see
// materialize().
struct Grant {
  Token token;
  std::string queue;
  std::optional<std::string> key;
  std::string label;
  std::vector<GrantedMessage> messages;
  Time expires_at{};
  Cursor cursor{};
  bool isolated = false;
  bool more = false;
};

struct PullGrant {
  std::vector<GrantedMessage> messages;
  Cursor cursor{};
  bool more = false;
};

// A live message as peek() found it in memory.
struct PeekedEntry {
  GrantedMessage message;
  std::string label;
  MessageState state = MessageState::ready;
  std::optional<Time> retry_at;
  std::optional<std::string> last_reason;
  std::optional<std::string> park_reason;
};

using store::Wakes;

// Everything decided since the batch before.
struct Decisions {
  CommitNumber commit = 0;
  MutationBatch mutations;
  Durability durability = Durability::async;  // sync if any part of it must be
  Wakes wakes;
};

// The rules of a store, as a deterministic state machine in memory.
//
// Takes requests and the time, answers at once, and gathers what has to be written. An answer must
// not be shown before the decisions taken up to it are written.
//
// No clock, thread, random or I/O of its own: time, identity and archive are handed in. Two engines
// with equal archives that are given equal calls answer equally.
//
// Threads: none; the owner serialises all calls.
// Failure: an error leaves no trace. When decisions cannot be written, the engine is thrown away.
class Engine {
 public:
  // `archive` shows what was written; it must outlive the engine.
  Engine(const Limits& limits, const Archive& archive);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Reads the store. `wall` is the wall clock; `identity` is used if the archive is empty;
  // `commit_after` is a number below all commits to come. Called once, before anything else.
  Result<void> load(Time wall, const Identity& identity, CommitNumber commit_after, Loading why);

  // Store time: that of the latest call, or how far a portion of advance() came.
  [[nodiscard]] Time now() const;
  // The number of the last commit that load() found.
  [[nodiscard]] CommitNumber loaded_commit() const;

  // Each of these first applies what is due at `now`, which must not be before now().
  Result<Receipt> apply(const Transaction& transaction, Time now);
  Result<std::vector<Grant>> lease(const LeaseRequest& request, Time now);
  Result<PullGrant> pull(const Token& token, Cursor cursor, PullLimits limits, Time now);
  Result<Time> renew(const Token& token, Duration lease, Time now);
  void advance(Time now);

  // Like advance(), but in portions: applies all that is due at one instant, then at the next,
  // until it has applied `items_max` things or more, and stands still at the last instant that it
  // applied. Returns whether it came as far as `now`. If not, store time lags behind: calls are
  // made with now(), until further portions have caught up.
  bool advance(Time now, std::size_t items_max);

  // Whether the transaction may only be applied when every decision before it has been written
  // (those that read the archive: administration). That includes what is due: so advance(), write,
  // and then apply at now().
  static bool needs_all_written(const Transaction& transaction);

  // When advance() has something to do again.
  [[nodiscard]] std::optional<Time> next_due() const;

  // Whether there are decisions that take() would yield.
  [[nodiscard]] bool has_decisions() const;
  // The number that the decisions gathered now will have.
  [[nodiscard]] CommitNumber gathering() const;
  Decisions take();
  // All decisions up to `commit` can be read from the archive now.
  void written(CommitNumber commit);

  // Reads of what is in memory. They show decisions that are not written yet: hold them back too.
  [[nodiscard]] Result<QueueStats> stats(std::string_view queue) const;
  [[nodiscard]] std::vector<QueueInfo> queues() const;
  [[nodiscard]] std::vector<Subscription> subscriptions() const;
  [[nodiscard]] std::vector<Topic> topics() const;
  [[nodiscard]] Result<Page<PeekedEntry>> peek(const PeekQuery& query) const;
  // How much room the disk of the store has left, if it has one: see Limits::disk_reserve_bytes.
  void set_free_bytes(std::optional<std::uint64_t> bytes);

  // An estimate of the bytes that waiting messages take of memory.
  [[nodiscard]] std::size_t memory_bytes() const;
  // Whether the lease is current (for watches of lanes).
  [[nodiscard]] bool is_current(const Token& token) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace strand::engine
