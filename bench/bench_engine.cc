// What the core costs without a disk: the engine alone, leases against a growing backlog through
// LocalStore, a hot key beside others, and memory for a million waiting messages.
//
//   ./dev bench engine [-o json] [--only engine|backlog|hot|memory]
//
// Ratios of one run are what counts; absolute figures depend on the machine.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/strand.h>

#include "figures.h"
#include "store/engine/engine.h"

namespace {

using namespace strand;
using namespace strand::bench;

constexpr std::size_t body_bytes = 100;

// Time that this thread had a core. The engine neither waits nor shares, so this is what it costs
// whatever else the machine does.
double core_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + (static_cast<double>(time.tv_nsec) * 1e-9);
}

double resident_mb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmRSS:") continue;
    double kb = 0;
    status >> kb;
    return kb / 1024;
  }
  return 0;
}

// An archive with nothing in it: what the engine costs when nobody writes.
class NoArchive final : public engine::Archive {
 public:
  Result<std::optional<std::string>> get(engine::Family, std::string_view) const override {
    return std::nullopt;
  }
  Result<void> scan(engine::Family, std::string_view, std::string_view,
                    const Visit&) const override {
    return {};
  }
};

Send message(std::string queue, std::optional<std::string> key) {
  Send send;
  send.queue = std::move(queue);
  send.key = std::move(key);
  send.body = std::string(body_bytes, 'x');
  return send;
}

// --- The engine alone ---

struct EngineFigures {
  double operations_per_s = 0;
};

EngineFigures engine_alone(std::size_t keys) {
  NoArchive archive;
  engine::Engine engine(Limits{}, archive);
  const Time start{std::chrono::hours{24 * 365 * 56}};
  if (auto loaded = engine.load(start, {.store = 1, .secret = {2, 3}}, 0, engine::Loading::open);
      !loaded) {
    give_up("load", loaded.error());
  }
  std::vector<std::size_t> order(keys);
  for (std::size_t i = 0; i < keys; ++i)
    order[i] = i;
  std::ranges::shuffle(order, std::mt19937_64(1));
  // Prepared beforehand: the client's work is not the engine's.
  std::vector<Transaction> sends(keys);
  for (std::size_t i = 0; i < keys; ++i) {
    sends[i].sends.push_back(message("orders", fmt::format("customer-{}", order[i])));
  }
  LeaseRequest request;
  request.queue = "orders";
  std::uint64_t operations = 0;
  const auto flush = [&] {
    if (++operations % 100 == 0) engine.written(engine.take().commit);
  };
  const double began = core_seconds();
  for (int round = 0; round < 5; ++round) {
    for (const Transaction& send : sends) {
      value("send", engine.apply(send, start));
      flush();
    }
    for (std::size_t i = 0; i < keys; ++i) {
      const auto grants = value("lease", engine.lease(request, start));
      flush();
      Transaction ack;
      Settle settle;
      settle.token = grants.at(0).token;
      settle.outcomes.push_back({.id = grants[0].messages.at(0).id, .delay = {}, .reason = {}});
      ack.settles.push_back(std::move(settle));
      value("ack", engine.apply(ack, start));
      flush();
    }
  }
  return {.operations_per_s = static_cast<double>(operations) / (core_seconds() - began)};
}

// --- Through LocalStore ---

std::unique_ptr<Store> fresh_store() { return value("open", open("memory:")); }

void fill(Store& store, std::size_t messages, const std::function<Send(std::size_t)>& make) {
  constexpr std::size_t batch = 1000;
  for (std::size_t done = 0; done < messages;) {
    Transaction transaction;
    for (std::size_t i = 0; i < batch && done < messages; ++i) {
      transaction.sends.push_back(make(done++));
    }
    value("send", store.apply(transaction));
  }
}

