#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <strand/store.h>

#include "faults/disk_script.h"
#include "faults/journal.h"
#include "store/engine/backend.h"

namespace strand::faults {

// A kind of store that has files.
enum class OnDisk : std::uint8_t { rocksdb, sqlite };
std::string to_string(OnDisk kind);

// Where the store of a folder has the files that it works on.
std::filesystem::path files_of(OnDisk kind, const std::filesystem::path& folder);
std::string url_of(OnDisk kind, const std::filesystem::path& folder);

// The operating system under a script, as one kind of store sees it. Outlives the stores on it.
class ScriptedSystem {
 public:
  ScriptedSystem(OnDisk kind, DiskScript& script);
  ScriptedSystem(const ScriptedSystem&) = delete;
  ScriptedSystem& operator=(const ScriptedSystem&) = delete;
  ~ScriptedSystem();

  [[nodiscard]] Result<std::unique_ptr<engine::Backend>> open(
      const std::filesystem::path& folder) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A store on the scripted system, and what is written to it in a journal.
Result<std::unique_ptr<Store>> open_journalled(const ScriptedSystem& system,
                                               const std::filesystem::path& folder,
                                               const std::shared_ptr<Clock>& clock,
                                               Journal& journal, std::vector<std::string>& trouble);

// Makes an empty store with its queues, on the real system, as the journal then knows.
void make_store(OnDisk kind, const std::filesystem::path& folder,
                const std::shared_ptr<Clock>& clock);

}  // namespace strand::faults
