// Requests over gRPC that nobody with good intentions would send.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "proto/strand/v1/store.grpc.pb.h"
#include "server/access.h"
#include "server/grpc_server.h"
#include "server/http_fixture.h"
#include "server/raw_grpc.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using grpc::StatusCode;
using std::chrono::steady_clock;
using testing::AnyOf;
using testing::HasSubstr;

class GrpcBadInput : public testing::Test {
 protected:
  GrpcBadInput() : store_(open("memory:").value()) {
    options_.port = 0;
    options_.service.wait_max = 20ms;  // random requests may ask for a wait
  }

  void start(const Access& access) {
    server_ = GrpcServer::start(*store_, access, options_).value();
    client_ = std::make_unique<RawGrpcClient>(server_->port());
  }
  void start() { start(everybody_); }

  // Others are served within a second, at once or soon: this machine may be busy, too.
  void expect_alive() {
    for (int attempt = 0; attempt < 5; ++attempt) {
      const auto began = steady_clock::now();
      serve_another();
      if (steady_clock::now() - began < 1s) return;
    }
    ADD_FAILURE() << "others have to wait";
  }
  void serve_another() {
    RawGrpcClient other(server_->port());
    v1::ApplyRequest sending;
    sending.add_transactions()->add_sends()->set_queue("alive");
    const RawAnswer sent = other.call("Apply", sending);
    ASSERT_TRUE(sent.status.ok()) << sent.status.error_message();
    EXPECT_TRUE(sent.as<v1::ApplyResponse>().results(0).has_receipt());
    v1::LeaseRequest asking;
    asking.set_queue("alive");
    const auto leases = other.call("Lease", asking).as<v1::LeaseResponse>();
    ASSERT_EQ(leases.leases_size(), 1);
    v1::ApplyRequest acking;
    v1::Settle& settle = *acking.add_transactions()->add_settles();
    settle.set_token(leases.leases(0).token());
    settle.add_acked(leases.leases(0).messages(0).id());
    EXPECT_TRUE(other.call("Apply", acking).as<v1::ApplyResponse>().results(0).has_receipt());
  }

  // What may come of a request, however strange: done, or refused for a reason of the request.
  static void expect_sane(const RawAnswer& answer, const std::string& what) {
    static const std::map<std::string, StatusCode> statuses = {
        {"invalid_argument", StatusCode::INVALID_ARGUMENT},
        {"limit_exceeded", StatusCode::INVALID_ARGUMENT},
        {"invalid_token", StatusCode::INVALID_ARGUMENT},
        {"invalid_cursor", StatusCode::INVALID_ARGUMENT},
        {"not_found", StatusCode::NOT_FOUND},
        {"lease_lost", StatusCode::FAILED_PRECONDITION},
        {"in_use", StatusCode::FAILED_PRECONDITION}};
    if (answer.status.ok()) {
      EXPECT_EQ(answer.error, "") << what;
      return;
    }
    const auto found = statuses.find(answer.error);
    ASSERT_NE(found, statuses.end())
        << what << ": " << answer.error << ", " << answer.status.error_code() << " "
        << answer.status.error_message();
    EXPECT_EQ(answer.status.error_code(), found->second) << what;
    EXPECT_NE(answer.status.error_message(), "") << what;
  }
  // The same for the transactions of a request that came through.
  static void expect_sane_results(const RawAnswer& answer, const std::string& what) {
    static const std::set<std::string> bugs = {"io_error", "corrupt", "unavailable",
                                               "unknown_outcome"};
    for (const v1::ApplyResult& result : answer.as<v1::ApplyResponse>().results()) {
      if (!result.has_error()) continue;
      EXPECT_FALSE(bugs.contains(result.error().code()))
          << what << ": " << result.error().code() << ", " << result.error().message();
      EXPECT_NE(result.error().message(), "") << what;
    }
  }

