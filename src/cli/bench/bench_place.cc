#include "cli/bench/bench_place.h"

#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/bench/baselines.h"
#include "pq/connection.h"
#include "store/engine/backend.h"
#include "store/open.h"
#include "store/postgres/location.h"
#include "store/url.h"

namespace strand::cli {

namespace {

namespace fs = std::filesystem;

// Counts the syncs that a store asks for.
class SyncCounter final : public engine::ForwardingBackend {
 public:
  SyncCounter(std::unique_ptr<engine::Backend> backend, std::atomic<std::uint64_t>& syncs)
      : ForwardingBackend(std::move(backend)), syncs_(syncs) {}

  Result<void> write(const engine::MutationBatch& batch, Durability durability) override {
    if (durability == Durability::sync) ++syncs_;
    return behind().write(batch, durability);
  }

 private:
  std::atomic<std::uint64_t>& syncs_;
};

}  // namespace

Result<std::unique_ptr<BenchPlace>> BenchPlace::find(Options options) {
  std::unique_ptr<BenchPlace> place(new BenchPlace(std::move(options)));
  if (auto found = place->find_place(); !found) return std::unexpected(std::move(found.error()));
  return place;
}

BenchPlace::~BenchPlace() {
  if (!conninfo_.empty() && !options_.keep) {
    if (const auto connection = postgres::Connection::open(conninfo_)) {
      std::ignore =
          (*connection)
              ->script(fmt::format(
                  "set client_min_messages = warning; drop schema if exists {} cascade", schema_));
    }
  }
  std::error_code ignored;
  if (!scratch_.empty()) fs::remove_all(scratch_, ignored);
  if (place_.empty() || options_.keep) return;
  // An SQLite database has files beside it, whose names start with its own.
  const std::string name = place_.filename().native();
  const fs::path folder = place_.has_parent_path() ? place_.parent_path() : fs::path(".");
  fs::remove_all(place_, ignored);
  for (const char* suffix : {"-wal", "-shm", "-owner", "-journal"}) {
    fs::remove(folder / (name + suffix), ignored);
  }
}

Result<void> BenchPlace::find_place() {
  url_ =
      options_.store.empty() ? fmt::format("rocksdb:strand-bench-{}", ::getpid()) : options_.store;
  const auto parsed = store::parse_url(url_);
  if (!parsed) return std::unexpected(parsed.error());
  if (parsed->scheme == store::Url::Scheme::postgres) return find_database();
  fs::path beside = fs::current_path();
  if (parsed->scheme != store::Url::Scheme::memory) {
    const fs::path path = fs::absolute(parsed->rest).lexically_normal();
    if (fs::exists(path)) {
      return failure(Errc::invalid_argument,
                     fmt::format("{} exists already; a benchmark makes a store of its own, and "
                                 "removes it: name a path where nothing is",
                                 base::printable(path.native())));
    }
    beside = path.parent_path();
    place_ = path;
  }
  scratch_ = beside / fmt::format("strand-bench-baseline-{}", ::getpid());
  std::error_code error;
  fs::create_directories(scratch_, error);
  if (error) {
    return failure(Errc::invalid_argument,
                   fmt::format("cannot make a folder in {}: {}", base::printable(beside.native()),
                               error.message()));
  }
  filesystem_ = filesystem_of(scratch_);
  if (is_memory(filesystem_) && !options_.memory_filesystem) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is a file system in memory ({}), where a sync costs nothing: "
                               "name a path on a disk, or say --allow-memory-filesystem",
                               base::printable(beside.native()), filesystem_));
  }
  return {};
}

// A schema of its own in the database of the URL.
Result<void> BenchPlace::find_database() {
  auto location = postgres::parse_location(url_);
  if (!location) return std::unexpected(location.error());
  conninfo_ = location->conninfo;
  schema_ = fmt::format("strand_bench_{}", ::getpid());
  const bool uri = url_.find("://") != std::string::npos;
  const char* const separator = !uri ? " " : url_.find('?') == std::string::npos ? "?" : "&";
  url_ += fmt::format("{}schema={}", separator, schema_);
  filesystem_ = "the server's";
  return {};
}

Result<std::unique_ptr<Store>> BenchPlace::open(const std::string& url) {
  OpenOptions options;
  if (!conninfo_.empty()) return strand::open(url, options);
  auto backend = store::open_backend(url, options);
  if (!backend) return std::unexpected(std::move(backend).error());
  return store::open_on(std::make_unique<SyncCounter>(*std::move(backend), syncs_), options);
}

}  // namespace strand::cli
