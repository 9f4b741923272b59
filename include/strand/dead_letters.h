#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <strand/store.h>

namespace strand {

// The messages of one queue that failed for good: look at them, give them another chance, or drop
// them. To be told of new ones, name a queue for notices (QueueSettings::dead_notice_to) and
// consume it.
//
// Threads: every method may be called concurrently.
// Failure: as that of Store::apply. What works on more than 1,000 of them, or moves more than 4
// MiB,
//          does so in several transactions; a failure leaves those before it done, and says how
//          many. What works on all of them passes over those that others end meanwhile.
class DeadLetters {
 public:
  // `store` must outlive this.
  DeadLetters(Store& store, std::string queue) : store_(store), queue_(std::move(queue)) {}

  // In order of ids, from behind `after` on.
  Result<Page<DeadLetter>> list(std::optional<MessageId> after = {}, std::size_t limit = 100);
  // `not_found` if there is no such dead letter.
  Result<DeadLetter> get(MessageId id);
  // Page by page, until `visit` returns false. Those that come or go meanwhile may be seen or not.
  Result<void> each(const std::function<bool(const DeadLetter&)>& visit);

  // Back to their lane, in their old places, with no attempts charged; or to another queue, as new
  // messages, in the order of their lane. Nothing redrives by itself: a message that keeps failing
  // is dead again after its attempts, and stays so. Returns how many.
  Result<std::uint64_t> redrive(const std::vector<MessageId>& ids,
                                const std::optional<std::string>& to = {});
  Result<std::uint64_t> redrive_all(const std::optional<std::string>& to = {});
  Result<std::uint64_t> drop(const std::vector<MessageId>& ids);
  Result<std::uint64_t> drop_all();

  // Those that have failed and will be tried again, each with the time (`retry_at`) and the last
  // reason; in order of ids.
  Result<Page<PeekedMessage>> in_backoff(std::optional<MessageId> after = {},
                                         std::size_t limit = 100);

 private:
  struct Item;  // one of those that are to be worked on
  enum class IfGone : std::uint8_t { fail, pass_over };
  using MakeOperation = std::function<Administration(std::vector<MessageId>)>;

  [[nodiscard]] MakeOperation redriving(const std::optional<std::string>& to) const;
  [[nodiscard]] MakeOperation dropping() const;
  Result<std::vector<Item>> find(const std::vector<MessageId>& ids);
  Result<std::vector<Item>> find_all();
  Result<std::uint64_t> apply(std::vector<MessageId> ids, const MakeOperation& make);
  Result<std::uint64_t> apply_to_those_left(const std::vector<MessageId>& ids,
                                            const MakeOperation& make);
  Result<std::uint64_t> apply_in_slices(const std::vector<Item>& items, const MakeOperation& make,
                                        IfGone if_gone);

  Store& store_;
  const std::string queue_;
};

}  // namespace strand