  // A lane that is held, for requests that need a token.
  std::string held_token() {
    Transaction sending;
    Send& send = sending.sends.emplace_back();
    send.queue = "q";
    send.key = "k";
    EXPECT_TRUE(store_->apply(sending));
    const auto leases = store_->lease({.queue = "q"});
    return leases && !leases->empty() ? leases->front().token.to_string() : std::string(48, '0');
  }

  std::unique_ptr<Store> store_;
  OpenAccess everybody_;
  GrpcServerOptions options_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<RawGrpcClient> client_;
};

// --- Bytes ---

TEST_F(GrpcBadInput, Random_bytes_are_refused_or_understood_by_every_method) {
  start();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const RawMethod& method : all_methods()) {
    for (int i = 0; i < 60; ++i) {
      std::string bytes(random() % 80, '\0');
      for (char& byte : bytes)
        byte = static_cast<char>(random());
      const RawAnswer answer = client_->call(method.name, bytes);
      // What is no message is gRPC's to refuse.
      if (answer.error.empty() && !answer.status.ok()) {
        EXPECT_THAT(answer.status.error_code(),
                    AnyOf(StatusCode::INTERNAL, StatusCode::CANCELLED, StatusCode::UNIMPLEMENTED))
            << method.name << answer.status.error_message();
      } else {
        expect_sane(answer, method.name);
      }
    }
  }
  expect_alive();
}

TEST_F(GrpcBadInput, Truncated_requests_are_refused_or_understood) {
  start();
  const GoodTexts good = {{"queue", "q"}, {"token", held_token()}, {"topic", "t"}};
  v1::ApplyRequest whole;
  with_extremes(whole, good, [&](const auto& request, const std::string&) {
    if (request.ByteSizeLong() < 3'000)
      whole.MergeFrom(static_cast<const v1::ApplyRequest&>(request));
    if (whole.transactions_size() > 40) whole.mutable_transactions()->DeleteSubrange(0, 20);
  });
  const std::string bytes = whole.SerializeAsString();
  for (std::size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 200) {
    const RawAnswer answer = client_->call("Apply", bytes.substr(0, length));
    if (answer.status.ok()) expect_sane_results(answer, std::to_string(length));
  }
  expect_alive();
}

TEST_F(GrpcBadInput, Text_that_is_no_UTF8_is_refused) {
  start();
  const std::string queue = "\x0a\x03\xff\xfe\x80";  // field 1, three bytes
  for (const char* method : {"Lease", "GetStats", "Peek", "ListInstances", "GetHistory"}) {
    const RawAnswer answer = client_->call(method, queue);
    EXPECT_FALSE(answer.status.ok()) << method;
  }
  // A transaction that sends to such a queue.
  const std::string sending = "\x42" + std::string(1, static_cast<char>(queue.size())) + queue;
  const RawAnswer answer =
      client_->call("Apply", "\x12" + std::string(1, static_cast<char>(sending.size())) + sending);
  EXPECT_FALSE(answer.status.ok());
  EXPECT_TRUE(store_->queues().value().empty());
  expect_alive();
}

// --- Values ---

TEST_F(GrpcBadInput, An_extreme_value_anywhere_is_refused_or_harmless) {
  start();
  int requests = 0;
  for (const RawMethod& method : all_methods()) {
    const GoodTexts good = {{"queue", "q"},     {"token", held_token()}, {"topic", "t.u"},
                            {"pattern", "t.*"}, {"name", "n"},           {"space", "s"},
                            {"key", "k"},       {"owner", "o"},          {"label", "l"}};
    with_extremes(*method.request, good, [&](const auto& request, const std::string& where) {
      ++requests;
      const RawAnswer answer = client_->call(method.name, request);
      expect_sane(answer, where + "\n" + request.ShortDebugString().substr(0, 300));
      if (method.name.starts_with("Apply")) expect_sane_results(answer, where);
    });
  }
  EXPECT_GT(requests, 1'000);
  // Nothing of it has spoilt what others see.
  for (const QueueInfo& queue : store_->queues().value())
    EXPECT_TRUE(store_->stats(queue.name)) << queue.name;
  expect_alive();
}

TEST_F(GrpcBadInput, A_wait_of_any_length_ends) {
  start();
  for (const std::int64_t wait : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1}}) {
    v1::LeaseRequest request;
    request.set_queue("nowhere");
    request.set_wait_ms(wait);
    const RawAnswer answer = client_->call("Lease", request);
    EXPECT_EQ(answer.error, wait < 0 ? "invalid_argument" : "");
    EXPECT_EQ(answer.as<v1::LeaseResponse>().leases_size(), 0);
  }
}

