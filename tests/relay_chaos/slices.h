#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

namespace strand::relay_chaos {

// A long run in parts. Which of them are done is kept in the build folder until the program is
// built anew, so that a run that was interrupted goes on where it stopped.
class Slices {
 public:
  Slices(const std::string& name, int count)
      : file_(std::filesystem::path(STRAND_BINARY_DIR) / (name + ".done")), count_(count) {
    std::error_code absent;
    const auto written = std::filesystem::last_write_time(file_, absent);
    const std::filesystem::path program = std::filesystem::path(STRAND_BINARY_DIR) / "strand";
    if (absent || written < std::filesystem::last_write_time(program)) {
      std::filesystem::remove(file_, absent);
      return;
    }
    std::ifstream stream(file_);
    for (int slice = 0; stream >> slice;)
      done_.insert(slice);
  }

  // The next one that is not done; none when all are, and then they count as not done again.
  std::optional<int> next() {
    for (int slice = 0; slice < count_; ++slice)
      if (!done_.contains(slice)) return slice;
    std::filesystem::remove(file_);
    return std::nullopt;
  }

  void done(int slice) {
    done_.insert(slice);
    std::ofstream(file_, std::ios::app) << slice << "\n";
  }

 private:
  const std::filesystem::path file_;
  const int count_;
  std::set<int> done_;
};

}  // namespace strand::relay_chaos
