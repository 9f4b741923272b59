#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <strand/store.h>

#include "model/recorder.h"

namespace strand::postgres_faults {

using Stamp = std::chrono::steady_clock::time_point;
// The client and the number of a transaction's id.
using TransactionKey = std::pair<std::uint64_t, std::uint64_t>;

// Will be applied. Written before the store is asked.
struct Intended {
  Stamp begin = {};
  Transaction transaction = {};  // has an id
};
// An attempt to apply a transaction, or another call, brought no answer that settles the matter.
struct Troubled {
  Errc code{};
};
// The answer that settles it.
struct Answered {
  TransactionKey key = {};
  Stamp end = {};
  Time store_time{};
  Result<Receipt> answer = Receipt{};
};
// All that runs before this one of the same name left unanswered has been answered by now: so many
// transactions.
struct CaughtUp {
  std::uint64_t transactions = 0;
};

using Entry =
    std::variant<Intended, Troubled, Answered, CaughtUp, model::Recorder::Leased,
                 model::Recorder::PulledMore, model::Recorder::Renewed, model::Recorder::Counted>;

// What one run of a process asked of its store and was told: a file with a line for each entry. A
// line is written at once, so a process that is killed leaves at most the last one incomplete.
//
// Threads: every method may be called concurrently.
class Journal {
 public:
  // A file that does not exist yet.
  explicit Journal(const std::filesystem::path& path);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  void write(std::span<const Entry> entries) const;
  void write(const Entry& entry) const { write(std::span(&entry, 1)); }

  // All complete lines. Throws std::runtime_error for a file that is no journal.
  static std::vector<Entry> read(const std::filesystem::path& path);
  // The journal of one run of a process.
  static std::filesystem::path path_of(const std::filesystem::path& folder, const std::string& name,
                                       std::uint64_t run);

 private:
  int file_ = -1;
};

// The transactions of which nobody knows what became, in the order in which they were begun.
std::vector<Transaction> unanswered(std::span<const Entry> entries);

// The joint record of many processes, for the model to judge.
class JointRecord {
 public:
  void add(std::span<const Entry> entries);

  struct Totals {
    std::uint64_t applied = 0;   // transactions
    std::uint64_t refused = 0;   // with an answer that settled the matter
    std::uint64_t repeated = 0;  // answered more than once
    std::uint64_t left = 0;      // unanswered by processes that were killed, answered to others
    std::uint64_t leased = 0;
    std::uint64_t unavailable = 0;  // attempts that were not begun, by what they were told
    std::uint64_t unknown = 0;      // attempts that may have been applied
  };
  [[nodiscard]] Totals totals() const;

  // Throws a model::Violation. Every transaction must have been answered.
  void check(std::span<const model::Remains> remains) const;

 private:
  struct Known {
    std::optional<Intended> intended = {};
    std::vector<Answered> answers = {};
  };
  using Dues = std::map<MessageId, Time>;
  [[nodiscard]] Dues find_dues(std::span<const model::Remains> remains) const;
  static model::Recorder::Applied as_accepted(const Known& known, const Answered& answer,
                                              const Dues& dues);

  std::map<TransactionKey, Known> transactions_;
  std::vector<model::Recorder::Entry> others_;
  Totals totals_;
};

}  // namespace strand::postgres_faults