// Leases one lane with up to ten messages, many times, and gives each back, so that the backlog
// stays. Adds the time of each lease, in microseconds, to `times`, but for leases of `not_counted`.
void lease_and_release(Store& store, std::string_view not_counted, int leases,
                       std::vector<double>& times) {
  LeaseRequest request;
  request.queue = "orders";
  request.messages = 10;
  for (int i = 0; i < leases; ++i) {
    const auto began = Steady::now();
    const auto leased = value("lease", store.lease(request));
    const double took = seconds_since(began);
    if (leased.at(0).key != not_counted) times.push_back(took * 1e6);
    Transaction end;
    Settle settle;
    settle.token = leased.at(0).token;
    end.settles.push_back(std::move(settle));
    value("release", store.apply(end));
  }
}

struct Comparison {
  double small_us = 0;
  double large_us = 0;
  double ratio = 0;
};

// Both stores take turns, so that whatever else the machine does weighs on both alike.
Comparison compare(Store& small, Store& large, std::string_view not_counted) {
  std::vector<double> small_times;
  std::vector<double> large_times;
  for (int round = 0; round < 100; ++round) {
    lease_and_release(small, not_counted, 200, small_times);
    lease_and_release(large, not_counted, 200, large_times);
  }
  Comparison result{.small_us = median(small_times), .large_us = median(large_times)};
  result.ratio = result.large_us / result.small_us;
  return result;
}

std::unique_ptr<Store> store_with_backlog(std::size_t messages) {
  auto store = fresh_store();
  const std::size_t keys = messages / 10;
  fill(*store, messages,
       [&](std::size_t i) { return message("orders", fmt::format("customer-{}", i % keys)); });
  return store;
}

Comparison backlog() {
  const auto small = store_with_backlog(10'000);
  const auto large = store_with_backlog(1'000'000);
  return compare(*small, *large, "");
}

Comparison hot_key() {
  const auto without = store_with_backlog(10'000);
  const auto with = store_with_backlog(10'000);
  fill(*with, 1'000'000, [](std::size_t) { return message("orders", "hot"); });
  return compare(*without, *with, "hot");
}

// --- Memory, each case in a process of its own ---

double memory_mb(bool keyed) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const double before = resident_mb();
    const auto store = fresh_store();
    fill(*store, 1'000'000, [&](std::size_t i) {
      return message("orders",
                     keyed ? std::optional(fmt::format("customer-{}", i % 100'000)) : std::nullopt);
    });
    const double used = resident_mb() - before;
    const bool told = write(pipe_ends[1], &used, sizeof used) == sizeof used;
    _exit(told ? 0 : 1);
  }
  double used = 0;
  const bool heard = read(pipe_ends[0], &used, sizeof used) == sizeof used;
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  if (!heard) std::abort();
  return used;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments =
      Arguments::parse(argc, argv, {}, "bench_engine [-o json] [--only engine|backlog|hot|memory]");
  const auto wanted = [&](std::string_view part) { return arguments.wants(part); };
  Figures figures(arguments.json);
  const auto report = [&](std::string_view key, double figure, std::string_view text) {
    figures.report(key, figure, text);
  };
  // Memory first: a process that has used memory before gives some of it to its children.
  if (wanted("memory")) {
    report("memory_keyed_mb", memory_mb(true), "1,000,000 waiting over 100,000 keys, MB (<= 400)");
    report("memory_unkeyed_mb", memory_mb(false), "1,000,000 waiting without key, MB (<= 400)");
  }
  if (wanted("engine")) {
    report("engine_operations_per_s", engine_alone(100'000).operations_per_s,
           "engine alone, 100,000 keys, operations/core s (>= 500,000)");
  }
  if (wanted("backlog")) {
    const Comparison result = backlog();
    report("lease_us_10k", result.small_us, "lease with 10,000 waiting, us");
    report("lease_us_1m", result.large_us, "lease with 1,000,000 waiting, us");
    report("lease_backlog_ratio", result.ratio, "ratio (<= 2)");
  }
  if (wanted("hot")) {
    const Comparison result = hot_key();
    report("lease_us_no_hot_key", result.small_us, "lease of others without a hot key, us");
    report("lease_us_hot_key", result.large_us, "lease beside a key with 1,000,000, us");
    report("lease_hot_key_ratio", result.ratio, "ratio (<= 1.2)");
  }
  figures.finish();
  return 0;
}
