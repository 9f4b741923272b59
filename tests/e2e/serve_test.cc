// strand serve: how it is set up, comes up and goes down.

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "e2e/serving.h"
#include "server/http_client.h"

namespace strand::e2e {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Serve : public Program {
 protected:
  void TearDown() override {
    if (!HasFailure() || !server_ || server_->process().id() <= 0) return;
    const Finished ended = server_->stop();
    std::fprintf(stderr, "the server ended with %d: %s\n", ended.exit, ended.err.c_str());
  }

  [[nodiscard]] std::string store() const { return Program::url(); }
  [[nodiscard]] std::string url() const override {
    return server_ ? server_->url() : Program::url();
  }
  ServerProcess& serve(const Words& more = {}, const ProcessOptions& options = {}) {
    server_ = std::make_unique<ServerProcess>(store(), more, options);
    return *server_;
  }
  // Runs it where it is expected to end by itself.
  static Finished start(Words words, const ProcessOptions& options = {}) {
    words.insert(words.begin(), "serve");
    return Process(command(std::move(words)), options).finish();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder() + "/" + name) << text;
    return folder() + "/" + name;
  }

  std::unique_ptr<ServerProcess> server_;
};

// --- Settings ---

TEST_F(Serve, What_print_config_prints_reads_back_to_the_same) {
  const Finished first = start({"--print-config", "--store", "sqlite:a b.db", "--patience", "3s",
                                "--grpc-message-bytes", "64MiB", "--insecure"});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("url = \"sqlite:a b.db\""), HasSubstr("\"64MiB\""),
                               HasSubstr("insecure = true")));
  const std::string file = write("strand.toml", first.out);
  const Finished second = start({"--config", file, "--print-config"});
  EXPECT_EQ(second.exit, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
}

TEST_F(Serve, The_environment_wins_over_the_file_and_the_flag_over_both) {
  const std::string file =
      write("strand.toml", "patience = \"1s\"\n[http]\nin_flight = 11\nstreams = 12\n");
  const ProcessOptions options = {.environment = {{"STRAND_SERVE_CONFIG", file},
                                                  {"STRAND_SERVE_HTTP_STREAMS", "22"},
                                                  {"STRAND_SERVE_PATIENCE", "2s"},
                                                  {"STRAND_STORE", "memory:not-for-servers"}}};
  const Finished printed = start({"--patience", "3s", "--print-config"}, options);
  EXPECT_EQ(printed.exit, 0) << printed.err;
  EXPECT_THAT(printed.out,
              AllOf(HasSubstr("in_flight = 11\n"), HasSubstr("streams = 22\n"),
                    HasSubstr("patience = \"3s\"\n"), Not(HasSubstr("not-for-servers"))));
}

TEST_F(Serve, What_is_mistyped_is_answered_with_the_nearest) {
  const std::string file = write("strand.toml", "[http]\nlissten = \"127.0.0.1:1\"\n");
  const Finished key = start({"--config", file});
  EXPECT_EQ(key.exit, 2);
  EXPECT_THAT(key.err, AllOf(HasSubstr("strand.toml:2"), HasSubstr("'http.listen'")));
  const Finished flag = start({"--log-fromat", "json"});
  EXPECT_EQ(flag.exit, 2);
  EXPECT_THAT(flag.err, HasSubstr("did you mean '--log-format'?"));
  const Finished variable = start({}, {.environment = {{"STRAND_SERVE_GRPC_LISTN", "x"}}});
  EXPECT_EQ(variable.exit, 2);
  EXPECT_THAT(variable.err, HasSubstr("'STRAND_SERVE_GRPC_LISTEN'"));
  const Finished value = start({"--patience", "soon"});
  EXPECT_EQ(value.exit, 2);
  EXPECT_THAT(value.err, AllOf(HasSubstr("--patience"), HasSubstr("soon")));
}

// --- What is in the way ---

