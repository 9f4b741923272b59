#include "server/store_metrics.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "store/figures.h"
#include "store/url.h"

namespace strand::server {

namespace {

using std::chrono::steady_clock;

struct Counted {
  std::string name;
  QueueStats stats;
};

void add_up(QueueStats& sum, const QueueStats& stats) {
  for (const auto member :
       {&QueueStats::accepted, &QueueStats::acked, &QueueStats::expired, &QueueStats::dropped,
        &QueueStats::moved, &QueueStats::purged, &QueueStats::dead, &QueueStats::ready,
        &QueueStats::delayed, &QueueStats::waiting, &QueueStats::leased, &QueueStats::parked,
        &QueueStats::backoff, &QueueStats::lanes_ready, &QueueStats::leases}) {
    sum.*member += stats.*member;
  }
  if (!stats.oldest_ready) return;
  sum.oldest_ready = std::min(sum.oldest_ready.value_or(*stats.oldest_ready), *stats.oldest_ready);
}

// A queue that is gone meanwhile is left out.
std::vector<Counted> count(Store& store, const std::vector<QueueInfo>& queues) {
  std::vector<Counted> counted;
  for (const QueueInfo& queue : queues) {
    if (auto stats = store.stats(queue.name)) counted.push_back({queue.name, *std::move(stats)});
  }
  return counted;
}

// The fullest keep their names. Of equally full ones those that come first by name, so that the
// choice stays the same from one look to the next.
std::vector<Counted> bounded(std::vector<Counted> all, std::size_t max) {
  static const std::string others_name = "(others)";
  const auto fuller = [](const Counted& a, const Counted& b) {
    // A queue may have that name itself; it is one of the others, then.
    if ((a.name == others_name) != (b.name == others_name)) return b.name == others_name;
    if (a.stats.live() != b.stats.live()) return a.stats.live() > b.stats.live();
    return a.name < b.name;
  };
  std::ranges::sort(all, fuller);
  if (all.size() <= max || STRAND_PLANTED("every-queue-has-metrics")) return all;
  Counted others{.name = others_name, .stats = {}};
  for (std::size_t i = max; i < all.size(); ++i)
    add_up(others.stats, all[i].stats);
  all.resize(max);
  all.push_back(std::move(others));
  return all;
}

using Labels = std::vector<std::pair<std::string, std::string>>;

void add(std::vector<Metric>& metrics, Metric::Kind kind, const char* name, const char* help,
         Labels labels, double value) {
  metrics.push_back({.name = name,
                     .help = help,
                     .kind = kind,
                     .labels = std::move(labels),
                     .value = value,
                     .distribution = {}});
}

void add_queue(std::vector<Metric>& metrics, const Counted& queue, Time now) {
  constexpr auto gauge = Metric::Kind::gauge;
  constexpr auto counter = Metric::Kind::counter;
  using Part = std::pair<const char*, std::uint64_t QueueStats::*>;
  static constexpr std::array<Part, 6> states = {{{"ready", &QueueStats::ready},
                                                  {"delayed", &QueueStats::delayed},
                                                  {"waiting", &QueueStats::waiting},
                                                  {"leased", &QueueStats::leased},
                                                  {"parked", &QueueStats::parked},
                                                  {"dead", &QueueStats::dead}}};
  static constexpr std::array<Part, 6> outcomes = {{{"accepted", &QueueStats::accepted},
                                                    {"acked", &QueueStats::acked},
                                                    {"expired", &QueueStats::expired},
                                                    {"dropped", &QueueStats::dropped},
                                                    {"moved", &QueueStats::moved},
                                                    {"purged", &QueueStats::purged}}};
  const QueueStats& stats = queue.stats;
  for (const auto& [state, member] : states) {
    add(metrics, gauge, "strand_queue_messages", "Messages of a queue, by where they are",
        {{"queue", queue.name}, {"state", state}}, static_cast<double>(stats.*member));
  }
  for (const auto& [outcome, member] : outcomes) {
    add(metrics, counter, "strand_queue_total", "Messages of a queue, by what became of them",
        {{"queue", queue.name}, {"outcome", outcome}}, static_cast<double>(stats.*member));
  }
  const Duration age = stats.oldest_ready ? now - *stats.oldest_ready : Duration{0};
  add(metrics, gauge, "strand_queue_oldest_ready_seconds",
      "How long the oldest ready message has waited; 0 if there is none", {{"queue", queue.name}},
      std::max(0.0, static_cast<double>(age.count()) / 1000));
  add(metrics, gauge, "strand_queue_leases", "Live leases", {{"queue", queue.name}},
      static_cast<double>(stats.leases));
  add(metrics, gauge, "strand_queue_lanes_ready", "Leases that could be had now",
      {{"queue", queue.name}}, static_cast<double>(stats.lanes_ready));
}

}  // namespace

StoreMetrics::StoreMetrics(Store& store, Options options)
    : store_(store), options_(std::move(options)) {
  using Scheme = store::Url::Scheme;
  const auto url = store::parse_url(options_.url);
  if (url && (url->scheme == Scheme::rocksdb || url->scheme == Scheme::sqlite)) place_ = url->rest;
}

std::vector<Metric> StoreMetrics::read() {
  if (due()) count_queues();
  std::vector<Metric> metrics = queues_;
  add_writes(metrics);
  add_disk(metrics);
  return metrics;
}

bool StoreMetrics::due() const {
  if (!counted_ || options_.interval == Duration{0}) return true;
  return steady_clock::now() - *counted_ >=
         std::max<steady_clock::duration>(options_.interval, took_ * 10);
}

void StoreMetrics::count_queues() {
  const auto began = steady_clock::now();
  // A store that cannot be asked keeps the figures that it had: `strand_store_up` tells it.
  const auto queues = store_.queues();
  if (queues) {
    queues_.clear();
    const auto all = count(store_, *queues);
    const std::size_t total = all.size();
    const Time now = store_.now();
    for (const Counted& queue : bounded(all, options_.queues_max))
      add_queue(queues_, queue, now);
    add(queues_, Metric::Kind::gauge, "strand_queues", "Queues of the store", {},
        static_cast<double>(total));
  } else {
    std::erase_if(queues_, [](const Metric& metric) { return metric.name == "strand_store_up"; });
  }
  add(queues_, Metric::Kind::gauge, "strand_store_up",
      "1 if the store has answered when it was last asked for its queues", {}, queues ? 1 : 0);
  counted_ = steady_clock::now();
  took_ = *counted_ - began;
}

void StoreMetrics::add_writes(std::vector<Metric>& metrics) const {
  const store::CommitFigures* figures = store::commit_figures(store_);
  if (figures == nullptr) return;
  const auto distribution = [&](const char* name, const char* help, Labels labels,
                                const store::LiveDistribution& values) {
    metrics.push_back({.name = name,
                       .help = help,
                       .kind = Metric::Kind::distribution,
                       .labels = std::move(labels),
                       .value = 0,
                       .distribution = values.read()});
  };
  static constexpr const char* seconds = "strand_commit_write_seconds";
  static constexpr const char* help = "Of one write of the store, its sync included";
  distribution(seconds, help, {{"durability", "sync"}}, figures->sync_seconds);
  distribution(seconds, help, {{"durability", "async"}}, figures->write_seconds);
  distribution("strand_commit_transactions", "Transactions that shared a write", {},
               figures->transactions);
  add(metrics, Metric::Kind::counter, "strand_commit_failures_total", "Writes that failed", {},
      static_cast<double>(figures->failures.load()));
  if (const std::int64_t free = figures->free_bytes.load(); free >= 0) {
    add(metrics, Metric::Kind::gauge, "strand_disk_free_bytes", "What the store's disk has left",
        {}, static_cast<double>(free));
  }
}

void StoreMetrics::add_disk(std::vector<Metric>& metrics) const {
  if (!place_) return;
  add(metrics, Metric::Kind::gauge, "strand_disk_used_bytes", "What the store's files take", {},
      static_cast<double>(bytes_on_disk(*place_)));
}

std::uint64_t bytes_on_disk(const std::filesystem::path& place) {
  namespace fs = std::filesystem;
  // Files come and go while they are counted: what cannot be looked at is not there.
  std::error_code gone;
  std::uint64_t sum = 0;
  const auto add_file = [&](const fs::path& file) {
    const auto bytes = fs::file_size(file, gone);
    if (!gone) sum += bytes;
  };
  if (!fs::is_directory(place, gone)) {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
      add_file(place.string() + suffix);
    return sum;
  }
  fs::recursive_directory_iterator entry(place, gone);
  for (; !gone && entry != fs::recursive_directory_iterator(); entry.increment(gone)) {
    std::error_code other;
    if (entry->is_regular_file(other)) add_file(entry->path());
    gone.clear();
  }
  return sum;
}

}  // namespace strand::server
