// What a store does besides the calls, and whether calls feel it: a million messages that expire
// while somebody sends, and a publication among many subscriptions that it does not concern.
//
//   ./dev bench upkeep [-o json] [--only sweep|publish] [--store URL] [--messages N]
//
// The sweep is on RocksDB in a fresh folder if no URL is given; the publications are on memory:.
// Ratios of one run are what counts; absolute figures depend on the machine.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <strand/strand.h>

#include "figures.h"

namespace {

using namespace strand;
using namespace strand::bench;

constexpr std::size_t body_bytes = 100;
constexpr std::size_t batch = 100;

// The clock of the system, which can be told to skip an hour.
class SkippingClock final : public Clock {
 public:
  [[nodiscard]] Time wall() const override { return system_->wall() + skipped_.load(); }
  [[nodiscard]] Duration monotonic() const override {
    return system_->monotonic() + skipped_.load();
  }
  void skip(Duration duration) { skipped_ = skipped_.load() + duration; }

 private:
  std::shared_ptr<Clock> system_ = system_clock();
  std::atomic<Duration> skipped_ = Duration{0};
};

class FreshFolder {
 public:
  FreshFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "strand-bench-XXXXXX").native();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~FreshFolder() { std::filesystem::remove_all(path_); }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// --- The sweep ---

// As many a millisecond as a batch has: they expire as a fast producer sent them.
void fill(Store& store, std::size_t messages) {
  const Duration first = std::chrono::minutes{30};
  const Time began = store.now();
  for (std::size_t done = 0; done < messages; done += batch) {
    Transaction transaction;
    transaction.durability = Durability::async;
    const Time expires_at = began + first + Duration{static_cast<std::int64_t>(done / batch)};
    for (std::size_t i = 0; i < batch; ++i) {
      Send& send = transaction.sends.emplace_back();
      send.queue = "short-lived";
      send.body = std::string(body_bytes, 'x');
      send.ttl = expires_at - store.now();
    }
    value("fill", store.apply(transaction));
  }
}

// Sends batches, each synced, until told to stop. Returns messages a second.
double send_until(Store& store, const std::atomic<bool>& stop, double& longest_ms) {
  Transaction transaction;
  for (std::size_t i = 0; i < batch; ++i) {
    Send& send = transaction.sends.emplace_back();
    send.queue = "orders";
    send.body = std::string(body_bytes, 'x');
  }
  const auto began = Steady::now();
  std::size_t sent = 0;
  longest_ms = 0;
  while (!stop) {
    const auto call = Steady::now();
    value("send", store.apply(transaction));
    longest_ms = std::max(longest_ms, seconds_since(call) * 1000);
    sent += batch;
  }
  return static_cast<double>(sent) / seconds_since(began);
}

struct Sweep {
  double seconds = 0;
  double before_per_s = 0;
  double during_per_s = 0;
  double after_per_s = 0;
  double longest_before_ms = 0;
  double longest_during_ms = 0;
};

Sweep sweep(Store& store, SkippingClock& clock, std::size_t messages) {
  fill(store, messages);
  Sweep result;
  const auto for_a_while = [&](double& longest_ms) {
    std::atomic<bool> stop = false;
    const std::jthread timer([&] {
      std::this_thread::sleep_for(std::chrono::seconds{4});
      stop = true;
    });
    return send_until(store, stop, longest_ms);
  };
  result.before_per_s = for_a_while(result.longest_before_ms);

  const auto began = Steady::now();
  std::atomic<bool> done = false;
  clock.skip(std::chrono::hours{1});
  const std::jthread onlooker([&] {
    while (value("stats", store.stats("short-lived")).expired < messages)
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    result.seconds = seconds_since(began);
    done = true;
  });
  result.during_per_s = send_until(store, done, result.longest_during_ms);
  double ignored = 0;
  result.after_per_s = for_a_while(ignored);
  return result;
}

// --- Publications ---

constexpr std::string_view topic = "orders.eu.created";

std::unique_ptr<Store> store_with_subscriptions(std::size_t others) {
  auto store = value("open", open("memory:"));
  const auto subscribe = [&](std::string queue, std::string pattern) {
    Transaction transaction;
    transaction.admin = Subscribe{.queue = std::move(queue), .pattern = std::move(pattern)};
    value("subscribe", store->apply(transaction));
  };
  const std::vector<std::string> matching = {"orders.eu.created", "orders.*.created", "orders.#",
                                             "*.eu.*", "#"};
  for (std::size_t i = 0; i < 10; ++i)
    subscribe(fmt::format("wants-{}", i), matching[i % matching.size()]);
  // Those that begin alike, or with a wildcard, are the ones that a search could stumble over.
  for (std::size_t i = 0; i < others; ++i) {
    const std::vector<std::string> patterns = {
        fmt::format("orders.eu.kind-{}", i), fmt::format("*.eu.kind-{}", i),
        fmt::format("orders.*.kind-{}", i), fmt::format("topic-{}.#", i)};
    subscribe(fmt::format("other-{}", i), patterns[i % patterns.size()]);
  }
  return store;
}

double publish(Store& store, std::size_t count) {
  Transaction transaction;
  Publish& publish = transaction.publishes.emplace_back();
  publish.topic = std::string(topic);
  publish.body = std::string(body_bytes, 'x');
  const auto began = Steady::now();
  for (std::size_t i = 0; i < count; ++i) {
    const Receipt receipt = value("publish", store.apply(transaction));
    if (receipt.published.at(0).matched != 10) std::abort();
  }
  return seconds_since(began) * 1e6 / static_cast<double>(count);
}

struct Publications {
  double few_us = 0;
  double many_us = 0;
};

// Both stores take turns, so that whatever else the machine does weighs on both alike.
Publications publications() {
  const auto few = store_with_subscriptions(0);
  const auto many = store_with_subscriptions(9990);
  std::vector<double> few_us;
  std::vector<double> many_us;
  for (int round = 0; round < 51; ++round) {
    few_us.push_back(publish(*few, 200));
    many_us.push_back(publish(*many, 200));
  }
  return {.few_us = median(few_us), .many_us = median(many_us)};
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = Arguments::parse(argc, argv, {"--store", "--messages"},
                                          "bench_upkeep [-o json] [--only sweep|publish] "
                                          "[--store URL] [--messages N]");
  Figures figures(arguments.json);
  if (arguments.wants("sweep")) {
    const std::size_t messages =
        std::strtoull(arguments.get("--messages", "1000000").c_str(), nullptr, 10) / batch * batch;
    const FreshFolder folder;
    const auto clock = std::make_shared<SkippingClock>();
    const std::string url =
        arguments.get("--store", "rocksdb:" + (folder.path() / "store").native());
    OpenOptions settings;
    settings.clock = clock;
    const auto store = value("open", open(url, settings));
    const Sweep result = sweep(*store, *clock, messages);
    figures.report("sweep_s", result.seconds,
                   fmt::format("{} messages expired, s (1,000,000: <= 60)", messages));
    figures.report("sends_before_per_s", result.before_per_s, "sends a second before it");
    figures.report("sends_during_per_s", result.during_per_s, "… during it");
    figures.report("sends_after_per_s", result.after_per_s, "… after it");
    figures.report("longest_before_ms", result.longest_before_ms,
                   "the longest send of a batch before it, ms");
    figures.report("longest_during_ms", result.longest_during_ms, "… during it");
    figures.report("sends_ratio", result.during_per_s / result.before_per_s,
                   "sends during it to those before it (>= 0.5)");
  }
  if (arguments.wants("publish")) {
    const Publications result = publications();
    figures.report("publish_us_10", result.few_us, "publish to 10 of 10 subscriptions, us");
    figures.report("publish_us_10k", result.many_us, "publish to 10 of 10,000 subscriptions, us");
    figures.report("publish_ratio", result.many_us / result.few_us, "ratio (<= 3)");
  }
  figures.finish();
  return 0;
}
