#include "crash/scripted_store.h"

#include <optional>
#include <string>
#include <utility>

#include <rocksdb/env.h>

#include "faults/scripted_file_system.h"
#include "faults/scripted_vfs.h"
#include "store/engine/backend.h"
#include "store/open.h"
#include "store/rocksdb/rocksdb_backend.h"
#include "store/sqlite/sqlite_backend.h"
#include "store/url.h"

namespace strand::crash {

namespace {

constexpr std::size_t cache_bytes = std::size_t{1} << 20U;

class RealDisk final : public ScriptedDisk {
 public:
  explicit RealDisk(faults::DiskScript& script)
      : rocksdb_(faults::scripted_env(script)), sqlite_(script) {}
  [[nodiscard]] ::rocksdb::Env& rocksdb() const { return *rocksdb_; }
  [[nodiscard]] const std::string& sqlite() const { return sqlite_.name(); }

 private:
  std::unique_ptr<::rocksdb::Env> rocksdb_;
  faults::ScriptedVfs sqlite_;
};

class KilledAtBatches final : public engine::ForwardingBackend {
 public:
  KilledAtBatches(std::unique_ptr<engine::Backend> backend, faults::KillScript& script)
      : ForwardingBackend(std::move(backend)), script_(script) {}

  Result<void> write(const engine::MutationBatch& batch, Durability durability) override {
    script_.at("batch.before");
    auto written = behind().write(batch, durability);
    script_.at("batch.after");
    return written;
  }

 private:
  faults::KillScript& script_;
};

Result<std::unique_ptr<engine::Backend>> open_disk(std::string_view url, const RealDisk& disk) {
  const auto parsed = store::parse_url(url);
  if (!parsed) return std::unexpected(parsed.error());
  if (parsed->scheme == store::Url::Scheme::rocksdb) {
    return rocks::open_rocksdb(
        parsed->rest, {.cache_bytes = cache_bytes, .create = true, .env = &disk.rocksdb()});
  }
  if (parsed->scheme == store::Url::Scheme::sqlite) {
    return sqlite::open_sqlite(parsed->rest, cache_bytes, true, disk.sqlite());
  }
  return failure(Errc::unsupported, "no such store in the crash tests");
}

}  // namespace

std::unique_ptr<ScriptedDisk> scripted_disk(faults::DiskScript& script) {
  return std::make_unique<RealDisk>(script);
}

Result<std::unique_ptr<Store>> open_scripted(std::string_view url, ScriptedDisk& disk,
                                             faults::KillScript& script) {
  auto backend = open_disk(url, dynamic_cast<RealDisk&>(disk));
  if (!backend) return std::unexpected(std::move(backend).error());
  OpenOptions options;
  options.cache_bytes = cache_bytes;
  return store::open_on(std::make_unique<KilledAtBatches>(*std::move(backend), script), options);
}

}  // namespace strand::crash
