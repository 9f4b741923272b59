// The named contents of this process: what `memory:NAME` finds again after it was closed.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "store/memory/memory_backend.h"

namespace strand::memory {

namespace {

struct Named {
  std::shared_ptr<MemoryBackend> contents = std::make_shared<MemoryBackend>();
  bool held = false;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Named, std::less<>> by_name;
};

// Never destroyed: a store in a static variable may be closed after everything else is gone.
Registry& registry() {
  static auto* const registry = new Registry;
  return *registry;
}

// Lends named contents to one owner.
class NamedBackend final : public engine::ForwardingBackend {
 public:
  NamedBackend(std::string name, std::shared_ptr<MemoryBackend> contents)
      : ForwardingBackend(std::move(contents)), name_(std::move(name)) {}
  ~NamedBackend() override {
    const std::lock_guard lock(registry().mutex);
    registry().by_name.find(name_)->second.held = false;
  }
  NamedBackend(const NamedBackend&) = delete;
  NamedBackend& operator=(const NamedBackend&) = delete;

 private:
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<engine::Backend>> open_memory(std::string_view name, bool create) {
  const auto absent = [&] {
    return failure(Errc::not_found,
                   fmt::format("there is no store \"memory:{}\" in this process, and it was not to "
                               "be created",
                               base::printable(name)));
  };
  if (name.empty()) {
    if (!create) return absent();
    return std::make_unique<MemoryBackend>();
  }
  const std::lock_guard lock(registry().mutex);
  auto found = registry().by_name.find(name);
  if (found == registry().by_name.end()) {
    if (!create) return absent();
    found = registry().by_name.emplace(name, Named{}).first;
  }
  if (found->second.held) {
    return failure(Errc::in_use,
                   fmt::format("the store \"memory:{}\" is already open in this process (pid {}); "
                               "share that one, or close it first",
                               base::printable(name), ::getpid()));
  }
  found->second.held = true;
  return std::make_unique<NamedBackend>(found->first, found->second.contents);
}

}  // namespace strand::memory
