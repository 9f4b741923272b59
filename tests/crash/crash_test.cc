// Stores whose processes are killed: see README.md.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/strand.h>

#include "crash/child.h"
#include "crash/ledger.h"
#include "store/check/check.h"
#include "store/open.h"

namespace strand::crash {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Where {
  std::string store;             // a scheme
  std::string point;             // "anywhere": killed from outside, at a random moment
  std::uint64_t times_max = 60;  // it is met up to so many times before it kills
};

void PrintTo(const Where& where, std::ostream* out) { *out << where.store << " " << where.point; }

class Crash : public ::testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    // In memory where the moment is chosen: a kill leaves what the operating system has, synced or
    // not, and a sync that takes no time leaves time for more kills. The others are on a disk.
    const fs::path memory = "/dev/shm";
    const bool on_disk = GetParam().point == "anywhere" || ::access(memory.c_str(), W_OK) != 0;
    std::string name = (on_disk ? fs::temp_directory_path() : memory) / "strand-crash-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::random_device device;
    seed_ = device();
    if (const char* given = std::getenv("STRAND_CRASH_SEED")) {  // NOLINT(concurrency-mt-unsafe)
      seed_ = std::strtoull(given, nullptr, 10);
    }
    random_.seed(seed_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string url() const {
    return GetParam().store + ":" + (folder_ / "store").native();
  }

  void live_and_die(std::uint64_t run, unsigned batch_max) {
    const Where& where = GetParam();
    // The first one makes the store, or every later one could die while it is made.
    const bool anywhere = where.point == "anywhere" || !fs::exists(folder_ / "store");
    Child child({std::string(STRAND_BINARY_DIR) + "/strand-crash-child", url(), std::to_string(run),
                 std::to_string(random_() % 1'000'000), std::to_string(batch_max),
                 anywhere ? "never" : where.point,
                 std::to_string(1 + random_() % where.times_max)});
    const auto begin = std::chrono::steady_clock::now();
    auto until = begin + 60s;
    while (auto line = child.line(until)) {
      if (*line == "R" && anywhere) {
        until = std::chrono::steady_clock::now() + std::chrono::milliseconds(random_() % 120);
      }
      ledger_.hear(*line);
    }
    if (anywhere) {
      child.signal(SIGKILL);
      while (auto line = child.line(begin + 120s))
        ledger_.hear(*line);
    }
    ASSERT_TRUE(child.over()) << "the process never came to " << where.point;
    const int status = child.wait();
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "the process ended by itself, with status " << status;
  }

  // Opens what is left, and holds it to what was said. Then lets the leases of the dead run out.
  void look() {
    auto clock = std::make_shared<ManualClock>(
        std::chrono::floor<Duration>(std::chrono::system_clock::now()));
    auto store = open(url(), {.clock = clock, .limits = {}, .cache_bytes = std::size_t{1} << 20U});
    ASSERT_TRUE(store) << store.error().message;
    const auto wrong = ledger_.compare(**store);
    for (std::size_t i = 0; i < std::min<std::size_t>(wrong.size(), 10); ++i)
      ADD_FAILURE() << wrong[i];
    clock->advance(11s);
    std::ignore = (*store)->stats("in");
    store->reset();

    const auto backend = store::open_backend(url(), {});
    ASSERT_TRUE(backend) << backend.error().message;
    const auto report = check::inspect(**backend);
    ASSERT_TRUE(report) << report.error().message;
    for (const check::Finding& finding : report->findings)
      ADD_FAILURE() << check::to_string(finding.kind) << ": " << finding.what;
  }

  // A new store, and a new ledger. What was confirmed so far stays counted.
  void start_anew() {
    confirmed_ += ledger_.confirmed();
    ledger_ = {};
    fs::remove_all(folder_);
    ASSERT_TRUE(fs::create_directory(folder_));
  }

  [[nodiscard]] std::uint64_t confirmed() const { return confirmed_ + ledger_.confirmed(); }

  Ledger ledger_;
  std::mt19937_64 random_;
  std::uint64_t seed_ = 0;

 private:
  fs::path folder_;
  std::uint64_t confirmed_ = 0;  // by the stores before this one
};

TEST_P(Crash, Nothing_confirmed_is_lost_or_repeated_or_out_of_order) {
  SCOPED_TRACE("repeat with STRAND_CRASH_SEED=" + std::to_string(seed_));
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t runs = full ? 500 : 20;
  for (std::uint64_t run = 1; run <= runs && !HasFailure(); ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    // Everything in the store is looked at after each kill: where the point is named, and not time
    // and size matter, it need not grow for ever.
    if (run % 50 == 0 && GetParam().point != "anywhere") ASSERT_NO_FATAL_FAILURE(start_anew());
    ASSERT_NO_FATAL_FAILURE(live_and_die(run, full ? 40 : 5));
    ASSERT_NO_FATAL_FAILURE(look());
  }
  RecordProperty("confirmed", std::to_string(confirmed()));
  std::printf("%llu confirmed over %llu kills\n", static_cast<unsigned long long>(confirmed()),
              static_cast<unsigned long long>(runs));
}

std::vector<Where> places() {
  std::vector<Where> result;
  for (const std::string store : {"rocksdb", "sqlite"}) {
    for (const std::string point : {"anywhere", "batch.before", "batch.after", "log.append.before",
                                    "log.append.after", "log.sync.before", "log.sync.after"}) {
      result.push_back({.store = store, .point = point});
    }
    // Files other than the log: an opening makes some, and flushes, compactions and checkpoints go
    // on making them, but not often.
    const bool rocksdb = store == "rocksdb";
    for (const std::string when : {".before", ".after"}) {
      const std::uint64_t appends = rocksdb ? 40 : 20;
      result.push_back({.store = store, .point = "file.append" + when, .times_max = appends});
      const std::uint64_t syncs = rocksdb ? 10 : 1;
      result.push_back({.store = store, .point = "file.sync" + when, .times_max = syncs});
      // A name is changed once an opening.
      if (rocksdb) result.push_back({.store = store, .point = "rename" + when, .times_max = 1});
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Points, Crash, ::testing::ValuesIn(places()), [](const auto& info) {
  std::string name = info.param.store + "_" + info.param.point;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace strand::crash