// --- Too much ---

TEST_F(GrpcBadInput, A_hundred_thousand_of_anything_is_answered_soon) {
  start();
  const auto answered_soon = [&](const std::string& method, const auto& request) {
    const auto began = steady_clock::now();
    const RawAnswer answer = client_->call(method, request);
    EXPECT_LT(steady_clock::now() - began, 5s) << method;
    expect_sane(answer, method);
    return answer;
  };
  v1::LeaseRequest labels;
  labels.set_queue("q");
  v1::RenewRequest tokens;
  v1::ApplyRequest events;
  v1::ApplyRequest transactions;
  v1::ApplyRequest headers;
  v1::Append& append = *events.add_transactions()->add_appends();
  append.set_token(held_token());
  append.set_execution(1);
  v1::Send& send = *headers.add_transactions()->add_sends();
  send.set_queue("q");
  for (int i = 0; i < 100'000; ++i) {
    labels.add_labels("label-" + std::to_string(i));
    tokens.add_tokens("not a token");
    append.add_events("x");
    transactions.add_transactions();
    send.mutable_content()->add_headers()->set_name("n");
  }
  EXPECT_EQ(answered_soon("Lease", labels).error, "limit_exceeded");
  labels.set_wait_ms(10);
  EXPECT_EQ(answered_soon("Lease", labels).error, "limit_exceeded");
  answered_soon("Renew", tokens);
  answered_soon("Apply", events);
  const auto answer = answered_soon("Apply", headers).as<v1::ApplyResponse>();
  EXPECT_EQ(answer.results(0).error().code(), "limit_exceeded");
  answered_soon("Apply", transactions);
  expect_alive();
}

