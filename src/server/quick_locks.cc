#include "server/quick_locks.h"

#include <absl/synchronization/mutex.h>

namespace strand::server {

void use_quick_locks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace strand::server
