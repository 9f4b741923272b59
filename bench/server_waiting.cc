#include "server_waiting.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include "figures.h"
#include "proto/strand/v1/store.grpc.pb.h"
#include "strand_contender.h"

namespace strand::bench {

namespace {

namespace v1 = ::strand::v1;

// All clients, and who was woken last.
class Crowd {
 public:
  Crowd(int port, std::size_t clients, std::size_t connections) {
    for (std::size_t i = 0; i < connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      arguments.SetInt("strand.bench.channel", static_cast<int>(i));
      stubs_.push_back(v1::Store::NewStub(grpc::CreateCustomChannel(
          fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials(), arguments)));
    }
    waiting_.resize(clients);
  }

  // Each waits at queue(its number).
  template <class QueueOf>
  void wait(QueueOf queue_of) {
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      begin(i, queue_of(i));
  }
  void begin(std::size_t client, const std::string& queue) {
    auto call = std::make_shared<Call>();
    call->request.set_queue(queue);
    call->request.set_wait_ms(300'000);
    waiting_[client] = call;
    {
      const std::lock_guard lock(mutex_);
      ++begun_;
    }
    stubs_[client % stubs_.size()]->async()->Lease(
        &call->context, &call->request, &call->response,
        [this, client, call](const grpc::Status& status) {
          const std::lock_guard lock(mutex_);
          if (status.ok() && call->response.leases_size() > 0) {
            woken_ = client;
            lease_.Swap(call->response.mutable_leases(0));
            at_ = Steady::now();
          }
          ++ended_;
          changed_.notify_all();
        });
  }
  // Until somebody was woken.
  std::size_t woken(Steady::time_point& at, v1::Lease& lease) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return woken_ != nobody; })) {
      fmt::print(stderr, "bench: nobody was woken within 30 s\n");
      std::exit(1);
    }
    at = at_;
    lease.Swap(&lease_);
    return std::exchange(woken_, nobody);
  }
  void leave() {
    for (const auto& call : waiting_)
      call->context.TryCancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == begun_; });
  }

 private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  struct Call {
    grpc::ClientContext context;
    v1::LeaseRequest request;
    v1::LeaseResponse response;
  };

  std::vector<std::unique_ptr<v1::Store::Stub>> stubs_;
  std::vector<std::shared_ptr<Call>> waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t woken_ = nobody;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  v1::Lease lease_;
  Steady::time_point at_;
};

struct Wakes {
  double p50 = 0;
  double p99 = 0;
};

double percentile(std::vector<double>& values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * share)];
}

// Sends to one client after the other, and sees how soon it has its message.
template <class QueueOf>
Wakes measure_wakes(Store& store, Crowd& crowd, std::size_t clients, QueueOf queue_of,
                    bool own_queues) {
  constexpr int wakes = 500;
  std::minstd_rand random(1);
  std::vector<double> ms;
  for (int i = 0; i < wakes; ++i) {
    const std::size_t client = random() % clients;
    Transaction transaction;
    Send send;
    send.queue = queue_of(client);
    send.key = "k" + std::to_string(i);
    send.body.assign(body_bytes, 'x');
    transaction.sends.push_back(send);
    const auto begin = Steady::now();
    value("sending", store.apply(transaction));
    Steady::time_point at;
    v1::Lease lease;
    const std::size_t who = crowd.woken(at, lease);
    ms.push_back(std::chrono::duration<double>(at - begin).count() * 1e3);
    if (own_queues && who != client) {
      fmt::print(stderr, "bench: client {} was woken instead of {}\n", who, client);
      std::exit(1);
    }
    Transaction done;
    Settle settle;
    settle.token = value("the token", Token::parse(lease.token()));
    settle.outcomes.push_back({.id = MessageId{lease.messages(0).id()}});
    done.settles.push_back(settle);
    value("settling", store.apply(done));
    crowd.begin(who, queue_of(who));
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return {.p50 = percentile(ms, 0.5), .p99 = percentile(ms, 0.99)};
}

}  // namespace

WaitingReport measure_waiting(std::size_t clients, std::size_t connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const ServerProcess server;
  const auto store = value("opening", open(server.url()));
  WaitingReport report{.clients = clients, .connections = connections};
  report.server_mb_idle = rss_mb(server.pid());
  {
    const auto queue_of = [](std::size_t client) { return fmt::format("own-{}", client); };
    Crowd crowd(server.port(), clients, connections);
    crowd.wait(queue_of);
    std::this_thread::sleep_for(std::chrono::seconds{2});
    report.server_mb = rss_mb(server.pid());
    const Wakes wakes = measure_wakes(*store, crowd, clients, queue_of, true);
    report.wake_p50 = wakes.p50;
    report.wake_p99 = wakes.p99;
    report.server_mb = std::max(report.server_mb, rss_mb(server.pid()));
    crowd.leave();
  }
  {
    const auto queue_of = [](std::size_t) { return std::string("same"); };
    Crowd crowd(server.port(), clients, connections);
    crowd.wait(queue_of);
    std::this_thread::sleep_for(std::chrono::seconds{2});
    const Wakes wakes = measure_wakes(*store, crowd, clients, queue_of, false);
    report.same_queue_p50 = wakes.p50;
    report.same_queue_p99 = wakes.p99;
    report.server_mb = std::max(report.server_mb, rss_mb(server.pid()));
    crowd.leave();
  }
  return report;
}

boost::json::object to_json(const WaitingReport& report) {
  return {{"clients", report.clients},
          {"connections", report.connections},
          {"server_mb", report.server_mb},
          {"server_mb_idle", report.server_mb_idle},
          {"wake_p50_ms", report.wake_p50},
          {"wake_p99_ms", report.wake_p99},
          {"same_queue_p50_ms", report.same_queue_p50},
          {"same_queue_p99_ms", report.same_queue_p99}};
}

void print(const WaitingReport& report) {
  fmt::print("\n{} waiting clients on {} connections\n", report.clients, report.connections);
  fmt::print("  memory of the server (MB)   {:.0f} ({:.0f} with none)\n", report.server_mb,
             report.server_mb_idle);
  fmt::print("  send to answer (ms)         p50 {:.2f}, p99 {:.2f} (a queue each)\n",
             report.wake_p50, report.wake_p99);
  fmt::print("                              p50 {:.2f}, p99 {:.2f} (all at one queue)\n",
             report.same_queue_p50, report.same_queue_p99);
}

}  // namespace strand::bench
