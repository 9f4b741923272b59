#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <strand/error.h>
#include <strand/ids.h>
#include <strand/lease.h>
#include <strand/limits.h>
#include <strand/message.h>
#include <strand/settings.h>
#include <strand/time.h>
#include <strand/transaction.h>

namespace strand {

// --- What can be watched ---

// Called when the queue may have a ready lane. The queue need not exist yet.
struct WatchQueue {
  std::string queue = {};
};
// Called when the leased lane may have messages that the lease does not carry, or the lease ended.
struct WatchLane {
  Token token = {};
};
// Called when the record may have another version.
struct WatchRecord {
  std::string space = {};
  std::string key = {};
};
using WatchTarget = std::variant<WatchQueue, WatchLane, WatchRecord>;

// Keeps a callback registered; destroying it ends the calls. It may be destroyed inside its own
// callback; elsewhere the destructor waits for a call that is running.
class Watch {
 public:
  class Registration {
   public:
    Registration() = default;
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    virtual ~Registration() = default;
  };

  Watch() = default;
  explicit Watch(std::unique_ptr<Registration> registration)
      : registration_(std::move(registration)) {}
  void reset() { registration_.reset(); }

 private:
  std::unique_ptr<Registration> registration_;
};

// --- What can be read ---

struct HistoryQuery {
  std::string queue = {};
  std::string key = {};
  std::uint64_t execution = 0;  // 0: the last one
  std::uint64_t from = 0;       // first event
  std::size_t limit = 1000;
};

struct Record {
  std::string space = {};
  std::string key = {};
  Version version{};
  Bytes value = {};

  friend bool operator==(const Record&, const Record&) = default;
};

struct RecordsQuery {
  std::string space = {};
  std::string prefix = {};  // of keys
  std::string after = {};   // keys greater than this; "" from the beginning
  std::size_t limit = 100;
};

struct InstancesQuery {
  std::string queue = {};
  std::optional<bool> open = {};  // none: both
  std::string after = {};         // keys greater than this; "" from the beginning
  std::size_t limit = 100;
};

struct PeekQuery {
  std::string queue = {};
  std::optional<std::string> key = {};     // then in lane order, else in order of ids
  std::optional<MessageState> state = {};  // none: all
  std::optional<MessageId> after = {};     // continue behind this message
  std::size_t limit = 100;
};

struct DeadLettersQuery {
  std::string queue = {};
  std::optional<MessageId> after = {};  // in order of ids
  std::size_t limit = 100;
};

// One page of an answer. `more`: there is at least one item behind the last one.
template <class T>
struct Page {
  std::vector<T> items = {};
  bool more = false;

  friend bool operator==(const Page&, const Page&) = default;
};

// The count of a queue's messages by where they are and how they ended. At every commit
// accepted = acked + expired + dropped + moved + purged + dead + live().
struct QueueStats {
  std::uint64_t accepted = 0;
  std::uint64_t acked = 0;
  std::uint64_t expired = 0;  // TTL ended, dropped by policy
  std::uint64_t dropped = 0;  // cancelled, or dropped as dead letters
  std::uint64_t moved = 0;    // redriven to another queue
  std::uint64_t purged = 0;
  std::uint64_t dead = 0;  // dead letters held now

  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;  // backoff included
  std::uint64_t waiting = 0;  // behind a lease or a block
  std::uint64_t leased = 0;
  std::uint64_t parked = 0;

  // Not part of the equation.
  std::uint64_t backoff = 0;      // of `delayed`
  std::uint64_t lanes_ready = 0;  // leases that could be had now, unkeyed messages included
  std::uint64_t leases = 0;       // live leases, empty ones included
  std::optional<Time> oldest_ready = {};

  [[nodiscard]] std::uint64_t live() const { return ready + delayed + waiting + leased + parked; }
  friend bool operator==(const QueueStats&, const QueueStats&) = default;
};

struct QueueInfo {
  std::string name = {};
  QueueSettings settings = {};
  bool paused = false;

  friend bool operator==(const QueueInfo&, const QueueInfo&) = default;
};

struct Subscription {
  std::string queue = {};
  std::string pattern = {};

