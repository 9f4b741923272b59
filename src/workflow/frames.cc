#include "workflow/frames.h"

#include <new>
#include <utility>

#include <strand/task.h>

namespace strand::workflow {

namespace {

thread_local std::int64_t* counted = nullptr;

}  // namespace

FrameCount::FrameCount(std::int64_t& bytes) : before_(std::exchange(counted, &bytes)) {}
FrameCount::~FrameCount() { counted = before_; }

void* allocate_frame(std::size_t bytes) {
  void* const frame = ::operator new(bytes);
  if (counted != nullptr) *counted += static_cast<std::int64_t>(bytes);
  return frame;
}

void free_frame(void* frame, std::size_t bytes) noexcept {
  if (counted != nullptr) *counted -= static_cast<std::int64_t>(bytes);
  ::operator delete(frame, bytes);
}

}  // namespace strand::workflow
