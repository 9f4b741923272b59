#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <strand/saga.h>
#include <strand/workflow.h>
#include <strand/workflow_worker.h>

namespace strand::workflow_sim {

// One thing that a random program does.
struct Node {
  enum class Kind : std::uint8_t {
    activity,
    local,
    sleep,
    event,
    sequence,
    all_of,
    first_of,  // number 1: losers are kept
    attempt,   // its failure is caught
    within,    // a deadline for its part
    spawn,     // its part runs beside the rest, and is awaited at the end
    child,     // number: the seed of its program
    saga,      // its parts are steps; number: which one fails, if any
    state,
    message,
    chance,  // random, uuid and now decide what is done
    event_to_other,
    shield,
  };
  Kind kind = Kind::activity;
  std::uint64_t number = 0;
  std::vector<std::shared_ptr<const Node>> parts = {};
};

// A program is named by a number: everything about it follows from that.
struct Program {
  std::shared_ptr<const Node> root;
  std::uint64_t executions = 1;  // it continues as new so often, less one
};
Program make_program(std::uint64_t seed, unsigned depth);

// Input of an instance: "seed depth execution".
extern const WorkflowType<std::string(std::string)> program;
extern const Activity<std::string(std::string)> work;
extern const Activity<std::string(std::string)> step;
extern const Activity<std::string(std::string)> undo;

}  // namespace strand::workflow_sim
