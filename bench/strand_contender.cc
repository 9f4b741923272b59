#include "strand_contender.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "figures.h"

namespace strand::bench {

namespace {

class StrandClient final : public QueueClient {
 public:
  StrandClient(std::shared_ptr<Store> store, std::string queue)
      : store_(std::move(store)),
        queue_(std::move(queue)),
        random_(std::random_device{}()),
        body_(body_bytes, 'x') {}

  void send(std::size_t count) override {
    Transaction transaction;
    transaction.sends.resize(count);
    for (Send& send : transaction.sends) {
      send.queue = queue_;
      send.body = body_;
      send.key = fmt::format("key-{:08}", random_() % 10'000);
    }
    value("sending", store_->apply(transaction));
  }

  std::size_t receive(std::size_t count) override {
    LeaseRequest request;
    request.queue = queue_;
    request.lanes = static_cast<std::uint32_t>(count);
    request.messages = static_cast<std::uint32_t>(count);
    auto leases = store_->lease(request);
    if (!leases && leases.error().code != Errc::not_found) give_up("leasing", leases.error());
    if (!leases || leases->empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return 0;
    }
    Transaction transaction;
    std::size_t got = 0;
    for (const Lease& lease : *leases) {
      Settle settle;
      settle.token = lease.token;
      for (const Message& message : lease.messages)
        settle.outcomes.push_back({.id = message.id});
      got += lease.messages.size();
      transaction.settles.push_back(std::move(settle));
    }
    value("settling", store_->apply(transaction));
    return got;
  }

 private:
  std::shared_ptr<Store> store_;
  std::string queue_;
  std::minstd_rand random_;
  std::string body_;
};

class Strand final : public Contender {
 public:
  Strand(std::string name, std::string url, bool one_handle, std::unique_ptr<Folder> folder)
      : name_(std::move(name)),
        url_(std::move(url)),
        one_handle_(one_handle),
        folder_(std::move(folder)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  void begin_round() override {
    static std::atomic<int> rounds = 0;
    queue_ = fmt::format("bench-{}", ++rounds);
  }
  [[nodiscard]] std::unique_ptr<QueueClient> connect() override {
    if (!one_handle_) return std::make_unique<StrandClient>(opened(), queue_);
    if (!shared_) shared_ = opened();
    return std::make_unique<StrandClient>(shared_, queue_);
  }

 private:
  [[nodiscard]] std::shared_ptr<Store> opened() const { return value("opening", open(url_)); }

  std::string name_;
  std::string url_;
  bool one_handle_;
  std::unique_ptr<Folder> folder_;  // of a store in this process
  std::string queue_;
  std::shared_ptr<Store> shared_;
};

}  // namespace

ServerProcess::ServerProcess()
    : port_(free_port()),
      child_(
          {STRAND_BINARY_DIR "/strand", "serve", "--store", "rocksdb:" + folder_.path() + "/store",
           "--http", "", "--grpc", fmt::format("127.0.0.1:{}", port_)},
          folder_.path() + "/log") {
  child_.wait_until([&] { return child_.output().find("server.ready") != std::string::npos; },
                    "strand serve");
}

std::string ServerProcess::url() const { return fmt::format("strand://127.0.0.1:{}", port_); }

std::unique_ptr<Contender> served_strand(std::string url, bool one_handle) {
  return std::make_unique<Strand>(one_handle ? "Strand, one handle" : "Strand", std::move(url),
                                  one_handle, nullptr);
}

std::unique_ptr<Contender> embedded_strand() {
  auto folder = std::make_unique<Folder>();
  std::string url = "rocksdb:" + folder->path() + "/store";
  return std::make_unique<Strand>("Strand, embedded", std::move(url), true, std::move(folder));
}

}  // namespace strand::bench
