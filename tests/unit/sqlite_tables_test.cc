// The tables of the SQLite backend: every entry comes back as it was, in the order of its key.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "store/engine/records.h"
#include "store/sqlite/sqlite_backend.h"
#include "unit/fresh_folder.h"
#include "unit/random_entries.h"

namespace strand::sqlite {
namespace {

using engine::Family;
using engine::MutationBatch;
using Entries = std::map<std::string, std::string>;

std::unique_ptr<engine::Backend> opened(const std::filesystem::path& path) {
  auto backend = open_sqlite(path, std::size_t{8} << 20U, true);
  if (!backend) ADD_FAILURE() << backend.error().message;
  return std::move(backend).value();
}

void write(engine::Backend& backend, const MutationBatch& batch) {
  const auto written = backend.write(batch, Durability::async);
  ASSERT_TRUE(written) << written.error().message;
}

Entries scanned(const engine::Archive& archive, Family family, std::string_view first = {},
                std::string_view last = {}) {
  Entries entries;
  std::string before;
  const auto done =
      archive.scan(family, first, last, [&](std::string_view key, std::string_view value) {
        EXPECT_TRUE(entries.empty() || before < key) << "not in the order of keys";
        before = key;
        entries.emplace(key, value);
        return true;
      });
  EXPECT_TRUE(done) << done.error().message;
  return entries;
}

std::uint64_t seed() {
  const char* const given = std::getenv("STRAND_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

class SqliteTables : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static Family family() { return static_cast<Family>(GetParam()); }

  // Writes entries in several batches, and keeps what must be there.
  void fill(RandomEntries& random) {
    for (int round = 0; round < 4; ++round) {
      MutationBatch batch;
      for (int i = 0; i < 60; ++i) {
        const std::string key = random.key(family());
        const std::string value = random.value(family(), key);
        batch.put(family(), key, value);
        expected_[key] = value;
      }
      write(*backend_, batch);
    }
  }
  Entries between(const std::string& first, const std::string& last) {
    Entries found;
    for (const auto& [key, value] : expected_) {
      if (key >= first && (last.empty() || key < last)) found.emplace(key, value);
    }
    return found;
  }
  // A key that is there, or something near it: cut off, made longer, with another byte.
  std::string bound(RandomEntries& random) {
    if (expected_.empty()) return {};
    auto entry = expected_.begin();
    std::advance(entry, static_cast<std::ptrdiff_t>(random.below(expected_.size())));
    std::string key = entry->first;
    if (random.below(2) == 0) key.resize(random.below(key.size() + 1));
    if (random.below(3) == 0) key += random.bytes();
    if (random.below(3) == 0 && !key.empty()) {
      key[random.below(key.size())] = static_cast<char>(random.below(256));
    }
    return key;
  }

  FreshFolder folder_;
  std::unique_ptr<engine::Backend> backend_ = opened(folder_ / "store");
  Entries expected_;
};

std::string name_of(const ::testing::TestParamInfo<int>& info) {
  static constexpr std::string_view names[engine::family_count] = {
      "meta",     "queue", "counters",  "message", "body",   "state", "lane",         "lease",
      "request",  "dedup", "client",    "receipt", "dead",   "topic", "subscription", "retained",
      "instance", "open",  "execution", "event",   "record", "pin",   "queue_name"};
  return std::string(names[static_cast<std::size_t>(info.param)]);
}
INSTANTIATE_TEST_SUITE_P(, SqliteTables,
                         ::testing::Range(0, static_cast<int>(engine::family_count)), name_of);

TEST_P(SqliteTables, Every_entry_comes_back_byte_for_byte) {
  const std::uint64_t from = seed();
  SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(from));
  RandomEntries random(from);
  fill(random);
  for (const auto& [key, value] : expected_) {
    const auto found = backend_->get(family(), key);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(*found, value);
  }
  EXPECT_EQ(scanned(*backend_, family()), expected_);
  backend_.reset();
  backend_ = opened(folder_ / "store");
  EXPECT_EQ(scanned(*backend_, family()), expected_);
}

// Bounds need not be keys: shorter and longer ones must fall between them as bytes do.
TEST_P(SqliteTables, A_scan_takes_any_bounds_in_byte_order) {
  const std::uint64_t from = seed();
  SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(from));
  RandomEntries random(from);
  fill(random);
  for (int i = 0; i < 200; ++i) {
    const std::string first = bound(random);
    const std::string last = bound(random);
    ASSERT_EQ(scanned(*backend_, family(), first, last), between(first, last))
        << ::testing::PrintToString(first) << " to " << ::testing::PrintToString(last);
    const auto found = backend_->get(family(), first);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->has_value(), expected_.contains(first));
  }
}

TEST_P(SqliteTables, Erasing_takes_exactly_the_key_or_the_keys_with_the_prefix) {
  const std::uint64_t from = seed();
  SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(from));
  RandomEntries random(from);
  for (int i = 0; i < 40; ++i) {
    if (i % 10 == 0) fill(random);
    MutationBatch batch;
    const std::string prefix = bound(random);
    // An empty prefix would leave nothing to look at.
    if (!prefix.empty()) {
      batch.erase_prefix(family(), prefix);
      std::erase_if(expected_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
    }
    if (const std::string key = random.key(family()); random.below(2) == 0) {
      batch.erase(family(), key);
      expected_.erase(key);
    }
    write(*backend_, batch);
    ASSERT_EQ(scanned(*backend_, family()), expected_) << ::testing::PrintToString(prefix);
  }
  MutationBatch all;
  all.erase_prefix(family(), {});
  write(*backend_, all);
  EXPECT_EQ(scanned(*backend_, family()), Entries{});
}

