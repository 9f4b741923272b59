// Disks that fail at one operation, or from one on, and work again (S21).

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <strand/strand.h>

#include "faults/fault_script.h"
#include "faults/journal.h"
#include "faults/slices.h"
#include "faults/store_on_disk.h"
#include "faults/work.h"
#include "store/check/check.h"
#include "store/open.h"
#include "unit/fresh_folder.h"

namespace strand::faults {
namespace {

using Fault = FaultScript::Fault;

// What a call may say when the disk fails: nothing of it, or nobody knows.
bool honest(Errc code) {
  return code == Errc::unavailable || code == Errc::unknown_outcome || code == Errc::store_full;
}

class Trial {
 public:
  Trial(OnDisk kind, const FaultScript::Plan& plan, std::uint64_t seed)
      : kind_(kind), plan_(plan), script_(plan), work_(seed, false, clock_, ledger_) {}

  std::vector<std::string> run() {
    make_store(kind_, folder_.path(), clock_);
    {
      auto backend = store::open_backend(url_of(kind_, folder_.path()), {});
      if (!backend) return {backend.error().message};
      if (auto begun = journal_.begin(**backend); !begun) return {begun.error().message};
    }
    {
      const ScriptedSystem system(kind_, script_);
      // Twice, so that closing and opening are among the operations that fail.
      for (int session = 0; session < 2 && trouble_.empty(); ++session)
        live(system);
    }
    if (trouble_.empty()) look();
    return std::move(trouble_);
  }

 private:
  void live(const ScriptedSystem& system) {
    work_.forget_leases();
    auto store = open_journalled(system, folder_.path(), clock_, journal_, trouble_);
    if (!store) {
      const Errc code = store.error().code;
      if (!script_.failed() || code == Errc::corrupt) complain("open", store.error());
      script_.heal();
      store = open_journalled(system, folder_.path(), clock_, journal_, trouble_);
      if (!store) return complain("open again", store.error());
    }
    constexpr int calls = 110;
    for (int i = 0; i < calls && trouble_.empty(); ++i) {
      const auto done = work_.step(**store);
      if (!done) fail(**store, done.error());
    }
  }

  // A call has failed: the store goes on failing, cleanly, as long as the disk does; and serves by
  // itself when that is over.
  void fail(Store& store, const Error& error) {
    if (!script_.failed() || recovered_) return complain("a call failed without a fault", error);
    if (!honest(error.code)) return complain("a failed call", error);
    if (plan_.stays) {
      for (int i = 0; i < 3; ++i) {
        const auto stats = store.stats("in");
        if (!stats && !honest(stats.error().code)) complain("stats", stats.error());
      }
      const auto again = store.apply(Transaction{});
      if (!again && !honest(again.error().code)) complain("a repeated call", again.error());
    }
    script_.heal();
    recovered_ = true;
    for (std::string& wrong : ledger_.compare(store, false))
      trouble_.push_back("when the fault had passed: " + wrong);
  }

  void look() {
    OpenOptions options;
    options.clock = clock_;
    auto backend = store::open_backend(url_of(kind_, folder_.path()), options);
    if (!backend) return complain("open at the end", backend.error());
    if (auto wrong = journal_.reopened(**backend); !wrong.empty()) trouble_.push_back(wrong);
    const auto report = check::inspect(**backend);
    if (!report) return complain("check", report.error());
    for (const check::Finding& finding : report->findings)
      trouble_.push_back("check: " + finding.what);
    auto store = store::open_on(*std::move(backend), options);
    if (!store) return complain("open at the end", store.error());
    for (std::string& wrong : ledger_.compare(**store, false))
      trouble_.push_back(std::move(wrong));
    for (std::string& wrong : ledger_.compare_numbers(**store))
      trouble_.push_back(std::move(wrong));
  }

  void complain(std::string_view what, const Error& error) {
    trouble_.push_back(fmt::format("{}: {} ({})", what, error.message, to_string(error.code)));
  }

  const OnDisk kind_;
  const FaultScript::Plan plan_;
  const FreshFolder folder_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  Journal journal_;
  Ledger ledger_;
  FaultScript script_;
  Work work_;
  bool recovered_ = false;
  std::vector<std::string> trouble_;
};

class FailingDisk : public ::testing::TestWithParam<Slice> {};

// The seed is the number of the operation that fails.
TEST_P(FailingDisk, Is_told_honestly_and_survived) {
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  for_each_seed(GetParam(), [&](OnDisk kind, std::uint64_t seed) {
    for (std::uint64_t way = 0; way < 2 * FaultScript::fault_count; ++way) {
      if (!full && way != seed % (2 * FaultScript::fault_count)) continue;
      const FaultScript::Plan plan{.at = full ? seed : seed * 17 % 500,
                                   .fault = static_cast<Fault>(way / 2),
                                   .stays = way % 2 == 1};
      SCOPED_TRACE(fmt::format("fault {} at operation {}{}", way / 2, plan.at,
                               plan.stays ? ", and it stays" : ""));
      for (const std::string& wrong : Trial(kind, plan, seed).run())
        ADD_FAILURE() << wrong;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, FailingDisk, ::testing::ValuesIn(slices(40, 500)), slice_name);

}  // namespace
}  // namespace strand::faults
