// The program that the crash tests kill.
//
//   strand-crash-child URL RUN SEED BATCH POINT TIMES
//
// Works on the store until it comes to POINT for the TIMES-th time ("never": until somebody kills
// it). See load.h for what it writes to its standard output.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "crash/load.h"
#include "crash/scripted_store.h"
#include "faults/kill_script.h"

int main(int argc, char** argv) {
  if (argc != 7) {
    fmt::print(stderr, "usage: strand-crash-child URL RUN SEED BATCH POINT TIMES\n");
    return 2;
  }
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  strand::faults::KillScript script(argv[5], number(6));
  const auto disk = strand::crash::scripted_disk(script);
  auto store = strand::crash::open_scripted(argv[1], *disk, script);
  if (!store) {
    fmt::print(stderr, "open: {}\n", store.error().message);
    return 8;
  }
  strand::crash::work(**store, number(2), number(3), static_cast<unsigned>(number(4)),
                      STDOUT_FILENO);
}
