// strand serve among callers who mean it no good: its memory is bounded, and others are served.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "e2e/serving.h"
#include "server/http_client.h"
#include "server/raw_grpc.h"

namespace strand::e2e {
namespace {

using namespace std::chrono_literals;
using server::RawClient;
using server::RawGrpcClient;
using std::chrono::steady_clock;

// Callers who do what they like to one server.
class ServeAbuse : public Program {
 protected:
  void SetUp() override {
    server_ = std::make_unique<ServerProcess>("memory:");
    expect_alive();  // what is made for the first caller is not what others cost
    before_kib_ = memory_kib();
  }
  void TearDown() override {
    expect_alive();
    const Finished stopped = server_->stop();
    EXPECT_EQ(stopped.exit, 0) << stopped.err;
  }

  // What the process has in memory.
  [[nodiscard]] std::int64_t memory_kib() const {
    std::ifstream status("/proc/" + std::to_string(server_->process().id()) + "/status");
    std::string word;
    while (status >> word) {
      std::int64_t size = 0;
      if (word == "VmRSS:" && status >> size) return size;
    }
    return 0;
  }
  void expect_grown_by_less_than(std::int64_t mebibytes) const {
    EXPECT_LT(memory_kib() - before_kib_, mebibytes * 1024) << "from " << before_kib_ << " KiB";
  }
  // Another caller is served within a second, at once or soon: this machine may be busy, too, and
  // its queue of new connections full.
  void expect_alive() const {
    std::string problem;
    EXPECT_TRUE(eventually(
        [&] {
          const auto began = steady_clock::now();
          problem = serve_another();
          return problem.empty() && steady_clock::now() - began < 1s;
        },
        20s))
        << "others have to wait, or are refused: " << problem;
  }
  // What is wrong with how it is served; "" if nothing is.
  [[nodiscard]] std::string serve_another() const {
    RawGrpcClient other(server_->grpc_port());
    v1::ApplyRequest sending;
    sending.add_transactions()->add_sends()->set_queue("alive");
    const auto sent = other.call("Apply", sending);
    if (!sent.status.ok()) return sent.status.error_message();
    v1::LeaseRequest asking;
    asking.set_queue("alive");
    asking.set_wait_ms(5'000);
    const auto leased = other.call("Lease", asking);
    if (!leased.status.ok()) return leased.status.error_message();
    EXPECT_EQ(leased.as<v1::LeaseResponse>().leases_size(), 1)
        << sent.as<v1::ApplyResponse>().ShortDebugString();
    return {};
  }
  [[nodiscard]] std::uint16_t port() const { return server_->grpc_port(); }
  // What the server counts, as /metrics tells it.
  [[nodiscard]] double figure(const std::string& name) const {
    const std::string text = server::request(server_->http_port(), "GET", "/metrics").body;
    const std::size_t line = text.find("\n" + name + " ");
    return line == std::string::npos ? -1 : std::stod(text.substr(line + name.size() + 2));
  }

  std::unique_ptr<ServerProcess> server_;
  std::int64_t before_kib_ = 0;
};

// --- HTTP/2 by hand ---

std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  const std::string& payload) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::string bytes;
  for (const std::uint32_t byte :
       {size >> 16U, size >> 8U, size, std::uint32_t{type}, std::uint32_t{flags}, stream >> 24U,
        stream >> 16U, stream >> 8U, stream})
    bytes += static_cast<char>(byte & 0xffU);
  return bytes + payload;
}

const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");

// A field that enters no table.
std::string field(const std::string& name, const std::string& value) {
  std::string bytes(1, '\0');
  bytes += static_cast<char>(name.size());
  bytes += name;
  bytes += static_cast<char>(value.size());
  return bytes + value;
}

std::string call_headers(const std::string& method) {
  return field(":method", "POST") + field(":scheme", "http") +
         field(":path", "/strand.v1.Store/" + method) + field(":authority", "127.0.0.1") +
         field("content-type", "application/grpc") + field("te", "trailers");
}

TEST_F(ServeAbuse, What_is_no_HTTP2_is_hung_up_on) {
  const std::vector<std::string> speeches = {
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
      std::string(100'000, '\0'),
      std::string(100'000, '\xff'),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(10'000, '\xff'),
      preface + frame(1, 4, 1, std::string(200, '\xff')),  // no header block
      preface + frame(9, 4, 1, "a continuation of nothing"),
      preface + frame(99, 0, 0, "a frame of no kind") + frame(6, 0, 0, "a ping of wrong size"),
      preface + frame(4, 0, 0, "settings?"),
      preface + frame(8, 0, 0, std::string(4, '\0'))};
  for (const std::string& speech : speeches) {
    RawClient stranger(port());
    stranger.send(speech);
    EXPECT_TRUE(stranger.is_closed_within(5s)) << speech.substr(0, 60);
  }
  expect_grown_by_less_than(32);
}

TEST_F(ServeAbuse, Thousands_of_silent_connections_do_not_matter) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const std::size_t wanted = full ? 10'000 : 2'000;
  if (files.rlim_cur < wanted + 500) GTEST_SKIP() << "too few files may be open here";
  std::vector<RawClient> silent;
  for (std::size_t i = 0; i < wanted; ++i) {
    silent.emplace_back(port());
    // Half of them begin to speak.
    if (i % 2 == 0) silent.back().send(preface);
  }
  expect_alive();
  expect_grown_by_less_than(static_cast<std::int64_t>(wanted) / 10);  // 100 KiB for each
}

TEST_F(ServeAbuse, Streams_that_are_opened_and_reset_at_once_cost_little) {
  const std::string headers = call_headers("Lease");
  const std::string cancel("\0\0\0\x08", 4);
  for (int connection = 0; connection < 4; ++connection) {
    RawClient client(port());
    client.send(preface);
    std::string flood;
    for (std::uint32_t i = 0; i < 5'000; ++i) {
      const std::uint32_t stream = 2 * i + 1;
      flood += frame(1, 4, stream, headers) + frame(3, 0, stream, cancel);
    }
    client.send(flood);
    expect_alive();
  }
  // A call takes some KiB while the server is behind; there were 20,000.
  expect_grown_by_less_than(256);
}

TEST_F(ServeAbuse, Calls_that_are_cancelled_at_once_leave_nothing) {
  const auto stub = stub_for(*server_);
  for (int i = 0; i < 2'000; ++i) {
    grpc::ClientContext context;
    v1::LeaseRequest request;
    request.set_queue("orders");
    request.set_wait_ms(60'000);
    v1::LeaseResponse response;
    grpc::CompletionQueue queue;
    grpc::Status status;
    void* tag = nullptr;
    bool good = false;
    const auto call = stub->AsyncLease(&context, request, &queue);
    call->Finish(&response, &status, nullptr);
    if (i % 2 == 0) std::this_thread::yield();
    context.TryCancel();
    queue.Next(&tag, &good);
    queue.Shutdown();
  }
  EXPECT_TRUE(eventually([&] { return figure("strand_grpc_waiting_clients") == 0; }));
  expect_grown_by_less_than(64);
}

TEST_F(ServeAbuse, Clients_that_vanish_leave_nothing) {
  const std::string data(
      "\0\0\0\0\xff"
      "begin of a request",
      23);
  for (int i = 0; i < 300; ++i) {
    RawClient client(port());
    std::string speech = preface;
    std::uint32_t stream = 1;
    for (const char* method : {"Apply", "ApplyStream", "Watch", "Lease"}) {
      speech += frame(1, 4, stream, call_headers(method)) + frame(0, 0, stream, data);
      stream += 2;
    }
    client.send(speech);
    client.vanish();
  }
  EXPECT_TRUE(eventually([&] { return figure("strand_grpc_streams") == 0; }));
  EXPECT_EQ(figure("strand_grpc_waiting_clients"), 0);
  expect_grown_by_less_than(64);
}

TEST_F(ServeAbuse, Bombs_and_giants_do_not_stay_in_memory) {
  RawGrpcClient client(port());
  v1::ApplyRequest large;
  large.add_transactions()->add_sends()->mutable_content()->set_body(
      std::string(std::size_t{64} << 20U, 'x'));
  const std::string bytes = large.SerializeAsString();
  for (int i = 0; i < 5; ++i) {
    const auto bomb = client.call("Apply", bytes, {.compress = true});
    EXPECT_EQ(bomb.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    const auto giant = client.call("Apply", bytes);
    EXPECT_EQ(giant.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  // Of some 600 MiB. The allocator keeps what one of them took.
  expect_grown_by_less_than(200);
}

}  // namespace
}  // namespace strand::e2e
