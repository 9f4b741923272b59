#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "faults/disk_script.h"

namespace strand::faults {

// What a disk may hold after power loss, as far as the rules of POSIX go: a model of the files of
// one folder in terms of writes, syncs and names.
//
// A write is certain once its file was synced, a name once its folder was. Of what is not certain
// anything may be there: names up to some point (they are journalled in order), and of each file
// nothing, all, a part up to any byte, a part with zeros or rubbish behind it, or some sectors and
// not others.
//
// Threads: every method may be called concurrently.
class LossyDisk {
 public:
  // Takes what lies in the folder as certain.
  explicit LossyDisk(std::filesystem::path folder);

  void made(const DiskOperation& operation);
  // A sync that fails takes its chance: what it did not write is never written, though the
  // operating system goes on showing it, and takes it for clean.
  void sync_failed(const std::string& file, std::mt19937_64& random);

  // Puts the folder into a state that power loss could leave. What the model does not know (lock
  // files) stays; SQLite's shared memory goes.
  void lose_power(std::mt19937_64& random);

 private:
  struct Change {
    bool truncation = false;
    std::uint64_t offset = 0;  // or the new size
    std::string data = {};
  };
  struct File {
    std::string certain;  // what the disk has for sure
    std::vector<Change> pending;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  struct NameChange {
    std::string removed = {};  // empty: none
    std::string added = {};    // empty: none
    std::shared_ptr<File> file = {};
  };

  static void apply(const NameChange& change, Names& names);
  static void apply(const Change& change, std::string& bytes);
  // Each sector of the write may be there or not.
  static void apply_some(const Change& change, std::string& bytes, std::mt19937_64& random);
  static void tear(const Change& change, std::string& bytes, std::mt19937_64& random);
  static std::string survivor(const File& file, std::mt19937_64& random);
  void rename(NameChange change);
  void write_out(const Names& names, std::mt19937_64& random) const;

  const std::filesystem::path folder_;
  std::mutex mutex_;
  Names names_;
  Names certain_names_;
  std::vector<NameChange> pending_names_;
};

}  // namespace strand::faults
