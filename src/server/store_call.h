#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <grpcpp/grpcpp.h>

#include "server/grpc_status.h"
#include "server/store_service.h"

// For the files of StoreService alone.

namespace strand::server {

// The value of the metadata; none if there is none.
inline std::optional<std::string_view> metadata_of(const grpc::ServerContextBase& context,
                                                   const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

// One call, from its beginning to its report.
class StoreService::Call {
 public:
  Call(const StoreService& service, grpc::CallbackServerContext* context, std::string_view method)
      : service_(service), context_(context), method_(method) {}

  Result<PermitPointer> admit() {
    auto permit = service_.admit(*context_);
    if (permit) caller_ = (*permit)->caller();
    return permit;
  }

  // The status to finish with. The context is good until then, so this comes before.
  grpc::Status finished(const Result<void>& result, bool admitted = true) {
    report(result ? "ok" : to_string(result.error().code));
    if (result) return grpc::Status::OK;
    grpc::Status status = status_of(result.error(), *context_);
    if (admitted) return status;
    return {grpc::StatusCode::UNAUTHENTICATED, status.error_message()};
  }

  void report(std::string_view status) const {
    if (!service_.options_.on_call) return;
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - began_);
    const auto request_id = metadata_of(*context_, "x-request-id").value_or("");
    service_.options_.on_call({.method = method_,
                               .caller = caller_,
                               .request_id = std::string(request_id.substr(0, 64)),
                               .status = status,
                               .took = took});
  }

 private:
  const StoreService& service_;
  grpc::CallbackServerContext* context_;
  std::string_view method_;
  std::string caller_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace strand::server
