#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

namespace strand::server {

// How a call ended that was made of bytes.
struct RawAnswer {
  grpc::Status status = {};
  std::string error = {};  // `strand-error`; "" if there is none
  std::string bytes = {};  // of the answer, the last one of a stream

  template <class Message>
  [[nodiscard]] Message as() const {
    Message message;
    message.ParseFromString(bytes);
    return message;
  }
};

struct RawCall {
  std::map<std::string, std::string> metadata = {};
  bool compress = false;
  std::chrono::milliseconds patience{10'000};
};

// A caller who may send anything as a request.
class RawGrpcClient {
 public:
  explicit RawGrpcClient(std::uint16_t port);

  // `method` such as "Lease", or of another service, with its path. Streams get the bytes as their
  // one request.
  RawAnswer call(const std::string& method, const std::string& bytes, const RawCall& options = {});
  RawAnswer call(const std::string& method, const google::protobuf::Message& request,
                 const RawCall& options = {}) {
    return call(method, request.SerializeAsString(), options);
  }

  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
};

// A channel of its own connection, without limits of its own.
std::shared_ptr<grpc::Channel> channel_to(std::uint16_t port);

// All methods of the schema, with an empty request of each.
struct RawMethod {
  std::string name;
  std::unique_ptr<google::protobuf::Message> request;
};
std::vector<RawMethod> all_methods();

// Fields of requests that hold what a good one would: a queue, a token, a topic, ….
using GoodTexts = std::map<std::string, std::string, std::less<>>;

// Calls `use` with many versions of the request, in each of which one field, somewhere inside,
// holds an extreme value; the good texts are around it. `where` says which.
void with_extremes(const google::protobuf::Message& request, const GoodTexts& good,
                   const std::function<void(const google::protobuf::Message& request,
                                            const std::string& where)>& use);

}  // namespace strand::server
