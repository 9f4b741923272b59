#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace strand {

// A folder of a test's own, which goes with all that is in it. In memory if the machine has such a
// folder, because most tests make many stores and none needs a real disk.
class FreshFolder {
 public:
  FreshFolder() {
    static std::atomic<std::uint64_t> count{0};
    const std::filesystem::path memory = "/dev/shm";
    path_ = (::access(memory.c_str(), W_OK | X_OK) == 0 ? memory
                                                        : std::filesystem::temp_directory_path()) /
            ("strand-unit-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  ~FreshFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strand
