#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strand::relay {

// A row of an outbox, as it is to be found in Kafka.
struct ExpectedRow {
  std::string id = {};
  std::string entity = {};
  // Rows of one entity were committed in this order.
  std::int64_t order = 0;
  // It must be there. Otherwise it may be there or not yet.
  bool sent = true;
};

// A message of a topic that came from an outbox.
struct TopicMessage {
  std::optional<std::string> id = {};  // the header `id`
  std::string key = {};
  std::uint32_t topic = 0;  // any number that stands for it
  std::int32_t partition = 0;
  std::int64_t offset = 0;
};

struct VerifyFinding {
  enum class Kind : std::uint8_t {
    missing,     // a row that was sent is in no topic
    gap,         // a row is in no topic, and a later one of its entity is
    reordered,   // the first delivery of a row comes after that of a later one
    wrong_key,   // a message with the key of another entity
    unknown,     // a message whose id no row has
    without_id,  // a message that has no id at all
    twice,       // two rows with one id: nothing can be said about them
  };
  Kind kind = Kind::missing;
  std::string id = {};
  std::string entity = {};
  std::optional<TopicMessage> at = {};  // the message that shows it
  std::string other = {};               // the later row
};

std::string_view to_string(VerifyFinding::Kind kind);

struct VerifyOptions {
  // Messages that are not of these rows are counted, and no fault.
  bool allow_unknown = false;
  // Of each kind, so many are described; all are counted.
  std::size_t findings_max = 20;
};

struct VerifyReport {
  std::uint64_t rows = 0;
  std::uint64_t sent = 0;      // of the rows
  std::uint64_t entities = 0;  // of the rows
  std::uint64_t messages = 0;
  std::uint64_t delivered = 0;  // rows that are there
  std::uint64_t repeated = 0;   // deliveries of a row after its first one, which are allowed
  std::uint64_t spread = 0;     // entities in several partitions, where Kafka has no order between

  std::uint64_t missing = 0;
  std::uint64_t gaps = 0;
  std::uint64_t reordered = 0;
  std::uint64_t wrong_key = 0;
  std::uint64_t unknown = 0;
  std::uint64_t without_id = 0;
  std::uint64_t twice = 0;

  std::vector<VerifyFinding> findings = {};
  bool ok = true;
};

// Holds what lies in Kafka against the rows that it came from: each row that was sent is there at
// least once, and the first deliveries of each entity's rows are in commit order, with none left
// out. `deliveries` has each partition in its own order; rows come in any order.
//
// An entity whose rows went to several partitions is held to its order within each of them: between
// partitions Kafka has none.
VerifyReport verify(std::span<const ExpectedRow> rows, std::span<const TopicMessage> deliveries,
                    const VerifyOptions& options = {});

}  // namespace strand::relay
