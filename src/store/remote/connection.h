#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <grpcpp/grpcpp.h>

#include <strand/error.h>
#include <strand/time.h>

#include "proto/strand/v1/store.grpc.pb.h"
#include "store/remote/location.h"

namespace strand::remote {

namespace v1 = ::strand::v1;
using Steady = std::chrono::steady_clock;

// The largest request that is sent: what a server takes by default, which is more than one
// transaction may have.
inline constexpr std::size_t request_bytes_max = std::size_t{31} << 20U;

// How long a call is repeated when it was lost on the way.
struct Patience {
  Duration connect = std::chrono::seconds{5};
  Duration call = std::chrono::seconds{30};
};

// The name of the error in the trailing metadata of a call that failed in the store.
inline constexpr const char* error_key = "strand-error";

// Whether the server itself said this, and what. None: the call was lost on the way.
std::optional<Error> said_by_server(const grpc::Status& status, const grpc::ClientContext& context);

// A channel to a server.
//
// Threads: every method may be called concurrently.
// Failure: a call that is lost is repeated until the patience ends; what is called must therefore
//          be harmless to repeat.
class Connection {
 public:
  // Connects, and asks the server for its time.
  static Result<std::unique_ptr<Connection>> open(const Location& location, Patience patience);

  v1::Store::Stub& stub() { return *stub_; }
  [[nodiscard]] const Patience& patience() const { return patience_; }
  [[nodiscard]] const std::string& address() const { return address_; }

  // Says who calls.
  void prepare(grpc::ClientContext& context) const;

  // One call, repeated while it is lost. `unavailable` if none came through.
  template <class Request, class Response>
  Result<void> call(grpc::Status (v1::Store::Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                    const Request& request, Response& response) {
    return repeat([&](grpc::ClientContext& context) {
      response.Clear();
      return (stub_.get()->*method)(&context, request, &response);
    });
  }

  // --- Store time ---

  // Asks the server.
  Result<Time> ask_now();
  // By estimate, or, if that cannot be had, by asking.
  [[nodiscard]] Time now();
  // What the server's clock shows by now: never later than it does.
  [[nodiscard]] Time estimated_now() const;
  void note_now(Time server_now);

 private:
  Connection(const Location& location, Patience patience, std::string token,
             const std::shared_ptr<grpc::Channel>& channel);

  using Attempt = std::function<grpc::Status(grpc::ClientContext&)>;
  Result<void> repeat(const Attempt& attempt);

  std::string address_;
  Patience patience_;
  std::string authorization_;
  std::unique_ptr<v1::Store::Stub> stub_;
  std::atomic<bool> manual_clock_ = false;  // the server's time passes by hand
  // The server's time less the time of our own steady clock, in ms.
  std::atomic<std::int64_t> offset_ms_ = 0;
};

// gRPC 1.51 ends the threads of its callbacks with the last channel or server that uses them, and
// may crash when that happens in one of their own callbacks. Called before any is made, this keeps
// them for good.
void keep_callback_threads();

}  // namespace strand::remote
