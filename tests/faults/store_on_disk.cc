#include "faults/store_on_disk.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <rocksdb/env.h>

#include "faults/scripted_file_system.h"
#include "faults/scripted_vfs.h"
#include "store/open.h"
#include "store/rocksdb/rocksdb_backend.h"
#include "store/sqlite/sqlite_backend.h"

namespace strand::faults {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t cache_bytes = std::size_t{1} << 20U;

}  // namespace

std::string to_string(OnDisk kind) { return kind == OnDisk::rocksdb ? "rocksdb" : "sqlite"; }

fs::path files_of(OnDisk kind, const fs::path& folder) {
  return kind == OnDisk::rocksdb ? folder / "store" / "data" : folder;
}

std::string url_of(OnDisk kind, const fs::path& folder) {
  return fmt::format("{}:{}", to_string(kind), (folder / "store").native());
}

struct ScriptedSystem::Parts {
  OnDisk kind;
  std::unique_ptr<::rocksdb::Env> rocksdb;
  std::optional<ScriptedVfs> sqlite;
};

ScriptedSystem::ScriptedSystem(OnDisk kind, DiskScript& script)
    : parts_(std::make_unique<Parts>(kind)) {
  if (kind == OnDisk::rocksdb) {
    parts_->rocksdb = scripted_env(script);
  } else {
    parts_->sqlite.emplace(script);
  }
}

ScriptedSystem::~ScriptedSystem() = default;

Result<std::unique_ptr<engine::Backend>> ScriptedSystem::open(const fs::path& folder) const {
  if (parts_->kind == OnDisk::sqlite) {
    return sqlite::open_sqlite(folder / "store", cache_bytes, true, parts_->sqlite->name());
  }
  return rocks::open_rocksdb(
      folder / "store", {.cache_bytes = cache_bytes, .create = true, .env = parts_->rocksdb.get()});
}

Result<std::unique_ptr<Store>> open_journalled(const ScriptedSystem& system, const fs::path& folder,
                                               const std::shared_ptr<Clock>& clock,
                                               Journal& journal,
                                               std::vector<std::string>& trouble) {
  auto backend = system.open(folder);
  if (!backend) return std::unexpected(std::move(backend).error());
  OpenOptions options;
  options.clock = clock;
  options.cache_bytes = cache_bytes;
  return store::open_on(std::make_unique<JournalledBackend>(*std::move(backend), journal, trouble),
                        options);
}

void make_store(OnDisk kind, const fs::path& folder, const std::shared_ptr<Clock>& clock) {
  OpenOptions options;
  options.clock = clock;
  options.cache_bytes = cache_bytes;
  auto store = open(url_of(kind, folder), options);
  if (!store) std::abort();
  for (const char* queue : {"in", "out"}) {
    Transaction transaction;
    ConfigureQueue configure;
    configure.queue = queue;
    configure.settings.max_attempts = 0;  // leases may run out, as often as they like
    transaction.admin = std::move(configure);
    if (!(*store)->apply(transaction)) std::abort();
  }
}

}  // namespace strand::faults