TEST_F(Serve, It_does_not_listen_beyond_this_machine_without_TLS) {
  for (const char* flag : {"--grpc", "--http"}) {
    for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"}) {
      const Finished refused = start({"--store", "memory:", flag, address});
      EXPECT_EQ(refused.exit, 2);
      EXPECT_THAT(refused.err, AllOf(HasSubstr("tls.certificate"), HasSubstr("insecure"),
                                     ContainsRegex("^strand: [^\n]+\n$")));
    }
  }
  // An address of documentation, which no machine has: what stops it then is that.
  const Finished allowed = start({"--store", "memory:", "--insecure", "--http", "127.0.0.1:0",
                                  "--grpc", "192.0.2.1:0", "--log-format", "json"});
  EXPECT_EQ(allowed.exit, 1);
  EXPECT_THAT(allowed.err, HasSubstr("cannot listen at 192.0.2.1:0"));
  // Whatever the libraries below have to say is in the form that was asked for, too.
  EXPECT_FALSE(json_lines(allowed.err).empty());
}

TEST_F(Serve, A_port_in_use_is_named) {
  const ServerProcess first("memory:");
  const std::string grpc = "127.0.0.1:" + std::to_string(first.grpc_port());
  const Finished second = start({"--store", "memory:", "--http", "127.0.0.1:0", "--grpc", grpc});
  EXPECT_EQ(second.exit, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr(grpc), HasSubstr("--grpc")));
  const std::string http = "127.0.0.1:" + std::to_string(first.http_port());
  const Finished third = start({"--store", "memory:", "--grpc", "127.0.0.1:0", "--http", http});
  EXPECT_EQ(third.exit, 1);
  EXPECT_THAT(third.err, AllOf(HasSubstr(http), HasSubstr("--http")));
}

TEST_F(Serve, A_store_that_it_cannot_have_is_said) {
  const Words ports = {"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--store"};
  const auto with = [&](const std::string& url) {
    Words words = ports;
    words.push_back(url);
    return start(words);
  };
  ServerProcess& owner = serve();
  const Finished second = with(store());
  EXPECT_EQ(second.exit, 1);
  EXPECT_THAT(second.err, HasSubstr(std::to_string(owner.process().id()))) << "who has it";
  EXPECT_THAT(with("rocksbd:x").err, HasSubstr("rocksdb:PATH"));
  EXPECT_EQ(with("rocksbd:x").exit, 1);
  EXPECT_THAT(with("strand://127.0.0.1:7481").err, HasSubstr("not another server"));
  EXPECT_EQ(with("sqlite:" + folder() + "/no/such/folder/file.db").exit, 1);
  ok({"send", "orders", "a"});  // and the owner did not notice
}

TEST_F(Serve, A_client_without_a_server_is_told_what_to_do_in_one_line) {
  std::string url;
  {
    ServerProcess gone("memory:");
    url = gone.url();
    gone.stop();
  }
  const std::string said = refused(1, {"queue", "ls", "--store", url});
  EXPECT_THAT(said, AllOf(HasSubstr("cannot open the store " + url), HasSubstr("`strand serve`"),
                          HasSubstr("--store")));
}

// --- The command line on a server ---

TEST_F(Serve, Every_kind_of_store_can_be_served) {
  for (const std::string& url : {std::string("memory:"), "sqlite:" + folder() + "/file.db",
                                 "rocksdb:" + folder() + "/folder"}) {
    server_ = std::make_unique<ServerProcess>(url);
    ok({"send", "orders", "a", "--key", "k"});
    const auto lease = json({"receive", "orders", "--wait", "5s"});
    EXPECT_THAT(bodies(lease), ElementsAre("a"));
    ok({"ack", text(lease, "token")});
    EXPECT_EQ(count(json({"queue", "show", "orders"}).at("stats").as_object(), "acked"), 1U);
    const Finished stopped = server_->stop();
    EXPECT_EQ(stopped.exit, 0) << stopped.err;
    server_.reset();
    if (url == "memory:") continue;
    EXPECT_THAT(ok({"queue", "ls", "--store", url}), HasSubstr("orders")) << "it is free again";
    EXPECT_EQ(run({"check", url}).exit, 0);
  }
}

