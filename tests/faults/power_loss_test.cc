// Power that goes at any operation of the disk, and takes what was not synced (S1, S21).

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <strand/strand.h>

#include "faults/journal.h"
#include "faults/lossy_disk.h"
#include "faults/power_script.h"
#include "faults/slices.h"
#include "faults/store_on_disk.h"
#include "faults/work.h"
#include "store/check/check.h"
#include "store/open.h"
#include "unit/fresh_folder.h"

namespace strand::faults {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// One life of a store: work, power loss, and what is left.
class Life {
 public:
  Life(OnDisk kind, std::uint64_t seed, bool lies = false)
      : kind_(kind), lies_(lies), random_(seed) {}

  std::vector<std::string> live() {
    make_store(kind_, folder_.path(), clock_);
    {
      auto backend = store::open_backend(url_of(kind_, folder_.path()), {});
      if (!backend) return {backend.error().message};
      if (auto begun = journal_.begin(**backend); !begun) return {begun.error().message};
    }
    work_and_lose_power();
    // It may go again while the store is brought in order.
    for (int i = 0; i < 2 && random_() % 4 == 0; ++i)
      lose_power_while_opening();
    if (trouble_.empty()) look();
    return std::move(trouble_);
  }

 private:
  void work_and_lose_power() {
    const bool heavy = random_() % 8 == 0;
    const std::uint64_t calls = 20 + random_() % (heavy ? 250 : 120);
    LossyDisk disk(files_of(kind_, folder_.path()));
    PowerScript::Plan plan{.cut_at = random_() % (calls * 5), .seed = random_(), .lies = lies_};
    if (random_() % 3 == 0) plan.fail_sync = random_() % (plan.cut_at + 1);
    PowerScript script(disk, plan);
    {
      const ScriptedSystem system(kind_, script);
      Work work(random_(), heavy, clock_, ledger_);
      const std::uint64_t sessions = 1 + random_() % 3;
      for (std::uint64_t session = 0; session < sessions && !script.cut(); ++session) {
        work.forget_leases();
        auto store = open_journalled(system, folder_.path(), clock_, journal_, trouble_);
        for (std::uint64_t i = 0; store && i < calls / sessions && !script.cut(); ++i) {
          if (!work.step(**store) && !script.cut()) see_what_became_of_it(**store, script);
          if (!trouble_.empty()) return;
        }
      }
    }
    disk.lose_power(random_);
  }

  // After a failed sync: the store goes on by itself, and shows what it has, which is durable now.
  void see_what_became_of_it(Store& store, const PowerScript& script) {
    auto wrong = ledger_.compare(store, false);
    if (!script.cut()) trouble_.insert(trouble_.end(), wrong.begin(), wrong.end());
  }

  void lose_power_while_opening() {
    LossyDisk disk(files_of(kind_, folder_.path()));
    PowerScript script(disk, {.cut_at = random_() % 40, .seed = random_()});
    {
      const ScriptedSystem system(kind_, script);
      std::ignore = system.open(folder_.path());
    }
    disk.lose_power(random_);
  }

  void look() {
    OpenOptions options;
    options.clock = clock_;
    options.cache_bytes = std::size_t{1} << 20U;
    auto backend = store::open_backend(url_of(kind_, folder_.path()), options);
    if (!backend) return trouble_.push_back("open: " + backend.error().message);
    if (auto wrong = journal_.compare(**backend); !wrong.empty()) trouble_.push_back(wrong);
    const auto report = check::inspect(**backend);
    if (!report) return trouble_.push_back("check: " + report.error().message);
    for (const check::Finding& finding : report->findings)
      trouble_.push_back("check: " + finding.what);
    auto store = store::open_on(*std::move(backend), options);
    if (!store) return trouble_.push_back("open: " + store.error().message);
    for (auto& wrong : ledger_.compare(**store, true))
      trouble_.push_back(std::move(wrong));
    for (auto& wrong : ledger_.compare_numbers(**store))
      trouble_.push_back(std::move(wrong));
  }

