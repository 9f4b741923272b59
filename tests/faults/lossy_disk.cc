#include "faults/lossy_disk.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <utility>

namespace strand::faults {

namespace fs = std::filesystem;
using Kind = DiskOperation::Kind;

namespace {

constexpr std::size_t sector_bytes = 512;

std::string name_of(const std::string& path) { return fs::path(path).filename().native(); }

// Bytes that nobody wrote: an old block of the disk, or none.
void fill(std::string& bytes, std::size_t from, std::size_t to, std::mt19937_64& random) {
  if (bytes.size() < to) bytes.resize(to, '\0');
  if (random() % 2 == 0) {
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(from),
              bytes.begin() + static_cast<std::ptrdiff_t>(to), '\0');
    return;
  }
  for (std::size_t i = from; i < to; ++i)
    bytes[i] = static_cast<char>(random());
}

}  // namespace

LossyDisk::LossyDisk(fs::path folder) : folder_(std::move(folder)) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    // Locks and notes for people are none of the model's business.
    if (!entry.is_regular_file() || name.starts_with("LO") || name.ends_with("-owner") ||
        name.ends_with("-shm") || name.ends_with("-synced")) {
      continue;
    }
    std::ifstream in(entry.path(), std::ios::binary);
    auto file = std::make_shared<File>();
    file->certain = std::string(std::istreambuf_iterator<char>(in), {});
    names_.emplace(name, std::move(file));
  }
  certain_names_ = names_;
}

void LossyDisk::apply(const NameChange& change, Names& names) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names.insert_or_assign(change.added, change.file);
}

void LossyDisk::apply(const Change& change, std::string& bytes) {
  if (change.truncation) {
    bytes.resize(change.offset);
    return;
  }
  const std::size_t end = change.offset + change.data.size();
  if (bytes.size() < end) bytes.resize(end);
  std::ranges::copy(change.data, bytes.begin() + static_cast<std::ptrdiff_t>(change.offset));
}

void LossyDisk::apply_some(const Change& change, std::string& bytes, std::mt19937_64& random) {
  if (change.truncation) {
    if (random() % 2 == 0) apply(change, bytes);
    return;
  }
  const std::uint64_t end = change.offset + change.data.size();
  for (std::uint64_t at = change.offset; at < end;) {
    const std::uint64_t next = std::min(end, (at / sector_bytes + 1) * sector_bytes);
    if (random() % 2 == 0) {
      apply({.offset = at, .data = change.data.substr(at - change.offset, next - at)}, bytes);
    }
    at = next;
  }
}

void LossyDisk::tear(const Change& change, std::string& bytes, std::mt19937_64& random) {
  if (change.truncation) return;
  const std::size_t kept = random() % (change.data.size() + 1);
  const bool at_sector = random() % 2 == 0;
  const std::uint64_t end = change.offset + change.data.size();
  std::uint64_t cut = change.offset + kept;
  if (at_sector) cut = std::max(change.offset, cut / sector_bytes * sector_bytes);
  apply({.offset = change.offset, .data = change.data.substr(0, cut - change.offset)}, bytes);
  if (at_sector && cut < end) fill(bytes, cut, end, random);
}

std::string LossyDisk::survivor(const File& file, std::mt19937_64& random) {
  std::string bytes = file.certain;
  if (file.pending.empty()) return bytes;
  const std::size_t count = random() % (file.pending.size() + 1);
  switch (random() % 4) {
    case 0:  // nothing of it
      break;
    case 1:  // all of it
      for (const Change& change : file.pending)
        apply(change, bytes);
      break;
    case 2:  // up to some point
      for (std::size_t i = 0; i < count; ++i)
        apply(file.pending[i], bytes);
      if (count < file.pending.size()) tear(file.pending[count], bytes, random);
      break;
    default:  // here and there
      for (const Change& change : file.pending)
        apply_some(change, bytes, random);
      break;
  }
  return bytes;
}

void LossyDisk::rename(NameChange change) {
  apply(change, names_);
  pending_names_.push_back(std::move(change));
}

void LossyDisk::made(const DiskOperation& operation) {
  const std::lock_guard lock(mutex_);
  if (operation.kind == Kind::sync_folder) {
    certain_names_ = names_;
    pending_names_.clear();
    return;
  }
  const std::string name = name_of(operation.file);
  if (operation.kind == Kind::rename) {
    const std::string from = name_of(operation.from);
    if (const auto found = names_.find(from); found != names_.end()) {
      rename({.removed = from, .added = name, .file = found->second});
    }
    return;
  }
  const auto found = names_.find(name);
  if (operation.kind == Kind::create && found == names_.end()) {
    rename({.added = name, .file = std::make_shared<File>()});
    return;
  }
  if (found == names_.end()) return;  // a file that was removed while it was open
  File& file = *found->second;
  switch (operation.kind) {
    case Kind::create:
      file.pending.push_back({.truncation = true});
      break;
    case Kind::write:
      file.pending.push_back({.offset = operation.offset, .data = std::string(operation.data)});
      break;
    case Kind::truncate:
      file.pending.push_back({.truncation = true, .offset = operation.offset});
      break;
    case Kind::sync:
      for (const Change& change : file.pending)
        apply(change, file.certain);
      file.pending.clear();
      break;
    case Kind::remove:
      rename({.removed = name});
      break;
    case Kind::rename:
    case Kind::sync_folder:
      break;
  }
}

void LossyDisk::sync_failed(const std::string& file, std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(name_of(file));
  if (found == names_.end()) return;
  found->second->certain = survivor(*found->second, random);
  found->second->pending.clear();
}

void LossyDisk::lose_power(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  Names names = certain_names_;
  const std::size_t count = random() % (pending_names_.size() + 1);
  for (std::size_t i = 0; i < count; ++i)
    apply(pending_names_[i], names);
  std::vector<std::string> known;
  for (const auto& [name, file] : names_)
    known.push_back(name);
  for (const std::string& name : known)
    fs::remove(folder_ / name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (entry.path().native().ends_with("-shm")) fs::remove(entry.path());
  }
  write_out(names, random);
}

void LossyDisk::write_out(const Names& names, std::mt19937_64& random) const {
  for (const auto& [name, file] : names) {
    const std::string bytes = survivor(*file, random);
    std::ofstream out(folder_ / name, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace strand::faults
