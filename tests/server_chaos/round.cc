#include "server_chaos/round.h"

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "store/remote/remote_store.h"
#include "threads/recorded_client.h"

namespace strand::server_chaos {

using namespace std::chrono_literals;

namespace {

constexpr auto progress_within = 30s;
constexpr Duration long_patience = 60s;
constexpr Duration short_patience = 80ms;

std::filesystem::path new_folder() {
  std::string name = std::filesystem::temp_directory_path() / "strand-chaos-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  return name;
}

// Attempts are not limited, because leases that nobody was shown charge them too.
void configure(Store& store) {
  for (const char* queue : pipeline) {
    Transaction transaction;
    transaction.admin =
        ConfigureQueue{.queue = queue, .settings = {.max_attempts = 0, .backoff = {}}};
    store.apply(transaction).value();
  }
}

}  // namespace

Round::Round(const Mix& mix, std::uint64_t seed)
    : mix_(mix),
      random_(seed),
      folder_(new_folder()),
      server_(folder_),
      proxy_(server_.port(), random_.next(), mix.faults) {
  configure(*connect(server_.port(), long_patience));
  start_clients();
}

Round::~Round() {
  for (const auto& worker : workers_)
    worker->thread.request_stop();
  workers_.clear();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// The first call of a handle is not repeated when it is lost.
std::shared_ptr<Store> Round::connect(std::uint16_t port, Duration patience) const {
  remote::Location location;
  location.host = "127.0.0.1";
  location.port = port;
  for (const auto until = std::chrono::steady_clock::now() + progress_within;;) {
    auto store = remote::RemoteStore::open(location, {.connect = 1s, .call = patience});
    if (store) return *std::move(store);
    if (std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("cannot connect: " + store.error().message);
    }
  }
}

void Round::hire(const std::string& name, Manner manner, bool producer,
                 std::shared_ptr<Store> handle) {
  auto worker = std::make_unique<Worker>();
  worker->handle = std::move(handle);
  worker->client =
      std::make_unique<Client>(*worker->handle, name, manner, random_.next(), confirmed_);
  worker->options.seed = random_.next();
  worker->options.forgotten_permille = mix_.forgotten_permille;
  if (manner == Manner::doubting) {
    worker->options.reopen = [this] { return connect(proxy_.port(), short_patience); };
  }
  worker->producer = producer;
  workers_.push_back(std::move(worker));
}

void Round::start_clients() {
  const auto trusted = connect(proxy_.port(), long_patience);  // by several threads
  const auto repeated = connect(proxy_.port(), short_patience);
  hire("alice", Manner::trusting, true, trusted);
  hire("bob", Manner::trusting, true, trusted);
  hire("carol", Manner::repeating, true, repeated);
  hire("dora", Manner::doubting, true, connect(proxy_.port(), short_patience));
  hire("tom", Manner::trusting, false, trusted);
  hire("ugo", Manner::trusting, false, connect(proxy_.port(), long_patience));
  hire("vera", Manner::repeating, false, repeated);
  hire("will", Manner::repeating, false, connect(proxy_.port(), short_patience));
  hire("xenia", Manner::doubting, false, connect(proxy_.port(), short_patience));
  for (const auto& worker : workers_) {
    worker->thread = std::jthread([&one = *worker](const std::stop_token& stop) {
      if (one.producer) {
        produce(*one.client, one.options, stop);
      } else {
        consume(*one.client, one.options, stop);
      }
    });
  }
}

void Round::befall(char what) {
  switch (what) {
    case 'k':
      server_.kill();
      ++outcome_.kills;
      break;
    case 'd':
      server_.drain();
      ++outcome_.drains;
      break;
    case 'p':
      server_.pause(lease_length + Duration{random_.between(20, 200)});
      ++outcome_.pauses;
      return;
    default:
      throw std::logic_error("nothing is called so");
  }
  server_.start();
  proxy_.set_server(server_.port());
}

// Whatever has happened, the clients go on.
void Round::wait_for_progress(std::uint64_t confirmations) const {
  const std::uint64_t wanted = confirmed_ + confirmations;
  std::uint64_t seen = confirmed_;
  for (auto until = std::chrono::steady_clock::now() + progress_within; seen < wanted;) {
    std::this_thread::sleep_for(1ms);
    const std::uint64_t now = confirmed_;
    if (now > seen) until = std::chrono::steady_clock::now() + progress_within;
    seen = now;
    if (std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("nothing is confirmed to any client any more");
    }
  }
}

void Round::stop_clients() {
  for (const auto& worker : workers_)
    worker->thread.request_stop();
  for (const auto& worker : workers_)
    worker->thread.join();
  for (const auto& worker : workers_)
    records_.push_back(worker->client->take_record());
  workers_.clear();
}

// What clients have given up may still be on its way: the server ends once more, and so does that.
void Round::finish() {
  stop_clients();
  befall('k');
  const auto handle = connect(server_.port(), long_patience);
  Client last(*handle, "the last one", Manner::trusting, random_.next(), confirmed_);
  drain(last);
  records_.push_back(last.take_record());
  std::vector<model::Remains> remains;
  for (const char* queue : pipeline) {
    remains.push_back(remains_of(*handle, queue));
    outcome_.left += remains.back().left.size();
  }
  judge(records_, remains);
  server_.drain();
  if (const std::string complaint = server_.check(); !complaint.empty()) {
    throw std::runtime_error("strand check: " + complaint);
  }
}

RoundOutcome Round::run(std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    for (const char what : mix_.befalls) {
      wait_for_progress(60);
      std::this_thread::sleep_for(Duration{random_.between(0, 150)});
      befall(what);
    }
  }
  wait_for_progress(200);
  finish();
  for (const ClientRecord& record : records_)
    outcome_.totals += record.totals;
  outcome_.faults = proxy_.faults();
  return outcome_;
}

}  // namespace strand::server_chaos