TEST_F(GrpcBadInput, What_is_larger_than_the_limits_is_refused) {
  options_.message_bytes_max = std::size_t{2} << 20U;
  start();
  v1::ApplyRequest large;
  large.add_transactions()->add_sends()->mutable_content()->set_body(std::string(3'000'000, 'x'));
  EXPECT_EQ(client_->call("Apply", large).status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  // The same in a few bytes on the way.
  EXPECT_EQ(client_->call("Apply", large, {.compress = true}).status.error_code(),
            StatusCode::UNIMPLEMENTED);
  expect_alive();

  v1::ApplyRequest body;
  v1::Send& send = *body.add_transactions()->add_sends();
  send.set_queue("q");
  send.mutable_content()->set_body(std::string(1'100'000, 'x'));
  const auto answer = client_->call("Apply", body).as<v1::ApplyResponse>();
  EXPECT_EQ(answer.results(0).error().code(), "limit_exceeded");

  const RawAnswer talkative =
      client_->call("Now", std::string{}, {.metadata = {{"x-much", std::string(100'000, 'm')}}});
  EXPECT_FALSE(talkative.status.ok());
  expect_alive();
}

// Its size is looked at when all of it is there, so it must not get there.
TEST_F(GrpcBadInput, A_giant_is_cut_off_on_its_way) {
  options_.memory_bytes_max = std::size_t{32} << 20U;
  start();
  const RawAnswer answer = client_->call("Apply", std::string(std::size_t{200} << 20U, 'x'));
  EXPECT_EQ(answer.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(answer.status.error_message(), testing::Not(HasSubstr("larger than max")));
  expect_alive();
}

TEST_F(GrpcBadInput, While_giants_come_others_do_their_work) {
  options_.memory_bytes_max = std::size_t{32} << 20U;
  start();
  std::atomic<bool> over = false;
  std::vector<std::jthread> giants;
  for (int i = 0; i < 2; ++i) {
    giants.emplace_back([&] {
      const std::string giant(std::size_t{60} << 20U, 'x');
      RawGrpcClient client(server_->port());
      while (!over)
        EXPECT_FALSE(client.call("Apply", giant).status.ok());
    });
  }
  const auto remote = open("strand://127.0.0.1:" + std::to_string(server_->port())).value();
  for (int i = 0; i < 200; ++i) {
    Transaction transaction;
    transaction.sends.emplace_back().queue = "q";
    const auto sent = remote->apply(transaction);
    EXPECT_TRUE(sent) << sent.error().message;
    const auto stats = remote->stats("q");
    EXPECT_TRUE(stats) << stats.error().message;
  }
  over = true;
  giants.clear();
  EXPECT_EQ(store_->stats("q").value().accepted, 200U);
}

// --- Connections ---

TEST_F(GrpcBadInput, Who_says_nothing_is_hung_up_on) {
  options_.handshake_timeout = 200ms;
  start();
  RawClient silent(server_->port());
  EXPECT_TRUE(silent.is_closed_within(5s));
}

TEST_F(GrpcBadInput, Clients_that_go_away_leave_no_waiters_and_no_streams) {
  options_.service.wait_max = 1min;
  start();
  for (int round = 0; round < 20; ++round) {
    const auto stub = v1::Store::NewStub(channel_to(server_->port()));
    grpc::ClientContext applying;
    grpc::ClientContext watching;
    const auto apply = stub->ApplyStream(&applying);
    const auto watch = stub->Watch(&watching);
    v1::WatchRequest request;
    request.set_queue("q");
    watch->Write(request);
    v1::ApplyRequest sending;
    for (int i = 0; i < 100; ++i)
      sending.add_transactions()->add_sends()->set_queue("other");
    apply->Write(sending);
    grpc::ClientContext waiting;
    v1::LeaseRequest lease;
    lease.set_queue("q");
    lease.set_wait_ms(60'000);
    v1::LeaseResponse response;
    std::promise<void> ended;
    stub->async()->Lease(&waiting, &lease, &response,
                         [&](const grpc::Status&) { ended.set_value(); });
    if (round % 2 == 0) {
      ASSERT_TRUE(eventually([&] { return server_->service().waiting_clients() == 1; }));
    }
    applying.TryCancel();
    watching.TryCancel();
    waiting.TryCancel();
    ended.get_future().wait();
    ASSERT_TRUE(eventually([&] {
      return server_->service().waiting_clients() == 0 && server_->service().open_streams() == 0;
    }));
  }
  expect_alive();
}

// What a stream asked for last may be under way when it ends.
TEST_F(GrpcBadInput, A_watch_may_go_while_its_stream_ends) {
  start();
  std::vector<std::jthread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const auto stub = v1::Store::NewStub(channel_to(server_->port()));
      for (int round = 0; round < 150; ++round) {
        grpc::ClientContext context;
        const auto stream = stub->Watch(&context);
        v1::WatchRequest request;
        v1::WatchEvent event;
        request.set_id(1);
        request.set_queue("q");
        stream->Write(request);
        stream->Read(&event);  // it is in place
        request.set_remove(true);
        stream->Write(request);
        if (round % 2 == 0) stream->WritesDone();
        context.TryCancel();
      }
    });
  }
  clients.clear();
  EXPECT_TRUE(eventually([&] { return server_->service().open_streams() == 0; }));
  expect_alive();
}

// --- More of what is too much ---

TEST_F(GrpcBadInput, Compressed_requests_are_refused_by_every_method) {
  start();
  for (const RawMethod& method : all_methods()) {
    // Nothing is compressed that does not become smaller by it.
    const RawAnswer answer =
        client_->call(method.name, std::string(10'000, '\0'), {.compress = true});
    EXPECT_EQ(answer.status.error_code(), StatusCode::UNIMPLEMENTED) << method.name;
    EXPECT_THAT(answer.status.error_message(), HasSubstr("gzip")) << method.name;
  }
  expect_alive();
}

// --- Who may ---

TEST_F(GrpcBadInput, Forged_tokens_are_refused_by_every_method) {
  KnownTokens tokens;
  tokens.set("good", {{.role = Role::admin, .pattern = "#"}});
  start(tokens);
  for (const RawMethod& method : all_methods()) {
    for (const std::string& bad :
         {std::string{}, std::string("Bearer"), std::string("Bearer "), std::string("bearer  x"),
          std::string("Basic good"), std::string("good"), std::string("Bearer good good"),
          std::string("Bearer ") + std::string(8'000, 'A')}) {
      const RawAnswer answer =
          client_->call(method.name, *method.request, {.metadata = {{"authorization", bad}}});
      EXPECT_EQ(answer.status.error_code(), StatusCode::UNAUTHENTICATED) << method.name << bad;
      EXPECT_EQ(answer.error, "forbidden") << method.name;
    }
  }
  const RawCall good = {.metadata = {{"authorization", "Bearer good"}}};
  EXPECT_TRUE(client_->call("Now", std::string{}, good).status.ok());
}

TEST_F(GrpcBadInput, A_sender_may_not_administer_receive_or_look) {
  KnownTokens tokens;
  tokens.set("sender", {{.role = Role::send, .pattern = "q"}});
  start(tokens);
  const RawCall sender = {.metadata = {{"authorization", "Bearer sender"}}};
  const auto code_of = [&](const v1::ApplyRequest& request) {
    const RawAnswer answer = client_->call("Apply", request, sender);
    EXPECT_TRUE(answer.status.ok());
    return answer.as<v1::ApplyResponse>().results(0).error().code();
  };
  v1::ApplyRequest sending;
  sending.add_transactions()->add_sends()->set_queue("q");
  EXPECT_EQ(code_of(sending), "");
  // Every operation of administration there is.
  const GoodTexts good = {{"queue", "q"}, {"topic", "q"}, {"pattern", "q"}};
  int operations = 0;
  with_extremes(v1::Administration(), good, [&](const auto& admin, const std::string& where) {
    v1::ApplyRequest request;
    request.add_transactions()->mutable_admin()->CopyFrom(admin);
    if (request.transactions(0).admin().operation_case() == v1::Administration::OPERATION_NOT_SET)
      return;
    ++operations;
    EXPECT_THAT(code_of(request), AnyOf("forbidden", "invalid_argument")) << where;
  });
  EXPECT_GT(operations, 11);
  v1::ApplyRequest elsewhere;
  elsewhere.add_transactions()->add_sends()->set_queue("other");
  EXPECT_EQ(code_of(elsewhere), "forbidden");

  v1::LeaseRequest lease;
  lease.set_queue("q");
  v1::PeekRequest peek;
  peek.set_queue("q");
  v1::RenewRequest renew;
  renew.add_tokens(std::string(48, '0'));
  for (const auto& [method, request] :
       std::vector<std::pair<std::string, const google::protobuf::Message*>>{
           {"Lease", &lease}, {"Peek", &peek}, {"Renew", &renew}}) {
    const RawAnswer answer = client_->call(method, *request, sender);
    EXPECT_EQ(answer.status.error_code(), StatusCode::PERMISSION_DENIED) << method;
    EXPECT_EQ(answer.error, "forbidden") << method;
  }
  EXPECT_EQ(store_->queues().value().size(), 1U);
}

// --- Watches ---

TEST_F(GrpcBadInput, Watches_beyond_the_limit_are_refused_and_those_before_stay) {
  options_.service.watches_max = 3;
  start();
  const auto stub = v1::Store::NewStub(client_->channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 10s);
  const auto stream = stub->Watch(&context);
  std::set<std::uint64_t> placed;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    v1::WatchRequest request;
    request.set_id(id);
    request.set_queue("q" + std::to_string(id));
    ASSERT_TRUE(stream->Write(request));
  }
  v1::WatchEvent event;
  while (stream->Read(&event) && !event.has_error())
    placed.insert(event.ids().begin(), event.ids().end());
  EXPECT_THAT(event.ids(), testing::ElementsAre(4));
  EXPECT_EQ(event.error().code(), "limit_exceeded");
  v1::ApplyRequest sending;
  sending.add_transactions()->add_sends()->set_queue("q1");
  client_->call("Apply", sending);
  do {
    ASSERT_TRUE(stream->Read(&event));
  } while (event.ids(0) != 1);
  context.TryCancel();
  expect_alive();
}

TEST_F(GrpcBadInput, Streams_beyond_the_limit_are_refused) {
  options_.service.streams_max = 2;
  start();
  const auto stub = v1::Store::NewStub(client_->channel());
  grpc::ClientContext first;
  grpc::ClientContext second;
  const auto one = stub->ApplyStream(&first);
  const auto two = stub->Watch(&second);
  ASSERT_TRUE(eventually([&] { return server_->service().open_streams() == 2; }));
  for (const char* method : {"ApplyStream", "Watch"}) {
    const RawAnswer refused = client_->call(method, std::string{});
    EXPECT_EQ(refused.error, "limit_exceeded");
    EXPECT_THAT(refused.status.error_message(), HasSubstr("grpc.streams"));
  }
  first.TryCancel();
  second.TryCancel();
  EXPECT_TRUE(eventually([&] { return server_->service().open_streams() == 0; }));
  EXPECT_TRUE(client_->call("ApplyStream", std::string{}).status.ok());
}

// --- Answers that nobody reads ---

// A client that takes answers in small portions, so that they fill up soon.
std::unique_ptr<v1::Store::Stub> narrow_stub_for(std::uint16_t port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return v1::Store::NewStub(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
}

// Writes until the other side takes no more, or all was taken; returns how many it took.
template <class Request, class Response>
class Talker final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  Talker(Request request, int count) : request_(std::move(request)), left_(count) {}
  void begin() {
    this->AddHold();
    this->StartCall();
    this->StartWrite(&request_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;
    ++taken_;
    if (--left_ > 0) this->StartWrite(&request_);
  }
  void OnDone(const grpc::Status&) override { done_ = true; }
  void end(grpc::ClientContext& context) {
    context.TryCancel();
    this->RemoveHold();
    EXPECT_TRUE(eventually([&] { return done_.load(); }));
  }
  // Waits until nothing moves for a while.
  int taken_at_last() {
    int before = -1;
    while (before != taken_ && left_ > 0) {
      before = taken_;
      eventually([&] { return taken_ > before + 1'000; }, 500ms);
    }
    return taken_;
  }

 private:
  const Request request_;
  std::atomic<int> left_;
  std::atomic<int> taken_ = 0;
  std::atomic<bool> done_ = false;
};

TEST_F(GrpcBadInput, A_stream_of_transactions_whose_answers_nobody_reads_comes_to_a_halt) {
  start();
  const auto stub = narrow_stub_for(server_->port());
  v1::ApplyRequest request;
  // Refused, with an error that is longer than the request.
  for (int i = 0; i < 500; ++i)
    request.add_transactions()->add_settles();
  grpc::ClientContext context;
  Talker<v1::ApplyRequest, v1::ApplyResponse> talker(request, 20'000);
  stub->async()->ApplyStream(&context, &talker);
  talker.begin();
  EXPECT_LT(talker.taken_at_last(), 5'000);
  expect_alive();
  talker.end(context);
}

TEST_F(GrpcBadInput, A_stream_of_watches_whose_answers_nobody_reads_comes_to_a_halt) {
  start();
  const auto stub = narrow_stub_for(server_->port());
  v1::WatchRequest request;
  request.set_id(1);
  request.set_lane(std::string(1'000, 'x'));  // no token
  grpc::ClientContext context;
  Talker<v1::WatchRequest, v1::WatchEvent> talker(request, 100'000);
  stub->async()->Watch(&context, &talker);
  talker.begin();
  EXPECT_LT(talker.taken_at_last(), 20'000);
  expect_alive();
  talker.end(context);
}

}  // namespace
}  // namespace strand::server
