#include "pq/stop_signal.h"

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"

namespace strand::postgres {

StopSignal::StopSignal() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
}

StopSignal::~StopSignal() { ::close(descriptor_); }

void StopSignal::give() const {
  STRAND_ASSERT(::eventfd_write(descriptor_, 1) == 0, "an eventfd takes a few small numbers");
}

}  // namespace strand::postgres
