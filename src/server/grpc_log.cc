#include "server/grpc_log.h"

#include <mutex>
#include <string_view>

#include <grpc/support/log.h>

namespace strand::server {

namespace {

std::mutex mutex;           // for what follows
Log* chosen_log = nullptr;  // where lines go

void take(gpr_log_func_args* line) {
  // Nothing of ours has failed: what the library calls an error is mostly a caller's.
  const LogLevel level =
      line->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::warning : LogLevel::debug;
  std::string_view file = line->file;
  if (const std::size_t slash = file.rfind('/'); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  const std::lock_guard lock(mutex);
  if (chosen_log == nullptr || !chosen_log->on(level)) return;
  chosen_log->seldom(level, "grpc.library", line->message, {{"file", file}, {"line", line->line}});
}

}  // namespace

GrpcLog::GrpcLog(Log& log) {
  const std::lock_guard lock(mutex);
  chosen_log = &log;
  gpr_set_log_function(take);
}

GrpcLog::~GrpcLog() {
  const std::lock_guard lock(mutex);
  chosen_log = nullptr;
  gpr_set_log_function(nullptr);
}

}  // namespace strand::server
