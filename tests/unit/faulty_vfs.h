#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "faults/scripted_vfs.h"

namespace strand {

// SQLite's way to the operating system, with the writes and syncs written down, and made to fail
// where it is told to. Reach it by name().
//
// Threads: none; for tests that write from one thread, and read from none meanwhile.
class FaultyVfs final : private faults::DiskScript {
 public:
  [[nodiscard]] const std::string& name() const { return vfs_.name(); }

  // "write" or "sync", and the end of the file's name: "store", "store-wal".
  struct Event {
    std::string what;
    std::string file;
  };
  std::vector<Event> events;
  // The number of the error that an event has instead of being done; 0 lets it be done.
  std::function<int(const Event&)> fault;

 private:
  int before(const faults::DiskOperation& operation) override {
    using Kind = faults::DiskOperation::Kind;
    if (operation.kind != Kind::write && operation.kind != Kind::sync) return 0;
    const std::string_view path = operation.file;
    Event event{operation.kind == Kind::write ? "write" : "sync",
                std::string(path.substr(path.find_last_of('/') + 1))};
    const int error = fault ? fault(event) : 0;
    events.push_back(std::move(event));
    return error;
  }
  void after(const faults::DiskOperation&) override {}

  faults::ScriptedVfs vfs_{*this};
};

}  // namespace strand
