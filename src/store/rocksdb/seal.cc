#include "store/rocksdb/seal.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <ios>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/text.h"

namespace strand::rocks {

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Of the first `size` bytes; nothing if there are not so many.
std::optional<std::uint64_t> hash_of(const fs::path& file, std::size_t size) {
  const std::string bytes = content_of(file);
  if (bytes.size() < size) return std::nullopt;
  return XXH64(bytes.data(), size, 0);
}

}  // namespace

Seal::Seal(fs::path folder, fs::path note)
    : folder_(std::move(folder)), note_(std::move(note)), content_(note_.read()) {}

Result<void> Seal::check_manifest() const {
  const std::lock_guard lock(mutex_);
  std::istringstream files(content_.files);
  std::string name;
  std::size_t size = 0;
  std::uint64_t hash = 0;
  if (!(files >> name >> size >> std::hex >> hash)) return {};
  // Each opening begins a new one, whole from its start; the note may be older than that.
  if (content_of(folder_ / "CURRENT") != name + "\n") return {};
  if (hash_of(folder_ / name, size) == hash) return {};
  return failure(Errc::corrupt,
                 fmt::format("{} is damaged: without it RocksDB does not know its files; keep a "
                             "copy of the folder, and go back to a backup",
                             base::printable((folder_ / name).native())));
}

Result<void> Seal::check_end(std::uint64_t last_batch) const {
  const std::lock_guard lock(mutex_);
  if (last_batch >= content_.number) return {};
  return failure(
      Errc::corrupt,
      fmt::format("the database in {} ends with batch {}, and batch {} was confirmed: its log is "
                  "damaged, or it is older than {}; keep a copy of the folder and go back to a "
                  "backup, or remove that file to go on without what is lost",
                  base::printable(folder_.native()), last_batch, content_.number,
                  base::printable(note_.file().native())));
}

void Seal::synced(std::uint64_t batch) {
  const std::lock_guard lock(mutex_);
  content_.number = std::max(content_.number, batch);
  note_.write(content_);
}

void Seal::opened(::rocksdb::DB& db, std::uint64_t last_batch) {
  files_changed(db);
  synced(last_batch);
}

void Seal::files_changed(::rocksdb::DB& db) {
  std::vector<std::string> files;
  std::uint64_t size = 0;
  // The size up to which it is synced, whatever is being written behind it.
  if (!db.GetLiveFiles(files, &size, false).ok()) return;
  for (const std::string& file : files) {
    const std::size_t at = file.find("MANIFEST-");
    if (at == std::string::npos) continue;
    const std::string name = file.substr(at);
    const auto hash = hash_of(folder_ / name, size);
    if (!hash) return;
    const std::lock_guard lock(mutex_);
    content_.files = fmt::format("{} {} {:016x}", name, size, *hash);
    note_.write(content_);
    return;
  }
}

}  // namespace strand::rocks
