#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <strand/store.h>

#include "store/engine/backend.h"
#include "store/engine/engine.h"
#include "store/local/local_store.h"
#include "store/memory/memory_backend.h"
#include "store/sqlite/sqlite_backend.h"
#include "store/url.h"

namespace strand {

namespace {

std::uint64_t random_word(std::random_device& device) {
  static_assert(std::random_device::max() == UINT32_MAX);
  return std::uint64_t{device()} << 32U | device();
}

// For a store that is new. Its secret seals tokens, so it comes from the operating system.
engine::Identity new_identity() {
  std::random_device device;
  return {.store = random_word(device), .secret = {random_word(device), random_word(device)}};
}

Result<std::unique_ptr<engine::Backend>> open_backend(const store::Url& url,
                                                      const OpenOptions& options) {
  switch (url.scheme) {
    case store::Url::Scheme::memory:
      if (url.rest.size() > options.limits.name_bytes_max) {
        return failure(Errc::limit_exceeded,
                       fmt::format("the name of a store has {} bytes, and may have {} "
                                   "(name_bytes_max)",
                                   url.rest.size(), options.limits.name_bytes_max));
      }
      return memory::open_memory(url.rest, options.create);
    case store::Url::Scheme::sqlite:
      return sqlite::open_sqlite(url.rest, options.cache_bytes, options.create);
    case store::Url::Scheme::rocksdb:
      break;
  }
  return failure(Errc::unsupported, "no such kind of store");
}

}  // namespace

Result<std::unique_ptr<Store>> open(std::string_view url, OpenOptions options) {
  auto parsed = store::parse_url(url);
  if (!parsed) return std::unexpected(std::move(parsed).error());
  auto backend = open_backend(*parsed, options);
  if (!backend) return std::unexpected(std::move(backend).error());
  auto clock = options.clock ? std::move(options.clock) : system_clock();
  return local::LocalStore::open(*std::move(backend), std::move(clock), options.limits,
                                 new_identity());
}

}  // namespace strand
