// One process of many that share a store in PostgreSQL.
//
//   strand-postgres-child URL FOLDER NAME RUN SEED ROLE [LIE]
//
// ROLE is producer, consumer (by strand::Consumer) or hand (a consumer that leases by hand). Writes
// its journal to FOLDER/NAME.RUN; before that, repeats what earlier runs of that name have left
// unanswered. Says "ready" when the store is open, and "lied" when it has told its LIE. Works until
// there is a line, or the end, of its standard input; then finishes what it has begun.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <sys/prctl.h>

#include <strand/store.h>

#include "differential/lying_store.h"
#include "postgres_faults/journal.h"
#include "postgres_faults/journaled_store.h"
#include "postgres_faults/lies.h"
#include "postgres_faults/load.h"

namespace strand::postgres_faults {
namespace {

struct Task {
  std::string url;
  std::filesystem::path folder;
  std::string name;
  std::uint64_t run = 0;
  std::uint64_t seed = 0;
  std::string role;
  std::string lie;
};

// What earlier runs have begun: back to the one that had caught up with those before it.
std::vector<Transaction> left_by_earlier_runs(const Task& task) {
  std::vector<Entry> entries;
  for (std::uint64_t run = task.run - 1; run > 0; --run) {
    const auto path = Journal::path_of(task.folder, task.name, run);
    if (!std::filesystem::exists(path)) continue;  // killed before it came so far
    bool caught_up = false;
    for (Entry& entry : Journal::read(path)) {
      caught_up = caught_up || std::holds_alternative<CaughtUp>(entry);
      entries.push_back(std::move(entry));
    }
    if (caught_up) break;
  }
  return unanswered(entries);
}

void say(const char* word) { std::cout << word << std::endl; }

std::unique_ptr<Store> open_store(const Task& task) {
  auto store = open(task.url);
  if (!store) throw std::runtime_error("open: " + store.error().message);
  if (task.lie.empty()) return *std::move(store);
  Store& real = **store;
  return std::make_unique<differential::LyingStore>(*std::move(store),
                                                    make_lie(task.lie, real, [] { say("lied"); }));
}

void work(const Task& task) {
  const std::unique_ptr<Store> store = open_store(task);
  const Journal journal(Journal::path_of(task.folder, task.name, task.run));
  JournaledStore journaled(*store, journal, task.seed);
  journaled.catch_up(left_by_earlier_runs(task));
  say("ready");
  const std::string name = task.name + "." + std::to_string(task.run);
  std::jthread worker([&](const std::stop_token& stop) {
    if (task.role == "producer") {
      produce(journaled, name, task.seed, stop);
    } else if (task.role == "consumer") {
      consume(journaled, name, task.seed, stop);
    } else {
      consume_by_hand(journaled, name, task.seed, stop);
    }
  });
  std::string line;
  std::getline(std::cin, line);
}

}  // namespace
}  // namespace strand::postgres_faults

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::cerr << "usage: strand-postgres-child URL FOLDER NAME RUN SEED ROLE [LIE]\n";
    return 2;
  }
  // Whoever waits for a server that is gone would outlive the test.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    strand::postgres_faults::work({.url = argv[1],
                                   .folder = argv[2],
                                   .name = argv[3],
                                   .run = std::strtoull(argv[4], nullptr, 10),
                                   .seed = std::strtoull(argv[5], nullptr, 10),
                                   .role = argv[6],
                                   .lie = argc == 8 ? argv[7] : ""});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 8;
  }
  return 0;
}
