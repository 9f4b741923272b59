#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/state.h"

namespace strand::model {

// The number of a batch of decisions, as the store counts them.
using Commit = std::uint64_t;

// Who was told that something may have changed, once a batch was written.
struct Told {
  bool everyone = false;
  std::set<std::string> queues;
  std::set<Epoch> holds;
  std::set<std::pair<std::string, std::string>> records;
};

// Judges a store that decides one call at a time and writes its decisions in batches.
//
// It is told every call in the order of the decisions, with the store's answer; which batches were
// written; and, after a failed write or a crash, which of them survived. From that it knows three
// states: what is decided, what is written (reads from disk show that), and what nothing can undo.
//
// Every method throws a Violation when what it is told cannot be.
class Model {
 public:
  explicit Model(const Limits& limits);

  // --- Calls. `commit` is the batch that covers the decision ---

  void apply(const Transaction& transaction, Time at, const Result<Receipt>& seen, Commit commit);
  // lease and pull take what was decided (ids and counters), and return the whole answer that is
  // due once it is written; see shown().
  std::vector<Lease> lease(const LeaseRequest& request, Time at,
                           const Result<std::vector<Lease>>& seen, Commit commit);
  Pulled pull(const Token& token, Cursor cursor, PullLimits limits, Time at,
              const Result<Pulled>& seen, Commit commit);
  void renew(const Token& token, Duration lease, Time at, const Result<Time>& seen, Commit commit);
  // The store came as far as `at` on its way to `wanted`: nothing that is due by then is left out.
  void advance(Time at, Time wanted, Commit commit);

  // --- What becomes of batches ---

  // All batches up to `commit` are written; if `durable`, power loss cannot undo them.
  void written(Commit commit, bool durable, const Told& told);
  // The store was read anew, at an open or after a failed write.
  struct Reloaded {
    bool opened = true;
    Commit survived = 0;  // all batches up to this one were found
    Commit floor = 0;     // … and all up to this one had to be
    Time at;              // store time now
    Commit commit = 0;    // covers what reading decided
  };
  void reloaded(const Reloaded& what);

  // --- Answers as clients get them ---

  void shown(const Receipt& receipt);
  void shown(const LeaseRequest& request, const std::vector<Lease>& due,
             const std::vector<Lease>& seen);
  void shown(const Pulled& due, const Pulled& seen);

  // --- Reads of what is decided ---

  void stats(const std::string& queue, const Result<QueueStats>& seen) const;
  void queues(const std::vector<QueueInfo>& seen) const;
  void subscriptions(const std::vector<Subscription>& seen) const;
  void topics(const std::vector<Topic>& seen) const;
  Page<PeekedMessage> peek(const PeekQuery& query, const Result<Page<PeekedMessage>>& seen);
  void shown(const Page<PeekedMessage>& due, const Page<PeekedMessage>& seen) const;
  void current(const Token& token, bool seen) const;
  // What messages and lanes take of memory is the store's own estimate, but nothing takes nothing.
  void memory(std::size_t bytes) const;
  // The store's own timer must not miss anything.
  void next_due(const std::optional<Time>& seen) const;

  // --- Reads of what is written ---

  void dead_letters(const DeadLettersQuery& query, const Result<Page<DeadLetter>>& seen);
  void history(const HistoryQuery& query, const Result<History>& seen) const;
  void instances(const InstancesQuery& query, const Result<Page<Execution>>& seen) const;
  void record(const std::string& space, const std::string& key,
              const std::optional<Record>& seen) const;
  void records(const RecordsQuery& query, const Page<Record>& seen) const;

  // I11: after the faults are off and everything was served.
  void drained() const;

  [[nodiscard]] const State& decided() const { return decided_; }
  [[nodiscard]] const State& written_state() const { return written_; }

 private:
  struct Call {
    Commit commit = 0;
    struct Apply {
      Transaction transaction;
      Time at;
      Result<Receipt> seen;
    };
    struct Lend {
      LeaseRequest request;
      Time at;
      Result<std::vector<Lease>> seen;
    };
    struct Pull {
      Token token;
      Cursor cursor;
      PullLimits limits;
      Time at;
      Result<Pulled> seen;
    };
    struct Renew {
      Token token;
      Duration lease;
      Time at;
      Result<Time> seen;
    };
    struct Advance {
      Time at;
      Time wanted;
    };
    struct Reload {
      Time at;
      bool opened;
    };
    struct Learn {
      Uid uid;
      MessageId id;
    };
    std::variant<Apply, Lend, Pull, Renew, Advance, Reload, Learn> what;
  };
  static void replay(State& state, const Call& call);
  void log(Commit commit, decltype(Call::what) what);
  void learn(Uid uid, MessageId id);
  void check_message(const Message& due, const Message& seen) const;
  void check_told(const Told& told) const;

  State decided_;
  State written_;
  State durable_;                // at the beginning of log_
  std::deque<Call> log_;         // since durable_
  std::size_t log_written_ = 0;  // so many of it are in written_
  Commit written_commit_ = 0;
};

}  // namespace strand::model
