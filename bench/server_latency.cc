#include "server_latency.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "strand_contender.h"

namespace strand::bench {

namespace {

double percentile(std::vector<double>& values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * share)];
}

template <class What>
double ms_of(What what) {
  const auto begin = Steady::now();
  what();
  return seconds_since(begin) * 1e3;
}

}  // namespace

LatencyReport measure_latency(const std::string& url, double seconds) {
  const Folder folder;
  const int file = ::open((folder.path() + "/file").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const std::string record(200, 'x');
  const auto served = served_strand(url, true);
  const auto embedded = embedded_strand();
  served->begin_round();
  const auto remote = served->connect();
  embedded->begin_round();
  const auto local = embedded->connect();
  remote->send(1);
  local->send(1);
  std::vector<double> syncs;
  std::vector<double> sends;
  std::vector<double> locals;
  const auto begin = Steady::now();
  while (seconds_since(begin) < seconds) {
    syncs.push_back(ms_of([&] {
      if (::write(file, record.data(), record.size()) < 0 || ::fdatasync(file) != 0) std::exit(1);
    }));
    sends.push_back(ms_of([&] { remote->send(1); }));
    locals.push_back(ms_of([&] { local->send(1); }));
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  ::close(file);
  return {.sync_p50 = percentile(syncs, 0.5),
          .sync_p99 = percentile(syncs, 0.99),
          .send_p50 = percentile(sends, 0.5),
          .send_p99 = percentile(sends, 0.99),
          .embedded_p50 = percentile(locals, 0.5),
          .embedded_p99 = percentile(locals, 0.99)};
}

boost::json::object to_json(const LatencyReport& report) {
  return {{"fdatasync_p50", report.sync_p50},    {"fdatasync_p99", report.sync_p99},
          {"send_p50", report.send_p50},         {"send_p99", report.send_p99},
          {"embedded_p50", report.embedded_p50}, {"embedded_p99", report.embedded_p99}};
}

void print(const LatencyReport& report) {
  fmt::print("\none durable send at low load (ms)         p50      p99\n");
  const auto row = [&](const char* name, double p50, double p99) {
    fmt::print("  {:<34}{:>9.3f}{:>9.3f}  ({:.2f}, {:.2f} of a bare fdatasync)\n", name, p50, p99,
               p50 / report.sync_p50, p99 / report.sync_p99);
  };
  row("append and fdatasync", report.sync_p50, report.sync_p99);
  row("send, embedded", report.embedded_p50, report.embedded_p99);
  row("send, over the server", report.send_p50, report.send_p99);
}

}  // namespace strand::bench