TEST_F(Serve, Processes_share_a_store_at_the_same_time) {
  serve();
  ok({"queue", "set", "orders", "lease=1m"});
  Process waiting(command({"receive", "orders", "--wait", "15s", "-o", "json"}), on_store());
  Process sending(command({"send", "orders", "--lines", "-o", "json"}), on_store());
  sending.write("first\n");
  EXPECT_THAT(waiting.read_line(), HasSubstr("\"first\""));
  EXPECT_EQ(sending.finish("second\n").exit, 0);
  EXPECT_EQ(waiting.finish().exit, 0);
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("second"));
}

// --- The end ---

// A long poll. Its thread is one of gRPC's: a channel that nobody looks at would notice the end of
// its server seconds later.
class LongPoll {
 public:
  LongPoll(v1::Store::Stub& stub, const std::string& queue) {
    request_.set_queue(queue);
    request_.set_wait_ms(60'000);
    stub.async()->Lease(&context_, &request_, &response_,
                        [this](const grpc::Status& status) { status_.set_value(status); });
  }
  grpc::Status wait() { return status_.get_future().get(); }
  [[nodiscard]] const v1::LeaseResponse& response() const { return response_; }

 private:
  grpc::ClientContext context_;
  v1::LeaseRequest request_;
  v1::LeaseResponse response_;
  std::promise<grpc::Status> status_;
};

// What a server counts, as /metrics tells it.
double figure(const ServerProcess& server, const std::string& name) {
  const std::string text = server::request(server.http_port(), "GET", "/metrics").body;
  const std::size_t line = text.find("\n" + name + " ");
  return line == std::string::npos ? -1 : std::stod(text.substr(line + name.size() + 2));
}

TEST_F(Serve, SIGTERM_answers_those_who_wait_and_leaves_a_whole_store) {
  ServerProcess& server = serve();
  const auto stub = stub_for(server);
  LongPoll waiting(*stub, "orders");
  ASSERT_TRUE(eventually([&] { return figure(server, "strand_grpc_waiting_clients") == 1; }));
  const auto began = steady_clock::now();
  const Finished stopped = server.stop();
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_LT(steady_clock::now() - began, 5s) << "there is nobody to be patient with";
  const grpc::Status status = waiting.wait();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(waiting.response().leases_size(), 0);
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("server.draining"), HasSubstr("server.stopped")));
  server_.reset();
  EXPECT_EQ(run({"check", store()}).exit, 0);
}

TEST_F(Serve, SIGTERM_answers_every_transaction_that_it_has_begun) {
  ServerProcess& server = serve();
  const auto stub = stub_for(server);
  std::atomic<int> done = 0;
  std::vector<std::thread> senders;
  for (int i = 0; i < 8; ++i) {
    senders.emplace_back([&stub, &done] {
      while (true) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + 20s);
        v1::ApplyRequest request;
        request.add_transactions()->add_sends()->set_queue("orders");
        v1::ApplyResponse response;
        const grpc::Status status = stub->Apply(&context, request, &response);
        if (!status.ok()) {
          // Lost, or refused: both may be repeated, and what was lost here was not done.
          EXPECT_TRUE(status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::CANCELLED)
              << status.error_message();
          return;
        }
        EXPECT_TRUE(response.results(0).has_receipt());
        ++done;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return done >= 50; }));
  const Finished stopped = server.stop();
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  for (std::thread& sender : senders)
    sender.join();
  server_.reset();
  const auto queue = json({"queue", "show", "orders"});
  EXPECT_EQ(count(queue.at("stats").as_object(), "accepted"), static_cast<std::uint64_t>(done));
  EXPECT_EQ(run({"check", store()}).exit, 0);
}

