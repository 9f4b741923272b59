#include "store/open.h"

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
#include "store/local/message_cache.h"
#include "store/memory/memory_backend.h"
#include "store/postgres/location.h"
#include "store/postgres/postgres_store.h"
#include "store/remote/location.h"
#include "store/remote/remote_store.h"
#include "store/rocksdb/rocksdb_backend.h"
#include "store/sqlite/sqlite_backend.h"
#include "store/url.h"

namespace strand {

namespace {

std::uint64_t random_word(std::random_device& device) {
  static_assert(std::random_device::max() == UINT32_MAX);
  return std::uint64_t{device()} << 32U | device();
}

// A quarter is for messages that were just written, the rest for what a backend has of its own.
std::size_t for_backend(std::size_t cache_bytes) { return cache_bytes / 4 * 3; }

}  // namespace

namespace store {

engine::Identity new_identity() {
  std::random_device device;
  return {.store = random_word(device), .secret = {random_word(device), random_word(device)}};
}

Result<std::unique_ptr<engine::Backend>> open_backend(std::string_view url,
                                                      const OpenOptions& options) {
  auto parsed = parse_url(url);
  if (!parsed) return std::unexpected(std::move(parsed).error());
  switch (parsed->scheme) {
    case Url::Scheme::memory:
      if (parsed->rest.size() > options.limits.name_bytes_max) {
        return failure(Errc::limit_exceeded,
                       fmt::format("the name of a store has {} bytes, and may have {} "
                                   "(name_bytes_max)",
                                   parsed->rest.size(), options.limits.name_bytes_max));
      }
      return memory::open_memory(parsed->rest, options.create);
    case Url::Scheme::rocksdb:
      return rocks::open_rocksdb(parsed->rest, {.cache_bytes = for_backend(options.cache_bytes),
                                                .create = options.create,
                                                .env = nullptr});
    case Url::Scheme::sqlite:
      return sqlite::open_sqlite(parsed->rest, for_backend(options.cache_bytes), options.create);
    case Url::Scheme::postgres:
      return failure(
          Errc::unsupported,
          "a store in PostgreSQL has no backend of its own: its rules are in the database");
    case Url::Scheme::strand:
      return failure(Errc::unsupported, "a store behind a server has no backend of its own");
  }
  return failure(Errc::unsupported, "no such kind of store");
}

Result<std::unique_ptr<Store>> open_on(std::unique_ptr<engine::Backend> backend,
                                       OpenOptions options) {
  if (!backend->in_memory()) {
    backend = std::make_unique<local::MessageCache>(
        std::move(backend), options.cache_bytes - for_backend(options.cache_bytes));
  }
  auto clock = options.clock ? std::move(options.clock) : system_clock();
  return local::LocalStore::open(std::move(backend), std::move(clock), options.limits,
                                 new_identity());
}

}  // namespace store

Result<std::unique_ptr<Store>> open(std::string_view url, OpenOptions options) {
  if (const auto parsed = store::parse_url(url);
      parsed && parsed->scheme == store::Url::Scheme::postgres) {
    const auto location = postgres::parse_location(parsed->rest);
    if (!location) return std::unexpected(location.error());
    return postgres::PostgresStore::open(*location, std::move(options));
  }
  if (const auto parsed = store::parse_url(url);
      parsed && parsed->scheme == store::Url::Scheme::strand) {
    const auto location = remote::parse_location(parsed->rest);
    if (!location) return std::unexpected(location.error());
    return remote::RemoteStore::open(*location);
  }
  auto backend = store::open_backend(url, options);
  if (!backend) return std::unexpected(std::move(backend).error());
  return store::open_on(*std::move(backend), std::move(options));
}

}  // namespace strand
