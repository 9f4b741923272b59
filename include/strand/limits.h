#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <strand/time.h>

namespace strand {

// Every size, count and length has a limit with a name. What passes one is refused whole, with an
// error that says which; nothing is cut.
struct Limits {
  // One message.
  std::size_t body_bytes_max = std::size_t{1} << 20U;
  std::size_t key_bytes_max = 512;
  std::size_t name_bytes_max =
      512;  // of queues, topics, labels, owners, messages, dedup ids, spaces
  std::size_t headers_bytes_max = std::size_t{64} << 10U;
  std::size_t reason_bytes_max = std::size_t{4} << 10U;
  std::size_t failures_kept_max = 100;  // the latest; attempts are counted without end

  // One record, one transaction.
  std::size_t record_bytes_max = std::size_t{256} << 10U;
  std::size_t transaction_operations_max = 100'000;  // history events are not counted
  std::size_t transaction_bytes_max = std::size_t{16} << 20U;

  // One request.
  std::uint32_t lease_lanes_max = 10'000;
  std::uint32_t lease_messages_max = 100'000;
  std::size_t lease_bytes_max = std::size_t{64} << 20U;
  std::size_t labels_max = 1'000;
  std::size_t page_max = 10'000;

  // Times.
  Duration lease_min = std::chrono::milliseconds{1};
  Duration lease_max = std::chrono::hours{24};
  Duration delay_max = std::chrono::hours{24 * 3650};  // of delays, TTLs, windows, backoffs
  Duration owner_grace_max = std::chrono::seconds{1};
  Duration transaction_window = std::chrono::minutes{15};
  Duration request_window = std::chrono::minutes{5};

  // One store.
  std::size_t queues_max = 100'000;
  std::size_t subscriptions_max = 100'000;
  std::size_t backoff_steps_max = 64;
  std::size_t dedup_ids_max = 10'000'000;
  std::size_t transaction_ids_max = 1'000'000;
  std::size_t request_ids_max = 1'000'000;
  // What waiting messages may take of memory, by estimate; sends beyond it are `store_full`. Bodies
  // and headers count only where the store has no disk for them.
  std::size_t memory_bytes_max = std::size_t{8} << 30U;
  // When the disk has less left than this, a transaction that sends, publishes, or writes history
  // or records is `store_full`; one that settles as well passes down to the lower reserve. So a
  // full store can be drained.
  std::size_t disk_reserve_bytes = std::size_t{256} << 20U;
  std::size_t disk_settle_reserve_bytes = std::size_t{64} << 20U;
};

}  // namespace strand