TEST_F(Serve, Patience_has_an_end) {
  ServerProcess& server = serve({"--patience", "300ms"});
  // A request whose body does not come.
  server::RawClient slow(server.http_port());
  slow.send(
      "POST /api/v1/queues/orders/pause HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
  ASSERT_TRUE(eventually([&] { return figure(server, "strand_http_connections") == 2; }));
  const Finished stopped = server.stop();
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("some were cut off"));
}

TEST_F(Serve, A_second_SIGTERM_ends_it_at_once) {
  ServerProcess& server = serve({"--patience", "1h"});
  server::RawClient slow(server.http_port());
  slow.send(
      "POST /api/v1/queues/orders/pause HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
  ASSERT_TRUE(eventually([&] { return figure(server, "strand_http_connections") == 2; }));
  server.process().signal(SIGTERM);
  server.log_until("server\\.draining");
  const auto began = steady_clock::now();
  const Finished stopped = server.stop();
  EXPECT_EQ(stopped.exit, 1) << stopped.err;
  EXPECT_LT(steady_clock::now() - began, 5s);
  EXPECT_THAT(stopped.err, HasSubstr("server.hurried"));
}

TEST_F(Serve, What_a_killed_server_answered_is_there_when_it_comes_back) {
  ServerProcess& server = serve();
  ok({"send", "orders", "a", "--key", "k"});
  server.process().signal(SIGKILL);
  EXPECT_EQ(server.process().wait().exit, 128 + SIGKILL);
  serve();
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a"));
}

// --- What it says of itself ---

// A service manager's end of NOTIFY_SOCKET.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(static_cast<char*>(address.sun_path), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  ~NotifySocket() { ::close(socket_); }

  // The next message; "" if none comes.
  [[nodiscard]] std::string next() const {
    pollfd polled{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, 10'000) <= 0) return {};
    std::array<char, 4096> text{};
    const ssize_t size = ::recv(socket_, text.data(), text.size(), 0);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  int socket_;
};

TEST_F(Serve, The_service_manager_hears_how_it_stands) {
  const NotifySocket manager(folder() + "/notify");
  ServerProcess& server = serve({}, {.environment = {{"NOTIFY_SOCKET", folder() + "/notify"}}});
  EXPECT_EQ(manager.next(), "READY=1");
  server.process().signal(SIGHUP);
  EXPECT_THAT(manager.next(), ContainsRegex("^RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  EXPECT_EQ(manager.next(), "READY=1");
  EXPECT_EQ(server.stop().exit, 0);
  EXPECT_EQ(manager.next(), "STOPPING=1");
}

TEST_F(Serve, JSON_logs_are_one_object_a_line_with_ids_of_requests) {
  ServerProcess& server = serve({"--log-format", "json", "--log-level", "debug"});
  {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", "from-a-client-1");
    v1::StatsResponse stats;
    v1::StatsRequest request;
    request.set_queue("nowhere\n\"}");
    EXPECT_FALSE(stub_for(server)->GetStats(&context, request, &stats).ok());
  }
  const auto answer = server::request(server.http_port(), "GET", "/api/v1/queues",
                                      {.fields = "X-Request-Id: from-a-browser-2\r\n"});
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.field("x-request-id"), "from-a-browser-2");
  // Garbage makes the libraries below say something, perhaps.
  server::RawClient(server.grpc_port()).send("GET / HTTP/1.1\r\n\r\n");
  const Finished stopped = server.stop();
  EXPECT_EQ(stopped.exit, 0);
  std::vector<std::string> ids;
  for (const auto& line : json_lines(stopped.err)) {
    for (const char* name : {"time", "level", "event", "message"})
      EXPECT_TRUE(line.contains(name)) << serialize(line);
    const std::string event = text(line, "event");
    if (event == "grpc.failed" || event == "http.request") ids.push_back(text(line, "request_id"));
  }
  EXPECT_THAT(ids, ElementsAre("from-a-client-1", "from-a-browser-2"));
}

}  // namespace
}  // namespace strand::e2e
