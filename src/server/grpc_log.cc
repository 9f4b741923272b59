#include "server/grpc_log.h"

#include <mutex>
#include <string>
#include <string_view>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

namespace strand::server {

namespace {

std::mutex mutex;           // for what follows
Log* chosen_log = nullptr;  // where lines go

// Nothing of ours has failed: what the libraries call an error is mostly a caller's.
void take(bool is_error, std::string_view file, int line, std::string_view message) {
  const LogLevel level = is_error ? LogLevel::warning : LogLevel::debug;
  if (const std::size_t slash = file.rfind('/'); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  const std::lock_guard lock(mutex);
  if (chosen_log == nullptr || !chosen_log->on(level)) return;
  chosen_log->seldom(level, "grpc.library", message, {{"file", file}, {"line", line}});
}

void take_grpc(gpr_log_func_args* args) {
  take(args->severity == GPR_LOG_SEVERITY_ERROR, args->file, args->line, args->message);
}

void take_protobuf(google::protobuf::LogLevel level, const char* file, int line,
                   const std::string& message) {
  take(level >= google::protobuf::LOGLEVEL_ERROR, file, line, message);
}

}  // namespace

GrpcLog::GrpcLog(Log& log) {
  const std::lock_guard lock(mutex);
  chosen_log = &log;
  gpr_set_log_function(take_grpc);
  google::protobuf::SetLogHandler(take_protobuf);
}

GrpcLog::~GrpcLog() {
  const std::lock_guard lock(mutex);
  chosen_log = nullptr;
  gpr_set_log_function(nullptr);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace strand::server
