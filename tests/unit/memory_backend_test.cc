// The backend in memory: what it reads back, how it orders, what it costs.

#include "store/memory/memory_backend.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

namespace strand::memory {
namespace {

using engine::Family;
using engine::MutationBatch;
using Entries = std::vector<std::pair<std::string, std::string>>;

std::string id_key(std::uint64_t id) {
  std::string key(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    key[i] = static_cast<char>(id >> (8 * (7 - i)) & 0xffU);
  return key;
}

void write(engine::Backend& backend, const MutationBatch& batch) {
  ASSERT_TRUE(backend.write(batch, Durability::sync));
}

void put(engine::Backend& backend, Family family, std::string_view key, std::string_view value) {
  MutationBatch batch;
  batch.put(family, key, value);
  write(backend, batch);
}

std::optional<std::string> get(const engine::Archive& archive, Family family,
                               std::string_view key) {
  return archive.get(family, key).value();
}

Entries scan(const engine::Archive& archive, Family family, std::string_view first = {},
             std::string_view last = {}) {
  Entries entries;
  EXPECT_TRUE(archive.scan(family, first, last, [&](std::string_view key, std::string_view value) {
    entries.emplace_back(key, value);
    return true;
  }));
  return entries;
}

// A family of each kind of table.
class MemoryBackendTables : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(, MemoryBackendTables, ::testing::Values(Family::message, Family::receipt),
                         [](const auto& info) {
                           return info.param == Family::message ? "ids" : "sorted";
                         });

TEST_P(MemoryBackendTables, What_is_put_is_read_until_it_is_erased) {
  MemoryBackend backend;
  put(backend, GetParam(), id_key(7), "one");
  EXPECT_EQ(get(backend, GetParam(), id_key(7)), "one");
  EXPECT_EQ(get(backend, GetParam(), id_key(8)), std::nullopt);
  put(backend, GetParam(), id_key(7), "three");
  EXPECT_EQ(get(backend, GetParam(), id_key(7)), "three");

  MutationBatch batch;
  batch.erase(GetParam(), id_key(7));
  batch.erase(GetParam(), id_key(8));
  write(backend, batch);
  EXPECT_EQ(get(backend, GetParam(), id_key(7)), std::nullopt);
}

TEST_P(MemoryBackendTables, Values_are_any_bytes_and_may_be_empty) {
  MemoryBackend backend;
  const std::string_view nul("a\0b", 3);
  put(backend, GetParam(), id_key(1), nul);
  put(backend, GetParam(), id_key(2), "");
  EXPECT_EQ(get(backend, GetParam(), id_key(1)), nul);
  EXPECT_EQ(get(backend, GetParam(), id_key(2)), "");
}

TEST_P(MemoryBackendTables, A_batch_is_applied_in_order) {
  MemoryBackend backend;
  MutationBatch batch;
  batch.put(GetParam(), id_key(1), "first");
  batch.erase(GetParam(), id_key(1));
  batch.put(GetParam(), id_key(1), "second");
  batch.put(GetParam(), id_key(2), "gone");
  batch.erase(GetParam(), id_key(2));
  write(backend, batch);
  EXPECT_EQ(scan(backend, GetParam()), (Entries{{id_key(1), "second"}}));
}

TEST_P(MemoryBackendTables, A_scan_is_in_byte_order_and_stops_when_told) {
  MemoryBackend backend;
  for (const std::uint64_t id : {std::uint64_t{300}, std::uint64_t{1}, ~std::uint64_t{0},
                                 std::uint64_t{0}, std::uint64_t{1} << 63U}) {
    put(backend, GetParam(), id_key(id), "v");
  }
  std::vector<std::string> seen;
  ASSERT_TRUE(backend.scan(GetParam(), {}, {}, [&](std::string_view key, std::string_view) {
    seen.emplace_back(key);
    return seen.size() < 4;
  }));
  EXPECT_EQ(seen,
            (std::vector{id_key(0), id_key(1), id_key(300), id_key(std::uint64_t{1} << 63U)}));
}

// Bounds need not be keys: shorter and longer ones must fall between them as bytes do.
TEST_P(MemoryBackendTables, A_scan_takes_bounds_of_any_length) {
  MemoryBackend backend;
  for (std::uint64_t id = 0; id < 6; ++id)
    put(backend, GetParam(), id_key(id), "v");
  put(backend, GetParam(), id_key(~std::uint64_t{0}), "v");
  const auto count = [&](std::string_view first, std::string_view last) {
    return scan(backend, GetParam(), first, last).size();
  };
  EXPECT_EQ(count(id_key(2), id_key(4)), 2U);
  EXPECT_EQ(count(id_key(2) + "x", id_key(4) + "x"), 2U);
  EXPECT_EQ(count(id_key(2) + "x", id_key(4)), 1U);
  EXPECT_EQ(count(id_key(4), id_key(2)), 0U);
  EXPECT_EQ(count(std::string(3, '\0'), std::string(1, '\x01')), 6U);
  EXPECT_EQ(count({}, std::string(8, '\0')), 0U);
  EXPECT_EQ(count({}, std::string(3, '\0')), 0U);
  EXPECT_EQ(count("\xff", {}), 1U);
  EXPECT_EQ(count(id_key(~std::uint64_t{0}) + "x", {}), 0U);
}

TEST_P(MemoryBackendTables, Erasing_a_prefix_takes_exactly_the_keys_that_start_with_it) {
  MemoryBackend backend;
  for (const std::uint64_t id : {0xff00U, 0xff01U, 0xffffU, 0x10000U, 0xfeffU}) {
    put(backend, GetParam(), id_key(id), "v");
  }
  MutationBatch batch;
  batch.erase_prefix(GetParam(), id_key(0xff00).substr(0, 7));
  write(backend, batch);
  EXPECT_EQ(scan(backend, GetParam()), (Entries{{id_key(0xfeff), "v"}, {id_key(0x10000), "v"}}));

  batch.clear();
  batch.erase_prefix(GetParam(), "");
  write(backend, batch);
  EXPECT_TRUE(scan(backend, GetParam()).empty());
}

TEST(MemoryBackend, Families_do_not_see_each_other) {
  MemoryBackend backend;
  for (std::size_t i = 0; i < engine::family_count; ++i) {
    put(backend, static_cast<Family>(i), id_key(1), std::to_string(i));
  }
  for (std::size_t i = 0; i < engine::family_count; ++i) {
    EXPECT_EQ(scan(backend, static_cast<Family>(i)), (Entries{{id_key(1), std::to_string(i)}}));
  }
}

TEST(MemoryBackend, A_buried_message_becomes_a_dead_letter) {
  MemoryBackend backend;
  put(backend, Family::message, id_key(1), "old message");
  const std::string dead_key = "qqqq" + id_key(1);
  MutationBatch batch;
  batch.bury(id_key(1), dead_key, "why:");
  batch.put(Family::message, id_key(2), "new message");  // buried in the batch that brings it
  batch.bury(id_key(2), "qqqq" + id_key(2), "");
  write(backend, batch);
  EXPECT_TRUE(scan(backend, Family::message).empty());
  EXPECT_EQ(scan(backend, Family::dead),
            (Entries{{dead_key, "why:old message"}, {"qqqq" + id_key(2), "new message"}}));
}

TEST(MemoryBackend, Reopening_keeps_everything) {
  MemoryBackend backend;
  put(backend, Family::message, id_key(1), "a");
  put(backend, Family::meta, "m", "b");
  ASSERT_TRUE(backend.reopen());
  EXPECT_EQ(get(backend, Family::message, id_key(1)), "a");
  EXPECT_EQ(get(backend, Family::meta, "m"), "b");
}

// Ids end in any order, and most of them do: compared with the plainest table there is.
TEST(MemoryBackend, Random_changes_leave_what_a_plain_map_would_have) {
  const char* given = std::getenv("STRAND_SEED");
  const unsigned long seed = given ? std::stoul(given) : std::random_device{}();
  SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(seed) +
               " build/release/unit_tests --gtest_filter='MemoryBackend.Random*'");
  std::mt19937_64 random(seed);
  MemoryBackend backend;
  std::map<std::string, std::string> expected;
  const auto some_id = [&] {
    // Near neighbours, neighbours in other segments and chunks, and far away.
    static constexpr std::array<std::uint64_t, 4> bases = {0, 60, 4090, std::uint64_t{1} << 40U};
    return bases[random() % bases.size()] + random() % 200;
  };
  for (int round = 0; round < 2'000; ++round) {
    MutationBatch batch;
    for (int i = 0; i < 5; ++i) {
      const std::string key = id_key(some_id());
      if (const auto choice = random() % 100; choice < 50) {
        const std::string value(random() % 20, static_cast<char>('a' + random() % 26));
        batch.put(Family::message, key, value);
        expected[key] = value;
      } else if (choice < 96) {
        batch.erase(Family::message, key);
        expected.erase(key);
      } else if (choice < 98) {
        const std::string last = id_key(some_id());
        batch.erase_range(Family::message, key, last);
        std::erase_if(expected,
                      [&](const auto& entry) { return entry.first >= key && entry.first < last; });
      } else {
        const std::string prefix = key.substr(0, 7);
        batch.erase_prefix(Family::message, prefix);
        std::erase_if(expected, [&](const auto& entry) { return entry.first.starts_with(prefix); });
      }
    }
    write(backend, batch);
    std::string first = id_key(some_id());
    std::string last = id_key(some_id());
    if (last < first) std::swap(first, last);
    ASSERT_EQ(scan(backend, Family::message, first, last),
              Entries(expected.lower_bound(first), expected.lower_bound(last)));
  }
  EXPECT_EQ(scan(backend, Family::message), Entries(expected.begin(), expected.end()));
}

// Archive: "shows whole batches only".
TEST(MemoryBackend, A_reader_beside_the_writer_never_sees_half_a_batch) {
  MemoryBackend backend;
  std::atomic<bool> stop = false;
  std::jthread writing([&] {
    for (int i = 0; i < 2'000; ++i) {
      MutationBatch batch;
      for (std::uint64_t id = 0; id < 10; ++id) {
        batch.put(Family::message, id_key(id), std::to_string(i));
      }
      EXPECT_TRUE(backend.write(batch, Durability::sync));
    }
    stop = true;
  });
  while (!stop) {
    const Entries entries = scan(backend, Family::message);
    for (const auto& [key, value] : entries)
      ASSERT_EQ(value, entries.front().second);
  }
}

// Large blocks are not counted with the others.
std::size_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The budget of a store in memory: 400 bytes a waiting message of 100 bytes, engine included.
TEST(MemoryBackend, A_waiting_message_costs_its_value_and_about_thirty_bytes) {
  constexpr std::size_t count = 100'000;
  const std::string value(170, 'v');  // a body of 100 bytes, with what comes along
  MemoryBackend backend;
  const std::size_t before = allocated_bytes();
  if (before == 0) GTEST_SKIP() << "this allocator keeps no count";
  for (std::size_t first = 0; first < count; first += 100) {
    MutationBatch batch;
    for (std::size_t id = first; id < first + 100; ++id) {
      batch.put(Family::message, id_key(id), value);
    }
    write(backend, batch);
  }
  const std::size_t each = (allocated_bytes() - before) / count;
  RecordProperty("bytes_per_message", std::to_string(each));
  EXPECT_LE(each, 205U);

  {
    MutationBatch batch;
    for (std::size_t id = 0; id < count; ++id)
      batch.erase(Family::message, id_key(id));
    write(backend, batch);
  }
  // The allocator keeps a little at hand.
  EXPECT_LE(allocated_bytes(), before + 64'000) << "what is erased must be given back";
}

}  // namespace
}  // namespace strand::memory
