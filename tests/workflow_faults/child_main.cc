// A worker process of many that share a store in PostgreSQL.
//
//   strand-workflow-child URL OWNER STRATEGY IDLE_TIMEOUT TURN_LEASE [HALT_WORD]
//
// Runs instances of `collecting`, keeps them in memory, and replays each of its turns as well. Says
// "ready"; answers a line on standard input with "HITS MISSES LOST EVICTED", and ends with its
// input. When an instance gets HALT_WORD, the process says "halted PID" in the middle of that turn,
// and stops until somebody continues it (SIGCONT); once. Such a process replays nothing that is in
// memory: it would find out by that, and not come to its commit.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <strand/workflow_worker.h>

#include "workflow_faults/collecting.h"

namespace strand::workflow_faults {
namespace {

double counted(const WorkflowWorker& worker, const std::string& name, const std::string& label) {
  for (const Metric& metric : worker.metrics()) {
    if (metric.name != name) continue;
    if (label.empty() || metric.labels.front().second == label) return metric.value;
  }
  return 0;
}

void work(char** words, const std::string& halt_word) {
  std::atomic<bool> halts = !halt_word.empty();
  const auto type = collecting([&](const std::string& word) {
    if (word != halt_word || !halts.exchange(false)) return;
    std::cout << "halted " << ::getpid() << std::endl;
    std::ignore = std::raise(SIGSTOP);  // to this thread, which must not go on before it works
  });
  const auto store = open(words[1]).value();
  std::atomic<std::uint64_t> lost = 0;
  WorkflowWorkerOptions options;
  options.workflows = {type};
  options.owner = words[2];
  options.routing.strategy = strategy_named(words[3]);
  options.routing.heartbeat = std::chrono::milliseconds{300};
  options.cache.idle_timeout = parse_duration(words[4]).value();
  options.cache.audit_one_in = halt_word.empty() ? 1 : 0;
  options.turn_lease = parse_duration(words[5]).value();
  options.on_trouble = [&](const ConsumerTrouble& trouble) {
    if (trouble.kind == ConsumerTrouble::Kind::lease_lost) ++lost;
  };
  const auto worker = WorkflowWorker::start(*store, options).value();
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << fmt::format(
                     "{} {} {} {}", counted(*worker, "strand_orchestration_cache_hits_total", ""),
                     counted(*worker, "strand_orchestration_cache_misses_total", ""), lost.load(),
                     counted(*worker, "strand_orchestration_cache_evictions_total", "lease"))
              << std::endl;
  }
}

}  // namespace
}  // namespace strand::workflow_faults

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::cerr << "usage: strand-workflow-child URL OWNER STRATEGY IDLE_TIMEOUT TURN_LEASE "
                 "[HALT_WORD]\n";
    return 2;
  }
  // Whoever waits for a server that is gone would outlive the test.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    strand::workflow_faults::work(argv, argc == 7 ? argv[6] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 8;
  }
  return 0;
}
