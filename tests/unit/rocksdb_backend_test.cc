// What RocksDB is told to do: when to sync, and how to remove. What a backend promises beyond that
// is tested with the stores.

#include "store/rocksdb/rocksdb_backend.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "faults/disk_script.h"
#include "faults/scripted_file_system.h"
#include "unit/fresh_folder.h"

namespace strand {
namespace {

using engine::Backend;
using engine::Family;
using engine::MutationBatch;
using faults::DiskOperation;

// Counts the syncs of the log, by which commits become durable.
class LogSyncs final : public faults::DiskScript {
 public:
  int before(const DiskOperation&) override { return 0; }
  void after(const DiskOperation& operation) override {
    if (operation.kind == DiskOperation::Kind::sync && operation.on_log()) ++count_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::atomic<std::size_t> count_ = 0;
};

class RocksdbBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened =
        rocks::open_rocksdb(folder_ / "store", {.cache_bytes = 4U << 20U, .env = env_.get()});
    ASSERT_TRUE(opened) << opened.error().message;
    backend_ = std::move(*opened);
  }
  void TearDown() override { backend_.reset(); }

  void put(Family family, const std::string& key, const std::string& value,
           Durability durability = Durability::async) {
    MutationBatch batch;
    batch.put(family, key, value);
    ASSERT_TRUE(backend_->write(batch, durability));
  }
  void erase(Family family, const std::string& key) {
    MutationBatch batch;
    batch.erase(family, key);
    ASSERT_TRUE(backend_->write(batch, Durability::async));
  }
  // What is in memory goes to a table file, where entries and their removals meet.
  void flush() { ASSERT_TRUE(backend_->reopen()); }
  std::vector<std::string> keys(Family family) {
    std::vector<std::string> found;
    EXPECT_TRUE(backend_->scan(family, {}, {}, [&](std::string_view key, std::string_view) {
      found.emplace_back(key);
      return true;
    }));
    return found;
  }

  LogSyncs syncs_;
  std::unique_ptr<Backend> backend_;

 private:
  const FreshFolder folder_;
  const std::unique_ptr<::rocksdb::Env> env_ = faults::scripted_env(syncs_);
};

TEST_F(RocksdbBackendTest, A_write_is_synced_exactly_if_it_asks_for_it) {
  const std::size_t before = syncs_.count();
  put(Family::record, "a", "1", Durability::async);
  EXPECT_EQ(syncs_.count(), before);
  put(Family::record, "b", "2", Durability::sync);
  EXPECT_EQ(syncs_.count(), before + 1);
}

// A single delete removes one version, and the one before it would come back.
TEST_F(RocksdbBackendTest, What_was_written_many_times_and_erased_does_not_come_back) {
  const std::string key(8, '\1');
  for (const Family family :
       {Family::meta, Family::queue, Family::counters, Family::state, Family::lane, Family::lease,
        Family::request, Family::dedup, Family::client, Family::receipt, Family::dead,
        Family::topic, Family::subscription, Family::instance, Family::record}) {
    SCOPED_TRACE(static_cast<int>(family));
    put(family, key, "first");
    put(family, key, "second");
    flush();
    put(family, key, "third");
    put(family, key, "fourth");
    erase(family, key);
    flush();
    EXPECT_TRUE(keys(family).empty());
  }
}

// A dead letter that comes back has its old id: its message is put a second time.
TEST_F(RocksdbBackendTest, What_is_written_once_at_a_time_may_come_and_go) {
  const std::string key(8, '\1');
  for (const Family family : {Family::message, Family::body}) {
    put(family, key, "first");
    erase(family, key);
    put(family, key, "second");
    flush();
    EXPECT_EQ(keys(family).size(), 1U);
    erase(family, key);
    flush();
    EXPECT_TRUE(keys(family).empty());
  }
}

TEST_F(RocksdbBackendTest, Erasing_by_prefix_takes_what_begins_with_it_and_nothing_else) {
  for (const Family family : {Family::event, Family::dedup, Family::execution, Family::dead}) {
    SCOPED_TRACE(static_cast<int>(family));
    for (const char* key : {"a", "b", "b\1", "bb", "b\xff", "c", "c\1", "d"})
      put(family, key, "x");
    MutationBatch batch;
    batch.erase_prefix(family, "b");
    ASSERT_TRUE(backend_->write(batch, Durability::async));
    EXPECT_EQ(keys(family), (std::vector<std::string>{"a", "c", "c\1", "d"}));
  }
}

TEST_F(RocksdbBackendTest, Erasing_a_range_takes_its_first_key_and_leaves_its_last) {
  for (const Family family : {Family::event, Family::dedup}) {
    SCOPED_TRACE(static_cast<int>(family));
    for (const char* key : {"a", "b", "b\1", "c", "d"})
      put(family, key, "x");
    MutationBatch batch;
    batch.put(family, "bb", "put before it, in the same batch");
    batch.erase_range(family, "b", "c");
    ASSERT_TRUE(backend_->write(batch, Durability::async));
    flush();
    EXPECT_EQ(keys(family), (std::vector<std::string>{"a", "c", "d"}));
  }
}

}  // namespace
}  // namespace strand
