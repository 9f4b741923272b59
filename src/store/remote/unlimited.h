#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <strand/limits.h>

namespace strand::remote {

// Limits that nothing passes: for what is checked on this side of the network. How much is too much
// is the server's to judge, which may have other limits than the defaults.
inline const Limits& unlimited() {
  static const Limits limits = [] {
    constexpr auto any = std::numeric_limits<std::size_t>::max();
    constexpr auto any32 = std::numeric_limits<std::uint32_t>::max();
    Limits all;
    all.body_bytes_max = all.key_bytes_max = all.name_bytes_max = any;
    all.headers_bytes_max = all.reason_bytes_max = all.record_bytes_max = any;
    all.transaction_operations_max = all.transaction_bytes_max = any;
    all.lease_lanes_max = all.lease_messages_max = any32;
    all.lease_bytes_max = all.labels_max = all.page_max = all.backoff_steps_max = any;
    all.lease_min = Duration::min();
    all.lease_max = all.delay_max = all.owner_grace_max = Duration::max();
    return all;
  }();
  return limits;
}

}  // namespace strand::remote
