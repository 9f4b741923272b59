// Messages that are erased by a list, and removed from the database later: nobody sees a
// difference, whenever the store is opened again.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include "faults/disk_script.h"
#include "faults/scripted_file_system.h"
#include "store/engine/records.h"
#include "store/rocksdb/erased.h"
#include "store/rocksdb/layout.h"
#include "store/rocksdb/rocksdb_backend.h"
#include "unit/fresh_folder.h"

namespace strand {
namespace {

using engine::Backend;
using engine::Family;
using engine::MutationBatch;
using rocks::Column;
using rocks::ErasedMessages;

using Ids = std::vector<std::uint64_t>;

constexpr std::size_t generation = ErasedMessages::generation_ids;
constexpr std::size_t step = 1'000;

std::string key(std::uint64_t id) { return engine::number_key(id); }

// --- The list ---

TEST(RocksdbErasedList, Ids_come_back_as_they_were) {
  for (const Ids& ids : {Ids{0}, Ids{1}, Ids{7, 8, 300, 70'000}, Ids{0, UINT64_MAX}}) {
    EXPECT_EQ(rocks::decode_ids(rocks::encode_ids(ids)), ids);
  }
}

TEST(RocksdbErasedList, Bytes_that_are_no_list_are_found_out) {
  const std::string whole = rocks::encode_ids(Ids{5, 900});
  EXPECT_FALSE(rocks::decode_ids(""));
  EXPECT_FALSE(rocks::decode_ids(whole.substr(0, whole.size() - 1)));
  EXPECT_FALSE(rocks::decode_ids(whole + '\0')) << "the same id twice";
  EXPECT_FALSE(rocks::decode_ids(rocks::encode_ids(Ids{UINT64_MAX}) + '\1')) << "beyond the last";
}

// --- In the database ---

// Fails each write of the log while it is told to.
class FailingLog final : public faults::DiskScript {
 public:
  int before(const faults::DiskOperation& operation) override {
    const bool hit = operation.kind == faults::DiskOperation::Kind::write && operation.on_log();
    return fails_ && hit ? EIO : 0;
  }
  void after(const faults::DiskOperation&) override {}
  void fail(bool fails) { fails_ = fails; }

 private:
  std::atomic<bool> fails_ = false;
};

class RocksdbErased : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void TearDown() override { backend_.reset(); }

  Result<std::unique_ptr<Backend>> try_open() {
    return rocks::open_rocksdb(path(), {.cache_bytes = 4U << 20U, .env = env_.get()});
  }
  void open() {
    backend_.reset();
    auto opened = try_open();
    ASSERT_TRUE(opened) << opened.error().message;
    backend_ = std::move(*opened);
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store"; }

  void write(const MutationBatch& batch) {
    const auto written = backend_->write(batch, Durability::async);
    ASSERT_TRUE(written) << written.error().message;
  }
  // Messages 1 to `count`.
  void put_messages(std::uint64_t count) {
    MutationBatch batch;
    for (std::uint64_t id = 1; id <= count; ++id) {
      batch.put(Family::message, key(id), "value");
      live_.insert(id);
    }
    write(batch);
  }
  void erase(const Ids& ids) {
    MutationBatch batch;
    for (const std::uint64_t id : ids) {
      batch.erase(Family::message, key(id));
      live_.erase(id);
    }
    write(batch);
  }
  // Some that are live, from anywhere.
  Ids any(std::size_t count) {
    Ids ids;
    std::ranges::sample(live_, std::back_inserter(ids), static_cast<std::ptrdiff_t>(count),
                        random_);
    std::ranges::shuffle(ids, random_);
    return ids;
  }
  // Reads see what is live, all of it and nothing else.
  void expect_live() {
    Ids scanned;
    ASSERT_TRUE(backend_->scan(Family::message, {}, {}, [&](std::string_view k, std::string_view) {
      scanned.push_back(engine::decode_number_key(k).value_or(0));
      return true;
    }));
    EXPECT_TRUE(std::ranges::equal(scanned, live_)) << scanned.size() << " for " << live_.size();
    const std::uint64_t last = live_.empty() ? 50 : *live_.rbegin();
    for (std::uint64_t id = 1; id <= last; id += 1 + last / 50) {
      const auto found = backend_->get(Family::message, key(id));
      ASSERT_TRUE(found);
      EXPECT_EQ(found->has_value(), live_.contains(id)) << id;
    }
  }

  // The closed database as it is, without us.
  void with_database(
      const std::function<void(::rocksdb::DB&, const std::vector<::rocksdb::ColumnFamilyHandle*>&)>&
          use) {
    backend_.reset();
    std::vector<::rocksdb::ColumnFamilyDescriptor> columns;
    for (const char* name : rocks::column_names)
      columns.emplace_back(name, ::rocksdb::ColumnFamilyOptions());
    std::vector<::rocksdb::ColumnFamilyHandle*> handles;
    ::rocksdb::DB* opened = nullptr;
    const auto status =
        ::rocksdb::DB::Open({}, (path() / "data").native(), columns, &handles, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::unique_ptr<::rocksdb::DB> db(opened);
    use(*db, handles);
    for (::rocksdb::ColumnFamilyHandle* handle : handles)
      EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
    // It was changed behind the back of the note.
    std::filesystem::remove(path() / "synced");
  }
  struct Entries {
    std::size_t messages = 0;
    std::size_t lists = 0;
    friend bool operator==(const Entries&, const Entries&) = default;
  };
  Entries entries() {
    Entries result;
    with_database([&](::rocksdb::DB& db, const auto& columns) {
      const auto count = [&](Column column, std::string_view from) {
        const std::unique_ptr<::rocksdb::Iterator> at(
            db.NewIterator({}, columns[static_cast<std::size_t>(column)]));
        std::size_t found = 0;
        for (at->Seek({from.data(), from.size()}); at->Valid(); at->Next())
          found += at->key() == ::rocksdb::Slice(rocks::batch_key.data(), 1) ? 0 : 1;
        return found;
      };
      result = {.messages = count(Column::message, {}),
                .lists = count(Column::small, std::string_view(&rocks::erased_prefix, 1))};
    });
    open();
    return result;
  }
  void put_list(const std::string& name, const std::string& value) {
    with_database([&](::rocksdb::DB& db, const auto& columns) {
      ASSERT_TRUE(db.Put({}, columns[static_cast<std::size_t>(Column::small)], name, value).ok());
    });
  }
  void expect_corrupt() {
    const auto opened = try_open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::corrupt);
    EXPECT_NE(opened.error().message.find("a list of erased messages in"), std::string::npos)
        << opened.error().message;
  }

  FailingLog log_;
  std::unique_ptr<Backend> backend_;
  std::set<std::uint64_t> live_;
  std::mt19937_64 random_{1};

 private:
  const FreshFolder folder_;
  const std::unique_ptr<::rocksdb::Env> env_ = faults::scripted_env(log_);
};

TEST_F(RocksdbErased, Many_are_listed_and_hidden) {
  put_messages(1'000);
  erase(any(300));
  expect_live();
  EXPECT_EQ(entries(), (Entries{.messages = 1'000, .lists = 1}));
  expect_live();
}

TEST_F(RocksdbErased, Few_and_very_many_are_removed_at_once) {
  put_messages(2 * generation);
  erase(any(ErasedMessages::list_ids_min - 1));
  erase(any(generation));
  expect_live();
  EXPECT_EQ(entries(), (Entries{.messages = live_.size(), .lists = 0}));
}

TEST_F(RocksdbErased, A_generation_is_removed_in_steps_and_its_lists_with_the_last) {
  put_messages(2 * generation);
  std::size_t listed = 0;
  for (; listed < generation; listed += step)
    erase(any(step));
  EXPECT_EQ(entries().messages, 2 * generation);
  // From here on each batch removes twice as many as it erases.
  const std::size_t gathered = listed;
  std::size_t steps = 0;
  for (; listed < gathered + gathered / 2; listed += step) {
    ++steps;
    erase(any(step));
    expect_live();
  }
  EXPECT_EQ(steps, 9U);
  EXPECT_EQ(entries(), (Entries{.messages = 2 * generation - gathered, .lists = steps}));
  expect_live();
}

// After each batch: while a generation gathers, when it is full, while and when it was removed.
TEST_F(RocksdbErased, Nothing_comes_back_whenever_it_is_opened_again) {
  constexpr std::size_t batches = 2 * generation / step;
  for (std::size_t stop = 1; stop <= batches; stop += 4) {
    SCOPED_TRACE(stop);
    backend_.reset();
    std::filesystem::remove_all(path());
    open();
    live_.clear();
    put_messages(3 * generation);
    for (std::size_t i = 0; i < stop; ++i)
      erase(any(step));
    if (stop % 8 == 1) {
      open();
    } else {
      ASSERT_TRUE(backend_->reopen());
    }
    expect_live();
    for (std::size_t i = 0; i < 3; ++i)
      erase(any(step));
    expect_live();
  }
}

TEST_F(RocksdbErased, A_process_that_ends_again_and_again_gets_rid_of_them) {
  put_messages(4 * generation);
  for (std::size_t i = 0; i < 2 * generation / step + 1; ++i) {
    erase(any(step));
    ASSERT_TRUE(backend_->reopen());
  }
  erase(any(step));
  expect_live();
  EXPECT_EQ(entries(), (Entries{.messages = live_.size() + step, .lists = 1}));
}

TEST_F(RocksdbErased, A_listed_message_that_is_put_again_is_there_and_stays) {
  put_messages(100);
  erase(any(50));
  const std::uint64_t again = *std::ranges::find_if_not(
      std::views::iota(std::uint64_t{1}), [&](std::uint64_t id) { return live_.contains(id); });
  MutationBatch batch;
  for (const std::uint64_t id : {again, *live_.begin()}) {
    batch.erase(Family::message, key(id));
    batch.put(Family::message, key(id), "again");
    live_.insert(id);
  }
  write(batch);
  expect_live();
  EXPECT_EQ(entries(), (Entries{.messages = live_.size(), .lists = 0}));
  expect_live();
  erase({again});
  expect_live();
}

// While a generation is being removed, and two of it in one batch.
TEST_F(RocksdbErased, A_message_that_is_being_removed_may_be_put_again) {
  put_messages(2 * generation);
  const Ids erased = any(generation + step);
  for (std::size_t i = 0; i + step <= erased.size(); i += step)
    erase({erased.begin() + static_cast<std::ptrdiff_t>(i),
           erased.begin() + static_cast<std::ptrdiff_t>(i + step)});
  erase(any(step));
  MutationBatch batch;
  for (const std::uint64_t id : {erased[0], erased[1], erased[2]}) {
    batch.put(Family::message, key(id), "again");
    live_.insert(id);
  }
  write(batch);
  expect_live();
  ASSERT_TRUE(backend_->reopen());
  expect_live();
}

TEST_F(RocksdbErased, A_listed_message_cannot_be_buried) {
  put_messages(100);
  const Ids erased = any(50);
  erase(erased);
  MutationBatch batch;
  batch.bury(key(erased.front()), std::string(12, '\1'), "reason");
  const auto written = backend_->write(batch, Durability::async);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::corrupt);
}

TEST_F(RocksdbErased, A_write_that_fails_erases_nothing) {
  put_messages(1'000);
  erase(any(100));
  const auto before = live_;
  log_.fail(true);
  MutationBatch batch;
  for (const std::uint64_t id : any(100))
    batch.erase(Family::message, key(id));
  EXPECT_FALSE(backend_->write(batch, Durability::async));
  expect_live();
  log_.fail(false);
  ASSERT_TRUE(backend_->reopen());
  EXPECT_EQ(live_, before);
  expect_live();
  erase(any(100));
  expect_live();
}

TEST_F(RocksdbErased, A_damaged_list_is_corrupt) {
  put_messages(10);
  put_list(std::string(1, rocks::erased_prefix) + key(1), std::string("\x80", 1));
  expect_corrupt();
}

TEST_F(RocksdbErased, A_list_that_is_named_by_no_batch_is_corrupt) {
  put_messages(10);
  put_list(std::string(1, rocks::erased_prefix) + "batch", rocks::encode_ids(Ids{1}));
  expect_corrupt();
}

TEST_F(RocksdbErased, A_list_of_a_batch_that_was_never_written_is_corrupt) {
  put_messages(10);
  put_list(std::string(1, rocks::erased_prefix) + key(1'000), rocks::encode_ids(Ids{1}));
  expect_corrupt();
}

// A message and its body go with one batch: who misses the body finds no message any more. That is
// how a reader tells a message that has just ended from one that is damaged.
TEST_F(RocksdbErased, Beside_a_write_a_reader_sees_all_of_it_or_nothing) {
  constexpr std::uint64_t count = 20'000;
  MutationBatch batch;
  for (std::uint64_t id = 1; id <= count; ++id) {
    batch.put(Family::message, key(id), "message");
    batch.put(Family::body, key(id), "body");
  }
  write(batch);
  std::atomic<std::uint64_t> next = 1;  // the first of those that are erased at the moment
  std::atomic<std::size_t> torn = 0;
  std::thread reader([&] {
    for (std::uint64_t id = next; id < count; id = next + 50) {
      const auto body = backend_->get(Family::body, key(id));
      const auto message = backend_->get(Family::message, key(id));
      if (!body || !message || (!*body && *message)) ++torn;
    }
  });
  for (; next <= count; next += 100) {
    batch.clear();
    for (std::uint64_t id = next; id < next + 100; ++id) {
      batch.erase(Family::message, key(id));
      batch.erase(Family::body, key(id));
    }
    write(batch);
  }
  reader.join();
  EXPECT_EQ(torn, 0U);
}

}  // namespace
}  // namespace strand