TEST(SqliteBackend, A_buried_message_is_a_dead_letter_with_its_record_in_front) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  const std::uint64_t from = seed();
  SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(from));
  RandomEntries random(from);
  for (std::uint64_t id = 1; id <= 50; ++id) {
    const engine::QueueId queue{static_cast<std::uint32_t>(1 + random.below(3))};
    std::string message;
    std::string record;
    encode(random.message(queue), message);
    encode(random.dead(), record);
    MutationBatch batch;
    batch.put(Family::message, engine::number_key(id), message);
    batch.bury(engine::number_key(id), engine::dead_key(queue, MessageId{id}), record);
    write(*backend, batch);
    EXPECT_EQ(backend->get(Family::message, engine::number_key(id)).value(), std::nullopt);
    EXPECT_EQ(backend->get(Family::dead, engine::dead_key(queue, MessageId{id})).value(),
              record + message);
  }
}

TEST(SqliteBackend, A_batch_is_applied_in_order) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  MutationBatch batch;
  batch.put(Family::body, engine::number_key(1), "first");
  batch.erase(Family::body, engine::number_key(1));
  batch.put(Family::body, engine::number_key(1), "second");
  batch.put(Family::body, engine::number_key(2), "gone");
  batch.erase_prefix(Family::body, engine::number_key(2));
  write(*backend, batch);
  EXPECT_EQ(scanned(*backend, Family::body), (Entries{{engine::number_key(1), "second"}}));
}

// Nobody reads the events of an execution that is gone: what is left of them would stay for ever.
TEST(SqliteBackend, Erasing_an_execution_takes_all_of_its_events_and_no_others) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  MutationBatch batch;
  Entries kept;
  for (const std::uint64_t execution : {1U, 2U, 3U}) {
    for (const std::uint64_t index : {0U, 1U, 2U}) {
      const std::string key = engine::event_key(7, execution, index);
      batch.put(Family::event, key, "event");
      if (execution != 2) kept.emplace(key, "event");
    }
  }
  batch.erase_prefix(Family::event, engine::execution_key(7, 2));
  write(*backend, batch);
  EXPECT_EQ(scanned(*backend, Family::event), kept);
}

TEST(SqliteBackend, Erasing_a_range_takes_its_first_key_and_leaves_its_last) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  MutationBatch batch;
  Entries kept;
  for (const std::uint64_t execution : {1U, 2U, 3U}) {
    for (std::uint64_t index = 0; index < 5; ++index) {
      const std::string key = engine::event_key(7, execution, index);
      batch.put(Family::event, key, "event");
      if (execution != 2 || index < 1 || index >= 4) kept.emplace(key, "event");
    }
  }
  batch.erase_range(Family::event, engine::event_key(7, 2, 1), engine::event_key(7, 2, 4));
  write(*backend, batch);
  EXPECT_EQ(scanned(*backend, Family::event), kept);
}

TEST(SqliteBackend, A_value_that_is_none_is_not_written) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  MutationBatch batch;
  batch.put(Family::message, engine::number_key(1), "no message");
  EXPECT_DEATH(std::ignore = backend->write(batch, Durability::async), "can read");
}

// A body that is gone means that its message is, so that no read may go back behind an earlier one.
TEST(SqliteBackend, Readers_beside_the_writer_see_whole_batches_and_never_go_back) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  constexpr std::uint64_t batches = 300;
  std::atomic<std::uint64_t> written{0};
  const auto put_all = [&](std::uint64_t number) {
    MutationBatch batch;
    for (std::uint64_t id = 0; id < 20; ++id)
      batch.put(Family::body, engine::number_key(id), engine::number_key(number));
    write(*backend, batch);
    written = number;
  };
  put_all(1);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 6; ++i) {  // more than there are connections
    readers.emplace_back([&] {
      while (written < batches) {
        const std::uint64_t least = written;
        const Entries found = scanned(*backend, Family::body);
        ASSERT_EQ(found.size(), 20U);
        for (const auto& [key, value] : found)
          ASSERT_EQ(value, found.begin()->second);
        ASSERT_GE(found.begin()->second, engine::number_key(least));
        const auto one = backend->get(Family::body, engine::number_key(7));
        ASSERT_TRUE(one && *one) << "a read failed beside the writer";
        ASSERT_GE(**one, found.begin()->second);
      }
    });
  }
  for (std::uint64_t number = 2; number <= batches; ++number)
    put_all(number);
}

// The log must start over although every reader goes on with the state that it has seen.
TEST(SqliteBackend, The_log_does_not_grow_with_what_was_ever_written) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  const std::string value(100'000, 'x');
  for (int i = 0; i < 1000; ++i) {
    MutationBatch batch;
    batch.put(Family::body, engine::number_key(1), value);
    write(*backend, batch);
    ASSERT_TRUE(backend->get(Family::body, engine::number_key(1)));
  }
  EXPECT_LT(std::filesystem::file_size(folder / "store-wal"), 40'000'000U);
}

}  // namespace
}  // namespace strand::sqlite
