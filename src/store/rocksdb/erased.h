#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <strand/error.h>

namespace strand::rocks {

// The value of a list of erased messages: their ids in ascending order, as differences.
std::string encode_ids(std::span<const std::uint64_t> ascending);
// Nothing if no such list was ever written.
std::optional<std::vector<std::uint64_t>> decode_ids(std::string_view bytes);

// Messages that were erased, and whose entries are still in the database.
//
// The messages of one ack lie far apart, and each removal looks for its place in the memtable. So a
// batch that erases many only lists them. When a generation of them has gathered, it is sorted, and
// the batches that follow remove its entries in the order of their ids, some in each; with the last
// of them go the lists of that generation. Until then an id is known here, and hidden from reads.
//
// Threads: one thread writes; erased_in() and hidden() may be called beside it.
// Failure: after a write that has failed it is to be cleared and restored from the database; reads
//          are right until then, because the database says which batches it has.
class ErasedMessages {
 public:
  // A batch that erases fewer removes them itself. So does one that erases a whole generation: its
  // ids lie as close as they would later.
  static constexpr std::size_t list_ids_min = 8;
  static constexpr std::size_t generation_ids = 16'384;
  [[nodiscard]] static constexpr bool worth_listing(std::size_t ids) {
    return ids >= list_ids_min && ids < generation_ids;
  }
  // A batch removes so many for each that it erases, so that a generation is gone before the next
  // one has gathered, and no batch is much slower than others.
  static constexpr std::size_t removals_per_erased = 2;

  [[nodiscard]] bool any() const { return any_; }
  // The batch that has erased the message, 0 if that was long ago. A batch that is being written
  // counts: whether it is in the database yet, the database knows.
  [[nodiscard]] std::optional<std::uint64_t> erased_in(std::uint64_t id) const;

  // What a scan must pass over, ascending. `look` begins the scan, and returns the last batch that
  // it will see: no id is forgotten meanwhile.
  [[nodiscard]] Result<std::vector<std::uint64_t>> hidden(
      const std::function<Result<std::uint64_t>()>& look) const;

  // The rest is for the thread that writes.

  // What a batch is to remove: messages, and lists by the batches that wrote them. Valid until
  // written() or clear().
  struct Removals {
    std::span<const std::uint64_t> messages;
    std::span<const std::uint64_t> lists;
  };
  [[nodiscard]] Removals next(std::size_t erased);
  // Everything at once. Needed before a listed message is put again, because its list would go on
  // to hide it. Empty the second time in a batch.
  [[nodiscard]] Removals all();
  // Whether the message is listed. Cheap for messages that are newer than all of those.
  [[nodiscard]] bool contains(std::uint64_t id) const { return id <= highest_ && known(id); }

  // The batch, which is about to be written, or was found in the database, lists these.
  void add(std::uint64_t batch, std::span<const std::uint64_t> ids);
  // The batch is in the database.
  void written();
  void clear();

 private:
  [[nodiscard]] bool known(std::uint64_t id) const;
  void begin_generation();
  [[nodiscard]] Removals take(std::size_t count);

  std::atomic<bool> any_ = false;  // spares reads the lock
  mutable std::shared_mutex mutex_;
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> gathering_;  // id -> batch
  std::vector<std::uint64_t> draining_;                                // ascending
  // Of the writing thread alone.
  std::vector<std::uint64_t> gathering_lists_;
  std::vector<std::uint64_t> draining_lists_;
  std::size_t removed_ = 0;  // how many of draining_
  std::uint64_t highest_ = 0;
};

}  // namespace strand::rocks
