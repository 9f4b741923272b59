// A process that is stopped for longer than its leases, and goes on: it must not finish what it
// has lost.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "crash/child.h"

namespace strand::crash {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Stopped : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "strand-stopped-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] Child::Words command() const {
    return {std::string(STRAND_BINARY_DIR) + "/strand-stop-child",
            GetParam() + ":" + (folder_ / "store").native()};
  }

 private:
  fs::path folder_;
};

std::string next(Child& child) {
  return child.line(std::chrono::steady_clock::now() + 60s).value_or("(nothing)");
}

std::uint64_t second_word(const std::string& line) {
  std::istringstream words(line);
  std::string first;
  std::uint64_t number = 0;
  words >> first >> number;
  return number;
}

// Time passes for a store while its process is stopped: the lease is over when it goes on.
TEST_P(Stopped, A_process_that_goes_on_after_its_lease_is_fenced_and_settles_nothing_twice) {
  Child child(command());
  const std::string leased = next(child);
  ASSERT_TRUE(leased.starts_with("leased ")) << leased;
  child.signal(SIGSTOP);
  std::this_thread::sleep_for(600ms);
  child.signal(SIGCONT);
  child.say("go on\n");
  EXPECT_EQ(next(child), "slow lease_lost");
  const std::string quick = next(child);
  EXPECT_TRUE(quick.ends_with(" ok")) << quick;
  EXPECT_GT(second_word(quick), second_word(leased)) << "a later lease has a higher epoch";
  EXPECT_EQ(next(child), "acked 1");
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(Stopped, A_process_that_goes_on_in_time_has_lost_nothing) {
  Child child(command());
  ASSERT_TRUE(next(child).starts_with("leased "));
  child.signal(SIGSTOP);
  child.signal(SIGCONT);
  child.say("go on\n");
  const std::string slow = next(child);
  if (slow != "slow ok") {
    // Only a machine that took 300 ms for this may say so; then the first test has said it all.
    EXPECT_EQ(slow, "slow lease_lost");
    return;
  }
  EXPECT_EQ(next(child), "acked 1");
}

INSTANTIATE_TEST_SUITE_P(Stores, Stopped, ::testing::Values("rocksdb", "sqlite"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strand::crash
