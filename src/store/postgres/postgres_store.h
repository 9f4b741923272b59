#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "store/contract/watches.h"
#include "store/postgres/answers.h"
#include "store/postgres/location.h"
#include "store/postgres/pool.h"
#include "store/postgres/schema.h"

namespace strand::postgres {

class Upkeep;

// A store in a PostgreSQL database, which many processes on many machines use at once.
//
// What the rules say is in the functions of the schema (sql/): this class calls them, one round
// trip a call, and tells the watches what the database notifies.
//
// Threads:    as Store says; calls wait for one of the connections. Three of its own: one that
//             listens, one for what is due and for upkeep, one that calls watches.
// Time:       the database's, unless a clock is given when the store is made.
// Failure:    deadlocks are repeated. A connection that breaks is replaced; what was being
//             committed then is `unknown_outcome`.
class PostgresStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> open(const Location& location, OpenOptions options);
  ~PostgresStore() override;

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override;
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override;
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override;
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override;
  [[nodiscard]] Time now() override;

  Result<History> history(const HistoryQuery& query) override;
  Result<Page<Execution>> instances(const InstancesQuery& query) override;
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override;
  Result<Page<Record>> records(const RecordsQuery& query) override;
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override;
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override;
  Result<QueueStats> stats(std::string_view queue) override;
  Result<std::vector<QueueInfo>> queues() override;
  Result<std::vector<Subscription>> subscriptions() override;
  Result<std::vector<Topic>> topics() override;

 private:
  friend class Upkeep;
  using SteadyTime = std::chrono::steady_clock::time_point;

  PostgresStore(const Location& location, OpenOptions options, const StoreInfo& info);

  // Runs the groups in one round trip, behind what is due; repeats those that met a deadlock.
  std::vector<GroupResult> run(std::vector<Group> groups);
  Result<std::vector<Rows>> run(Group group, std::string_view what);
  Result<Rows> ask(Statement statement, std::string_view what);
  // The statement that says what time it is, in front of a group.
  void tell_time(Group& group);
  Group catch_up(std::int64_t from);
  void catch_up_wholly(Connection& connection);

  [[nodiscard]] bool nearly_full() const;
  Result<void> check_tokens(const Transaction& transaction) const;
  // The error, unless the database says one of the stronger ones of the transaction's id.
  Result<Receipt> refuse(const Transaction& transaction, Error error,
                         std::initializer_list<std::string_view> stronger);
  // All of them in one transaction of the database; nothing if that did not work.
  bool apply_together(std::span<const Transaction* const> transactions,
                      std::vector<Result<Receipt>*>& results);
  void apply_each(std::span<const Transaction* const> transactions,
                  std::vector<Result<Receipt>*>& results);
  void forget_removed(const Transaction& transaction);
  void wake_settled(const Transaction& transaction);
  Result<Receipt> stored_receipt(const TransactionId& id);

  Result<void> add_histories(std::vector<Lease>& leases, const LeaseRequest& request);
  // An execution with the number 0 if there is none.
  Result<History> read_history(const HistoryQuery& query);

  // What this handle knows of a queue's ready order.
  struct Line {
    std::uint64_t granted = 0;  // for S13
    // Nothing of its priority waits in front of it: so the claim need not look there. What a claim
    // served first becomes the bound by a later claim, when all transactions have ended that could
    // bring a lower turn; or after a while, for one of them may be somebody else's and never end.
    // Now and then everything is looked at, for those that took longer, or were given back.
    Turn bound = {};
    Turn served = {};
    std::int64_t served_high = 0;
    SteadyTime served_at{};
    SteadyTime whole_at{};
  };
  Line line(const std::string& queue);
  void note_granted(const std::string& queue, const Granted& granted);

  std::int64_t due_from();
  void note_caught_up(const GroupResult& done);

  const Limits limits_;
  const std::shared_ptr<Clock> clock_;  // none: the database's
  const Identity identity_;
  Time opened_at_{};                        // with a clock: store time at the opening
  Duration opened_at_monotonic_{};          // and the clock's
  std::atomic<std::int64_t> ahead_ms_ = 0;  // of the database's clock, against this machine's

  std::atomic<std::int64_t> taken_bytes_ = 0;  // by live messages, when the upkeep last looked

  std::mutex due_mutex_;
  std::int64_t due_from_ms_ = 0;  // nothing was due before that is not done
  SteadyTime due_whole_at_{};     // when everything was looked at

  std::mutex lines_mutex_;
  std::map<std::string, Line, std::less<>> lines_;

  store::Watches watches_;
  Pool pool_;
  std::unique_ptr<Upkeep> upkeep_;
};

}  // namespace strand::postgres
