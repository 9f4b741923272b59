#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "store/engine/backend.h"

namespace strand::local {

// Keeps entries of messages and bodies that were just written, up to a budget, so that a lease soon
// after need not read them from disk. Stands before any backend on disk.
//
// When the budget is used up, newcomers are left to the disk: those that came first are leased
// first. So that messages that wait for long do not keep everyone else out for good, the oldest go
// after several budgets have passed by.
//
// Threads: as Backend says.
// Failure: as that of the backend behind. Nothing is kept of a batch before it is written.
class MessageCache final : public engine::ForwardingBackend {
 public:
  MessageCache(std::unique_ptr<engine::Backend> disk, std::size_t budget_bytes);

  Result<std::optional<std::string>> get(engine::Family family,
                                         std::string_view key) const override;
  Result<void> write(const engine::MutationBatch& batch, Durability durability) override;
  Result<void> reopen() override;

  // How many entries it has now, and how many reads it has answered.
  [[nodiscard]] std::size_t entries() const;
  [[nodiscard]] std::uint64_t hits() const;

 private:
  // Entries lie behind each other in segments, which are freed when nothing in them is left.
  struct Segment {
    std::unique_ptr<char[]> bytes;  // none when freed
    std::size_t used = 0;
    std::size_t live = 0;
    std::vector<std::uint64_t> ids;  // of all that was ever put into it
  };
  struct Place {
    std::uint64_t segment = 0;  // its number
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };
  using Places = boost::unordered_flat_map<std::uint64_t, Place>;

  // Both kinds of entry are named by an id of 8 bytes.
  [[nodiscard]] static bool keeps(engine::Family family);
  Places& places(engine::Family family) {
    return family == engine::Family::body ? bodies_ : messages_;
  }
  void note(const engine::Mutation& mutation);
  void put(engine::Family family, std::string_view key, std::string_view value);
  void erase(engine::Family family, std::string_view key);
  Segment* segment_for(std::size_t bytes);
  void leave(std::uint64_t segment);
  void drop_oldest();
  void pop_freed();

  const std::size_t segments_max_;

  mutable std::mutex mutex_;  // for everything below
  Places messages_;
  Places bodies_;
  std::deque<Segment> segments_;
  std::uint64_t first_segment_ = 0;  // the number of the oldest
  std::size_t held_ = 0;             // segments that are not freed
  std::size_t refused_bytes_ = 0;    // since the oldest was dropped
  mutable std::uint64_t hits_ = 0;
};

}  // namespace strand::local
