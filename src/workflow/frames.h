#pragma once

#include <cstdint>

namespace strand::workflow {

// While it lives, coroutine frames that this thread makes or destroys are counted for an instance.
class FrameCount {
 public:
  explicit FrameCount(std::int64_t& bytes);
  ~FrameCount();
  FrameCount(const FrameCount&) = delete;
  FrameCount& operator=(const FrameCount&) = delete;

 private:
  std::int64_t* before_;
};

}  // namespace strand::workflow
