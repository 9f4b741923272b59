// A disk that fills up: the guard (S21) stops what would grow before it is full, what settles goes
// on, and when there is room again all is as before.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <strand/strand.h>

#include "unit/fresh_folder.h"
#include "unit/local_store_fixture.h"
#include "unit/requests.h"

namespace strand {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;

Transaction ack_and_send(const Lease& lease) {
  Transaction transaction = ack(lease);
  transaction.sends = send("orders", "next").sends;
  return transaction;
}

// --- On a disk that says what the test wants ---

class DiskGuard : public LocalStoreFixture {
 protected:
  const Limits limits_;
};

TEST_F(DiskGuard, Sends_are_refused_before_the_disk_is_full_and_settles_are_not) {
  for (const char* body : {"a", "b", "c"})
    ASSERT_TRUE(store().apply(send("orders", body)));
  disk().set_free_bytes(limits_.disk_reserve_bytes - 1);
  ASSERT_TRUE(store().apply(ack(lease_one("orders"))));  // after a write the disk is looked at

  const auto refused = store().apply(send("orders", "d"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::store_full);
  EXPECT_TRUE(refused.error().retryable());
  EXPECT_NE(refused.error().message.find("disk_reserve_bytes"), std::string::npos);
  EXPECT_FALSE(store().apply(write_record("space", "key", "value")));
  EXPECT_TRUE(store().apply(ack_and_send(lease_one("orders")))) << "down to the lower reserve";

  disk().set_free_bytes(limits_.disk_settle_reserve_bytes - 1);
  ASSERT_TRUE(store().apply(ack(lease_one("orders"))));
  EXPECT_EQ(ready("orders"), 1U);
  const Lease last = lease_one("orders");
  const auto grows = store().apply(ack_and_send(last));
  ASSERT_FALSE(grows);
  EXPECT_EQ(grows.error().code, Errc::store_full);
  EXPECT_TRUE(store().apply(ack(last)));
}

TEST_F(DiskGuard, Room_that_was_made_is_noticed_by_the_next_send) {
  disk().set_free_bytes(0);
  ASSERT_TRUE(store().apply(send("orders", "a")));
  EXPECT_FALSE(store().apply(send("orders", "b")));
  disk().set_free_bytes(limits_.disk_reserve_bytes);
  EXPECT_TRUE(store().apply(send("orders", "c")));
}

// --- On a disk that is really full ---

// A file system of a few megabytes, while it lives.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path place, std::uint64_t bytes) : place_(std::move(place)) {
    fs::create_directories(place_);
    const std::string size = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", place_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(place_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::uint64_t free_bytes() const { return fs::space(place_).available; }

  // Takes room until so much is left; removed again by give_back().
  void take_all_but(std::uint64_t bytes) const {
    std::ofstream file(ballast(), std::ios::binary);
    const std::string block(64 << 10U, 'x');
    while (free_bytes() > bytes + block.size() && file) {
      file << block;
      file.flush();
    }
  }
  void give_back() const { fs::remove(ballast()); }

 private:
  [[nodiscard]] fs::path ballast() const { return place_ / "ballast"; }
  fs::path place_;
  bool mounted_ = false;
};

class FullDisk : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint64_t disk_bytes = 96 * mebibyte;

  void open(std::uint64_t reserve, std::uint64_t settle_reserve) {
    store_.reset();
    OpenOptions options;
    options.cache_bytes = 4 * mebibyte;
    options.limits.disk_reserve_bytes = reserve;
    options.limits.disk_settle_reserve_bytes = settle_reserve;
    auto opened =
        strand::open(GetParam() + ":" + (folder_.path() / "disk" / "store").native(), options);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  Store& store() { return *store_; }

  // Sends until it is refused. Returns how many were accepted, and how the last one was refused.
  std::pair<std::uint64_t, Error> fill() {
    Transaction batch;
    for (int i = 0; i < 50; ++i)
      batch.sends.push_back(send("orders", std::string(2'000, 'x')).sends.front());
    for (std::uint64_t sent = 0; sent < 1'000'000; sent += batch.sends.size()) {
      if (auto done = store().apply(batch); !done) return {sent, done.error()};
    }
    ADD_FAILURE() << "a small disk took everything";
    return {};
  }
  // Leases and acks all that there is.
  std::uint64_t drain() {
    std::uint64_t count = 0;
    while (true) {
      LeaseRequest request = from("orders");
      request.lanes = request.messages = 100;
      const auto leases = store().lease(request);
      if (!leases) {
        ADD_FAILURE() << leases.error().message;
        return count;
      }
      if (leases->empty()) return count;
      Transaction acks;
      for (const Lease& lease : *leases)
        acks.settles.push_back(ack(lease).settles.front());
      const auto acked = store().apply(acks);
      if (!acked) {
        ADD_FAILURE() << acked.error().message;
        return count;
      }
      count += leases->size();
    }
  }

  FreshFolder folder_;
  SmallDisk disk_{folder_.path() / "disk", disk_bytes};

 private:
  std::unique_ptr<Store> store_;
};

TEST_P(FullDisk, The_guard_stops_sends_in_time_and_the_store_can_be_drained) {
  if (!disk_.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  open(48 * mebibyte, 24 * mebibyte);
  const auto [sent, refused] = fill();
  EXPECT_GT(sent, 1'000U);
  EXPECT_EQ(refused.code, Errc::store_full) << refused.message;
  EXPECT_NE(refused.message.find("disk_reserve_bytes"), std::string::npos) << refused.message;

  EXPECT_EQ(drain(), sent);
  open(0, 0);  // what it freed comes back when files are tidied up; for now there is no guard
  EXPECT_TRUE(store().apply(send("orders", "again")));
  EXPECT_EQ(drain(), 1U);
}

TEST_P(FullDisk, When_there_is_room_again_the_guard_lets_sends_pass) {
  if (!disk_.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  open(32 * mebibyte, 16 * mebibyte);
  ASSERT_TRUE(store().apply(send("orders", "a")));
  disk_.take_all_but(24 * mebibyte);
  ASSERT_TRUE(store().apply(send("orders", "b")));  // it is looked at after each write
  EXPECT_EQ(store().apply(send("orders", "c")).error().code, Errc::store_full);
  disk_.give_back();
  EXPECT_TRUE(store().apply(send("orders", "d")));
  EXPECT_EQ(drain(), 3U);
}

// Without a guard, the disk itself refuses. Nothing confirmed is lost, and it goes on afterwards.
TEST_P(FullDisk, A_disk_that_is_full_to_the_last_byte_loses_nothing) {
  if (!disk_.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  open(0, 0);
  disk_.take_all_but(16 * mebibyte);
  const auto [sent, refused] = fill();
  EXPECT_TRUE(refused.retryable()) << refused.message;
  disk_.give_back();
  EXPECT_TRUE(store().apply(send("orders", "again"))) << "every call tries it anew";
  open(0, 0);
  const std::uint64_t drained = drain();
  EXPECT_GE(drained, sent + 1);
  EXPECT_LE(drained, sent + 51) << "the last batch may be there after an unknown outcome";
}

INSTANTIATE_TEST_SUITE_P(Stores, FullDisk, ::testing::Values("rocksdb", "sqlite"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strand
