#pragma once

#include <memory>
#include <string_view>

#include <strand/store.h>

#include "faults/kill_script.h"

namespace strand::crash {

// The operating system as the backends see it, under a script. Outlives the stores on it.
class ScriptedDisk {
 public:
  ScriptedDisk() = default;
  ScriptedDisk(const ScriptedDisk&) = delete;
  ScriptedDisk& operator=(const ScriptedDisk&) = delete;
  virtual ~ScriptedDisk() = default;
};
std::unique_ptr<ScriptedDisk> scripted_disk(faults::DiskScript& script);

// Opens the real store with little memory for buffers, so that its files change often. The script
// also meets "batch.before" and "batch.after" each batch.
Result<std::unique_ptr<Store>> open_scripted(std::string_view url, ScriptedDisk& disk,
                                             faults::KillScript& script);

}  // namespace strand::crash
