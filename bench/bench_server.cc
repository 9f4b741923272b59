// The server beside an embedded store, and beside other queues: all on this machine and on the disk
// of the current folder, all confirming after a sync. Contenders take turns, so that a busy machine
// slows all of them; figures are medians of the rounds.
//
//   ./dev bench server [--only singles,batches,cycle,latency,waiting] [--rounds N] [--seconds S]
//                      [--peers redis,postgres,rabbitmq,beanstalkd|all] [-o json]

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "contender.h"
#include "peers.h"
#include "server/quick_locks.h"
#include "server_latency.h"
#include "server_waiting.h"
#include "strand_contender.h"

namespace strand::bench {
namespace {

struct Options {
  std::set<std::string> only = {"singles", "batches", "cycle", "latency", "waiting"};
  std::vector<std::string> peers;
  int rounds = 5;
  double seconds = 2;
  std::size_t waiting = 10'000;
  std::size_t waiting_connections = 100;
  bool json = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');)
    words.push_back(word);
  return words;
}

[[noreturn]] void usage(const std::string& why) {
  fmt::print(
      stderr,
      "bench_server: {}\n"
      "usage: ./dev bench server [--only singles,batches,cycle,latency,waiting]\n"
      "         [--rounds N] [--seconds S] [--peers redis,postgres,rabbitmq,beanstalkd|all]\n"
      "         [--waiting CLIENTS] [--waiting-connections N] [-o json]\n",
      why);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) usage(fmt::format("{} needs a value, or is unknown", name));
    const std::string value = argv[++i];
    if (name == "--only") {
      const auto words = split(value);
      options.only = {words.begin(), words.end()};
    } else if (name == "--peers") {
      options.peers = value == "all" ? all_peers() : split(value);
    } else if (name == "--rounds") {
      options.rounds = std::stoi(value);
    } else if (name == "--seconds") {
      options.seconds = std::stod(value);
    } else if (name == "--waiting") {
      options.waiting = std::stoul(value);
    } else if (name == "--waiting-connections") {
      options.waiting_connections = std::stoul(value);
    } else if (name == "-o" && value == "json") {
      options.json = true;
    } else {
      usage(fmt::format("there is no option {}", name));
    }
  }
  for (const std::string& peer : options.peers)
    require_peer(peer);
  return options;
}

// What some clients are measured at.
struct Column {
  std::string name;
  std::string what;
  unsigned senders = 0;
  unsigned receivers = 0;
  std::size_t batch = 1;
};

const std::vector<Column> columns = {
    {"single", "1 client sends singly", 1, 0, 1},
    {"singles", "64 clients send singly", 64, 0, 1},
    {"batches", "4 clients send batches of 100", 4, 0, 100},
    {"cycle1", "cycle, 1 + 1 clients, batches of 100", 1, 1, 100},
    {"cycle", "cycle, 2 + 2 clients, batches of 100", 2, 2, 100},
};

// Messages in a second: sent, or, if there are receivers, received.
double measure(Contender& contender, const Column& column, double seconds) {
  contender.begin_round();
  std::vector<std::unique_ptr<QueueClient>> clients;
  for (unsigned i = 0; i < column.senders + column.receivers; ++i)
    clients.push_back(contender.connect());
  clients.front()->send(1);  // so that there is a queue
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> sent = 1;
  std::atomic<std::uint64_t> received = 0;
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < clients.size(); ++i) {
    QueueClient& client = *clients[i];
    threads.emplace_back([&, sends = i < column.senders] {
      while (!stop) {
        if (!sends) {
          received += client.receive(column.batch);
        } else if (column.receivers > 0 && sent > received + 50'000) {
          // A backlog would measure something else.
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        } else {
          client.send(column.batch);
          sent += column.batch;
        }
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return static_cast<double>(column.receivers > 0 ? received : sent) / took;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

bool wanted(const Options& options, const Column& column) {
  const std::string name = column.name == "single"   ? "singles"
                           : column.name == "cycle1" ? "cycle"
                                                     : column.name;
  return options.only.contains(name);
}

boost::json::object measure_throughput(const Options& options, const ServerProcess& server) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(served_strand(server.url(), false));
  contenders.push_back(served_strand(server.url(), true));
  contenders.push_back(embedded_strand());
  for (const std::string& peer : options.peers)
    contenders.push_back(make_peer(peer));
  std::map<std::string, std::map<std::string, std::vector<double>>> rates;
  for (int round = 0; round < options.rounds; ++round) {
    for (const Column& column : columns) {
      if (!wanted(options, column)) continue;
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        // Another one begins each round: a disk may be quicker after a rest.
        const auto& contender =
            contenders[(i + static_cast<std::size_t>(round)) % contenders.size()];
        fmt::print(stderr, "\rround {} of {}: {}, {}\x1b[K", round + 1, options.rounds,
                   contender->name(), column.what);
        rates[contender->name()][column.name].push_back(
            measure(*contender, column, options.seconds));
      }
    }
  }
  fmt::print(stderr, "\r\x1b[K");
  boost::json::object all;
  for (const auto& contender : contenders) {
    boost::json::object one;
    for (const Column& column : columns) {
      if (wanted(options, column)) one[column.name] = median(rates[contender->name()][column.name]);
    }
    all[contender->name()] = one;
  }
  return all;
}

void print_throughput(const boost::json::object& all) {
  for (const Column& column : columns) {
    bool first = true;
    double strand = 0;
    for (const auto& [name, rates] : all) {
      const auto* rate = rates.as_object().if_contains(column.name);
      if (rate == nullptr) continue;
      if (first) fmt::print("\n{} (messages/s)\n", column.what);
      if (first) strand = rate->as_double();
      fmt::print("  {:<22}{:>10.0f}{:>8.2f}\n", std::string_view(name), rate->as_double(),
                 rate->as_double() / strand);
      first = false;
    }
  }
}

int run(const Options& options) {
  const ServerProcess server;
  boost::json::object report;
  if (std::ranges::any_of(columns, [&](const Column& c) { return wanted(options, c); })) {
    report["messages_per_s"] = measure_throughput(options, server);
    if (!options.json) print_throughput(report["messages_per_s"].as_object());
  }
  if (options.only.contains("latency")) {
    const LatencyReport latency = measure_latency(server.url(), options.seconds * options.rounds);
    report["latency_ms"] = to_json(latency);
    if (!options.json) print(latency);
  }
  if (options.only.contains("waiting")) {
    const WaitingReport waiting = measure_waiting(options.waiting, options.waiting_connections);
    report["waiting"] = to_json(waiting);
    if (!options.json) print(waiting);
  }
  if (options.json) fmt::print("{}\n", boost::json::serialize(report));
  return 0;
}

}  // namespace
}  // namespace strand::bench

int main(int argc, char** argv) {
  strand::server::use_quick_locks();
  return strand::bench::run(strand::bench::parse(argc, argv));
}