  const OnDisk kind_;
  const bool lies_;
  std::mt19937_64 random_;
  const FreshFolder folder_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  Journal journal_;
  Ledger ledger_;
  std::vector<std::string> trouble_;
};

class PowerLoss : public ::testing::TestWithParam<Slice> {};

TEST_P(PowerLoss, What_was_synced_stays_and_the_rest_goes_from_its_end) {
  for_each_seed(GetParam(), [](OnDisk kind, std::uint64_t seed) {
    for (const std::string& wrong : Life(kind, seed).live())
      ADD_FAILURE() << wrong;
  });
}

// Found by a long run: power lost while the first page went from the log into the database, so that
// its header was torn. The log had it still, but the store was taken for another kind of file.
TEST(PowerLossAtTheHeader, A_torn_header_is_brought_back_from_the_log) {
  constexpr std::uint64_t seed = 2321;
  for (const std::string& wrong : Life(OnDisk::sqlite, seed).live())
    ADD_FAILURE() << wrong;
}

// --- RocksDB goes on to another log before the one before it is synced ---

std::vector<fs::path> logs_of(const fs::path& store) {
  std::vector<fs::path> logs;
  for (const auto& file : fs::directory_iterator(store / "data")) {
    if (file.path().extension() == ".log") logs.push_back(file.path());
  }
  std::ranges::sort(logs);
  return logs;
}

// Where the last whole batch of a log begins. A log consists of blocks of 32 KiB, and these of
// pieces of records: checksum, length, kind (1: a whole record, 2: the first piece of one), data.
std::size_t last_record(const fs::path& log) {
  std::ifstream file(log, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  constexpr std::size_t block = 32768;
  constexpr std::size_t head = 7;
  std::size_t last = 0;
  for (std::size_t at = 0; at + head <= bytes.size();) {
    if (block - at % block < head) {
      at += block - at % block;
      continue;
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    const std::size_t length = byte(4) | static_cast<std::size_t>(byte(5)) << 8U;
    if (byte(6) == 1 || byte(6) == 2) last = at;
    at += head + length;
  }
  return last;
}

void send_unsynced(Store& store, int number) {
  Transaction transaction;
  transaction.durability = Durability::async;
  Send& send = transaction.sends.emplace_back();
  send.queue = "q";
  send.body = fmt::format("{:04}", number) + std::string(4000, 'x');
  ASSERT_TRUE(store.apply(transaction));
}

// The end of the older log is lost, at the border of a record, and the newer one is not: what is in
// it was built upon what is missing, and has to go as well. Found by seed 38, now and then.
TEST(PowerLossBetweenTwoLogs, Takes_what_lies_behind_the_gap) {
  const FreshFolder folder;
  const fs::path before = folder.path() / "before";
  const fs::path after = folder.path() / "after";
  int sent = 0;
  {
    OpenOptions options;
    options.cache_bytes = 1;
    const auto store = open("rocksdb:" + before.native(), options);
    ASSERT_TRUE(store) << store.error().message;
    while (logs_of(before).size() < 2 && sent < 5000)
      ASSERT_NO_FATAL_FAILURE(send_unsynced(**store, sent++));
    for (int i = 0; i < 3; ++i)
      ASSERT_NO_FATAL_FAILURE(send_unsynced(**store, sent++));
    // As the operating system has it, while the store is open.
    fs::copy(before, after, fs::copy_options::recursive);
  }
  const std::vector<fs::path> logs = logs_of(after);
  ASSERT_EQ(logs.size(), 2U);
  fs::resize_file(logs[0], last_record(logs[0]));

  {
    const auto backend = store::open_backend("rocksdb:" + after.native(), {});
    ASSERT_TRUE(backend) << backend.error().message;
    const auto report = check::inspect(**backend);
    ASSERT_TRUE(report) << report.error().message;
    for (const check::Finding& finding : report->findings)
      ADD_FAILURE() << finding.what;
  }
  const auto store = open("rocksdb:" + after.native());
  ASSERT_TRUE(store) << store.error().message;
  const std::uint64_t left = (*store)->stats("q").value().ready;
  EXPECT_LT(left, static_cast<std::uint64_t>(sent - 3)) << "nothing of the newer log stays";
  const auto page = (*store)->peek({.queue = "q", .limit = 1000}).value();
  ASSERT_EQ(page.items.size(), left);
  for (std::size_t i = 0; i < page.items.size(); ++i)
    EXPECT_EQ(page.items[i].body.substr(0, 4), fmt::format("{:04}", i));
}

// That these tests can fail: a disk that syncs nothing is what they are there to find.
TEST(PowerLossOnADiskThatLies, Is_found_out) {
  for (const OnDisk kind : {OnDisk::rocksdb, OnDisk::sqlite}) {
    bool found = false;
    for (std::uint64_t seed = 1; seed <= 20 && !found; ++seed)
      found = !Life(kind, seed, true).live().empty();
    EXPECT_TRUE(found) << to_string(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, PowerLoss, ::testing::ValuesIn(slices(50, 5'000)), slice_name);

}  // namespace
}  // namespace strand::faults
