#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <strand/error.h>
#include <strand/store.h>

namespace strand::cli {

// Where a benchmark works: a store that did not exist before, and a folder beside it for baselines.
// Both go with it.
class BenchPlace {
 public:
  struct Options {
    std::string store;  // a URL; empty: a store of RocksDB in a folder of its own, here
    bool memory_filesystem = false;  // allowed
    bool keep = false;               // leave the store there
  };
  static Result<std::unique_ptr<BenchPlace>> find(Options options);
  ~BenchPlace();
  BenchPlace(const BenchPlace&) = delete;
  BenchPlace& operator=(const BenchPlace&) = delete;

  // Counts its syncs; with one in PostgreSQL, the server's are not counted. Close it before this
  // goes.
  Result<std::unique_ptr<Store>> open(const std::string& url);
  Result<std::unique_ptr<Store>> open() { return open(url_); }

  [[nodiscard]] const std::string& url() const { return url_; }
  // Of a store on disk; empty for others.
  [[nodiscard]] const std::filesystem::path& place() const { return place_; }
  // For baselines, on the same file system.
  [[nodiscard]] const std::filesystem::path& scratch() const { return scratch_; }
  [[nodiscard]] const std::string& filesystem() const { return filesystem_; }
  // Of a store in PostgreSQL; empty for others.
  [[nodiscard]] const std::string& conninfo() const { return conninfo_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }

 private:
  explicit BenchPlace(Options options) : options_(std::move(options)) {}
  Result<void> find_place();
  Result<void> find_database();

  Options options_;
  std::string url_;
  std::filesystem::path place_;
  std::filesystem::path scratch_;
  std::string filesystem_;
  std::string conninfo_;
  std::string schema_;
  std::atomic<std::uint64_t> syncs_ = 0;
};

}  // namespace strand::cli
