// Keys and values of the engine's entries: arbitrary bytes decode to nothing, or to a record that
// is written so that it decodes to the same.
//
// The first byte of the input is the family; the rest is taken for a key and for a value of it, and
// for a list of erased messages as RocksDB keeps them.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/entries.h"
#include "fuzz/target.h"
#include "store/engine/records.h"
#include "store/rocksdb/erased.h"

namespace strand::fuzz {

namespace {

using engine::Family;

void key_round_trip(std::string_view bytes) {
  if (const auto number = engine::decode_number_key(bytes)) {
    FUZZ_REQUIRE(engine::number_key(*number) == bytes, "a number's key is the number's");
  }
  if (const auto lane = engine::decode_lane_key(bytes)) {
    FUZZ_REQUIRE(engine::lane_key(lane->queue, lane->key) == bytes, "a lane's key is the lane's");
  }
  if (const auto dead = engine::decode_dead_key(bytes)) {
    FUZZ_REQUIRE(engine::dead_key(dead->first, dead->second) == bytes, "a dead letter's key too");
  }
  if (const auto request = engine::decode_request_key(bytes)) {
    FUZZ_REQUIRE(engine::request_key(*request) == bytes, "a request's key too");
  }
  if (const auto pair = engine::decode_pair_key(bytes)) {
    FUZZ_REQUIRE(engine::receipt_key(pair->first, pair->second) == bytes, "two numbers too");
  }
  if (const auto retained = engine::decode_retained_key(bytes)) {
    FUZZ_REQUIRE(engine::retained_key(retained->first, retained->second) == bytes,
                 "a publication's key too");
  }
  if (const auto record = engine::decode_record_key(bytes)) {
    FUZZ_REQUIRE(engine::record_key(record->first, record->second) == bytes, "a record's key too");
  }
}

// Keys of names must sort as the names do, or scans of one topic or space would miss some.
void order_of_keys(std::string_view bytes) {
  const std::string_view one = bytes.substr(0, bytes.size() / 2);
  const std::string_view other = bytes.substr(bytes.size() / 2);
  FUZZ_REQUIRE((engine::record_key(one, "") < engine::record_key(other, "")) == (one < other),
               "records sort by their space");
  FUZZ_REQUIRE(
      (engine::retained_key(one, MessageId{9}) < engine::retained_key(other, {})) == (one < other),
      "publications sort by their topic first");
  const std::string behind = engine::behind_prefix(one);
  const std::string with_prefix = std::string(one) + std::string(other);
  FUZZ_REQUIRE(behind.empty() || with_prefix < behind, "what has the prefix is before its end");
  FUZZ_REQUIRE(behind.empty() || std::string_view(behind).substr(0, one.size()) != one,
               "the end has the prefix no more");
}

void value_round_trip(Family family, std::string_view bytes) {
  const auto once = encoded_again(family, bytes);
  if (!once) return;
  const auto twice = encoded_again(family, *once);
  FUZZ_REQUIRE(twice.has_value(), "what was encoded decodes");
  FUZZ_REQUIRE(*twice == *once, "and to the same");
  FUZZ_REQUIRE(once->size() <= bytes.size(), "what is canonical is not longer than what it is of");
}

void erased_list_round_trip(std::string_view bytes) {
  const auto ids = rocks::decode_ids(bytes);
  if (!ids) return;
  FUZZ_REQUIRE(!ids->empty(), "a list has something in it");
  FUZZ_REQUIRE(std::ranges::adjacent_find(*ids, std::ranges::greater_equal{}) == ids->end(),
               "ids ascend");
  const std::string again = rocks::encode_ids(*ids);
  FUZZ_REQUIRE(rocks::decode_ids(again) == ids, "what was encoded decodes to the same");
  FUZZ_REQUIRE(again.size() <= bytes.size(), "and is not longer");
}

void run(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto family =
      static_cast<Family>(static_cast<std::uint8_t>(bytes.front()) % engine::family_count);
  bytes.remove_prefix(1);
  key_round_trip(bytes);
  order_of_keys(bytes);
  value_round_trip(family, bytes);
  erased_list_round_trip(bytes);
  FUZZ_REQUIRE(!engine::damaged(family, bytes).message.empty(), "an error says something");
}

const Target target("records", run, 20'000);

}  // namespace

}  // namespace strand::fuzz
