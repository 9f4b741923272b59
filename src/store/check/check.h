#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>

#include "store/engine/backend.h"
#include "store/engine/engine.h"

// Whether a store at rest is whole: every invariant that the README lists, of every entry; and the
// changes that make it whole again, as far as that can be done without losing anything sound.
//
// Threads: none of its own. Nothing may write to the archive meanwhile.
// Limits:  memory of about 40 bytes a message or dead letter (more with names, labels and bodies of
//          their own); bodies, events and records are read past.

namespace strand::check {

// What can be wrong. The names (see to_string) are stable: scripts depend on them.
enum class Kind : std::uint8_t {
  // Any entry.
  unreadable_entry,     // key or value is not what the engine would have written
  number_not_reserved,  // a number in use could be given out again
  hidden_message,       // below the mark at which a store begins to read
  absurd_time,          // before 1970 or after 9999
  time_ahead,           // of something past, and yet later than store time
  // The store, its queues and their counters.
  missing_meta,
  bad_meta,
  bad_queue,  // a name, a setting or an id that no queue can have
  queue_id_not_reserved,
  queue_name_taken,  // two queues have one name
  missing_queue_name,
  orphan_queue_name,
  missing_queue,  // something worth keeping belongs to a queue that does not exist
  missing_counters,
  orphan_counters,
  wrong_dead_count,
  not_conserved,  // S16
  orphan_subscription,
  bad_subscription,
  // Messages and dead letters.
  bad_message,
  message_name_taken,
  orphan_state,
  bad_state,
  live_and_dead,
  bad_dead_letter,
  dead_in_wrong_queue,
  missing_body,
  wrong_body_size,
  orphan_body,
  own_body_shared,
  missing_pin,
  orphan_pin,
  // Topics.
  bad_topic,
  missing_topic,
  bad_publication,
  // Lanes and leases.
  orphan_lane,
  bad_lane,
  lane_label_differs,  // from that of the open execution
  orphan_lease,
  bad_lease,
  lane_leased_twice,
  lease_of_parked_lane,
  message_leased_twice,
  lease_of_foreign_message,
  unknown_request,
  bad_request,
  // Ids that make repeats harmless.
  orphan_dedup,
  bad_dedup,
  missing_client,
  client_forgotten_early,
  answered_receipt,
  // Histories and records.
  bad_instance,
  instance_number_taken,
  missing_open,
  orphan_open,
  missing_execution,
  orphan_execution,
  bad_execution,
  missing_event,
  orphan_event,
  bad_record,
};
inline constexpr std::size_t kind_count = static_cast<std::size_t>(Kind::bad_record) + 1;

// The name of the kind as it appears in JSON and logs, such as "orphan_state".
std::string_view to_string(Kind kind);

struct Finding {
  Kind kind = Kind::unreadable_entry;
  std::string what;  // which thing, what is wrong with it, and what repair or a person can do
  bool repairable = false;
};

struct Report {
  struct Count {
    std::uint64_t found = 0;
    std::uint64_t repairable = 0;  // of those
  };
  struct FamilyTotal {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;  // of keys and values
  };

  std::vector<Finding> findings;  // the first `findings_max`
  std::array<Count, kind_count> counts{};
  std::array<FamilyTotal, engine::family_count> families{};

  [[nodiscard]] const Count& count(Kind kind) const {
    return counts[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const FamilyTotal& family(engine::Family family) const {
    return families[static_cast<std::size_t>(family)];
  }
  [[nodiscard]] Count total() const;
  [[nodiscard]] bool clean() const { return total().found == 0; }
};
inline constexpr std::size_t findings_max = 1'000;

// Told now and then which family is being read, and how many entries have been read in all.
using Progress = std::function<void(std::string_view family, std::uint64_t entries)>;

// Reads the whole archive. An error means that it could not be read, or that its format is newer
// than this version of Strand: a damaged store is a report.
Result<Report> inspect(const engine::Archive& archive, const Progress& progress = {});

// What is wrong, and what repairs those findings that are repairable.
struct Repair {
  Report report;
  // To be written in this order, each synced. Stopping in between is harmless: what is left is
  // found again by the next repair.
  std::vector<engine::MutationBatch> batches;
};

// Finds out how to repair the store; writes nothing. After all batches are written, inspect()
// reports what is not repairable and nothing else.
//
// Never drops a message, dead letter, retained publication, event of a history or record that can
// be read; whatever is dropped is named by its finding.
//
// `fresh` is a new random identity. It is used only if the store has lost its own; all tokens are
// then void.
Result<Repair> repair(const engine::Archive& archive, const engine::Identity& fresh,
                      const Progress& progress = {});

}  // namespace strand::check
