#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <strand/store.h>

#include "differential/renaming.h"

namespace strand::differential {

// How often something was seen, by a name for people.
using Coverage = std::map<std::string, std::uint64_t>;

// The stores do not agree. Thrown by the call that shows it; caught where a history is run.
struct Difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How the two stores are opened, and opened again; an error is thrown, as std::runtime_error.
using Opener = std::function<std::unique_ptr<Store>(const OpenOptions&)>;
struct Openers {
  Opener reference;
  Opener other;
};

// Two stores that get the same calls at the same times, each in its own words, and must give the
// same answers. Returns what the reference answered; throws Difference when the other did not.
//
// Threads: one caller. The stores may have threads of their own.
class Lockstep {
 public:
  // `traced`: keep a text of every call, which takes time.
  Lockstep(Openers openers, const Limits& limits, bool traced);

  std::vector<Result<Receipt>> apply(const std::vector<Transaction>& transactions);
  Result<Receipt> apply(const Transaction& transaction);
  Result<std::vector<Lease>> lease(const LeaseRequest& request);
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits);
  std::vector<Result<Time>> renew(const std::vector<Token>& tokens, Duration lease);

  Result<History> history(const HistoryQuery& query);
  Result<Page<Execution>> instances(const InstancesQuery& query);
  Result<std::optional<Record>> record(const std::string& space, const std::string& key);
  Result<Page<Record>> records(const RecordsQuery& query);
  Result<Page<PeekedMessage>> peek(const PeekQuery& query);
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query);
  Result<QueueStats> stats(const std::string& queue);
  Result<std::vector<QueueInfo>> queues();
  Result<std::vector<Subscription>> subscriptions();
  Result<std::vector<Topic>> topics();

  [[nodiscard]] Time now();
  void advance(Duration step);
  void advance_to(Time time);
  void reopen();

  // Heads the calls that follow, in the trace.
  void heading(const std::string& text);

  [[nodiscard]] Renaming& renaming() { return renaming_; }
  [[nodiscard]] Coverage& coverage() { return coverage_; }
  [[nodiscard]] const std::vector<std::string>& trace() const { return trace_; }

 private:
  template <class T, class Call, class Accept>
  void compare(const char* what, const Call& call, const Result<T>& reference,
               const Result<T>& other, const Accept& accept);
  template <class T, class Call>
  Result<T> same(const char* what, const Call& call, Result<T> reference, const Result<T>& other);
  void open();
  // Every lease is above all that its store gave before.
  static void check_epochs(const std::vector<Lease>& leases, std::set<Epoch>& seen,
                           const char* whose);

  Openers openers_;
  std::shared_ptr<ManualClock> clock_;
  OpenOptions options_;
  std::unique_ptr<Store> reference_;
  std::unique_ptr<Store> other_;
  Renaming renaming_;
  std::set<Epoch> reference_epochs_;
  std::set<Epoch> other_epochs_;
  Coverage coverage_;
  bool traced_;
  std::vector<std::string> trace_;
};

}  // namespace strand::differential