  friend bool operator==(const Subscription&, const Subscription&) = default;
};

struct Topic {
  std::string name = {};
  TopicSettings settings = {};

  friend bool operator==(const Topic&, const Topic&) = default;
};

// --- The store ---

// A durable home for queues, histories and records.
//
// Threads:    every method may be called concurrently.
// Durability: success is durable before it is returned (see Durability). Nothing that is not yet
//             durable is ever shown. Leases are written, not synced, before they are shown: power
//             loss may forget them, their tokens then fail with `lease_lost`.
// Failure:    `unknown_outcome` may have been applied; repeat it with the same id. Every other
//             error leaves no trace.
// Time:       store time never goes back; what is due becomes available by itself.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  // Ends all waiting and closes the store. Leases stay and are good for another 10 s at least
  // after the next open. No call may be running, no Watch alive.
  virtual ~Store() = default;

  // Applies each transaction in order, each all or nothing, with as few syncs as the store can.
  // One result for each; a failed one does not keep the others from being applied.
  virtual std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) = 0;
  // The same for one.
  Result<Receipt> apply(const Transaction& transaction);

  // Leases up to request.lanes ready lanes, the most urgent first, each with its visible messages.
  // Never waits: nothing ready (or the queue is paused) is an empty answer; see watch().
  // An unknown queue is `not_found`.
  virtual Result<std::vector<Lease>> lease(const LeaseRequest& request) = 0;

  // Adds the visible messages of a held lane that its lease does not carry yet, in lane order.
  // Repeating the last cursor repeats the answer. An isolated lease gets none.
  virtual Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) = 0;

  // Lets each lease run for `lease` from now on; returns the new ends. It may shorten a lease.
  virtual std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) = 0;

  // Calls back when the target may have changed, for every commit after this returns: so watch
  // first, then look. Spurious calls are allowed, lost ones are not. Calls for one Watch do not
  // overlap, come from a thread of the store, and hold no lock; none comes after ~Watch returns.
  [[nodiscard]] virtual Watch watch(WatchTarget target, std::function<void()> callback) = 0;

  // Store time. While much is due at once, calls may be made at a slightly earlier time than this:
  // that of what has been applied.
  [[nodiscard]] virtual Time now() = 0;

  // An instance that does not exist, or an execution that was removed, is `not_found`.
  virtual Result<History> history(const HistoryQuery& query) = 0;
  virtual Result<Page<Execution>> instances(const InstancesQuery& query) = 0;  // by key
  virtual Result<std::optional<Record>> record(std::string_view space, std::string_view key) = 0;
  virtual Result<Page<Record>> records(const RecordsQuery& query) = 0;  // by key
  virtual Result<Page<PeekedMessage>> peek(const PeekQuery& query) = 0;
  virtual Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) = 0;
  virtual Result<QueueStats> stats(std::string_view queue) = 0;
  virtual Result<std::vector<QueueInfo>> queues() = 0;            // by name
  virtual Result<std::vector<Subscription>> subscriptions() = 0;  // by queue
  virtual Result<std::vector<Topic>> topics() = 0;                // those with settings, by name
};

struct OpenOptions {
  std::shared_ptr<Clock> clock;  // none: the system's
  Limits limits;
  bool create = true;  // false: a store that does not exist is an error
  // What a store on disk may take of memory for buffers and caches. Bodies beyond it are on disk
  // alone; what waits is indexed in memory besides (see Limits::memory_bytes_max).
  std::size_t cache_bytes = std::size_t{256} << 20U;
};

// Opens the store that the URL names.
//
//   rocksdb:PATH   a folder with a RocksDB database: the default for one machine
//   sqlite:PATH    a file with an SQLite database, which people can read with its shell
//   postgres://…   a database of PostgreSQL, which many processes share
//   strand://HOST:PORT, strands://HOST:PORT   what a server has, the second over TLS
//   memory:        kept in this process, gone when closed
//   memory:NAME    kept in this process, found again by the same name after it was closed
//
// A store has one owner: a second open of the same one is `in_use`, and says who holds it.
Result<std::unique_ptr<Store>> open(std::string_view url, OpenOptions options = {});

}  // namespace strand
