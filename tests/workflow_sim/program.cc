#include "workflow_sim/program.h"

#include <charconv>
#include <chrono>
#include <sstream>
#include <utility>

#include "sim/random.h"

namespace strand::workflow_sim {

using namespace std::chrono_literals;
using Kind = Node::Kind;
using NodePointer = std::shared_ptr<const Node>;

const Retry quick{.attempts = 3, .first = 200ms, .max = 2s};
const Activity<std::string(std::string)> work{
    "work", [](const std::string& input) { return "did " + input; }, {.retry = quick}};
const Activity<std::string(std::string)> step{
    "step", [](const std::string& input) { return "step " + input; }, {.retry = quick}};
const Activity<std::string(std::string)> undo{
    "undo", [](const std::string& input) { return "undid " + input; }, {.retry = quick}};
const Activity<std::string(std::string)> look{
    "look", [](const std::string& input) { return "saw " + input; }};

namespace {

NodePointer draw(sim::Random& random, unsigned depth) {
  auto node = std::make_shared<Node>();
  node->number = random.below(1000);
  const bool leaf = depth == 0 || random.one_in(3);
  if (leaf) {
    constexpr Kind leaves[] = {Kind::activity, Kind::activity, Kind::activity,      Kind::local,
                               Kind::sleep,    Kind::event,    Kind::state,         Kind::message,
                               Kind::chance,   Kind::activity, Kind::event_to_other};
    node->kind = leaves[random.below(std::size(leaves))];
    return node;
  }
  constexpr Kind inner[] = {Kind::sequence, Kind::sequence, Kind::all_of, Kind::first_of,
                            Kind::attempt,  Kind::within,   Kind::spawn,  Kind::child,
                            Kind::saga,     Kind::saga,     Kind::shield};
  node->kind = inner[random.below(std::size(inner))];
  const bool single = node->kind == Kind::attempt || node->kind == Kind::within ||
                      node->kind == Kind::shield || node->kind == Kind::child;
  const std::uint64_t count = single ? 1 : 1 + random.below(4);
  for (std::uint64_t i = 0; i < count; ++i)
    node->parts.push_back(draw(random, depth - 1));
  return node;
}

Task<std::string> run(Workflow& wf, NodePointer node, unsigned depth);

Task<std::string> run_saga(Workflow& wf, NodePointer node, unsigned depth) {
  Saga saga{wf,
            {.name = "saga-" + std::to_string(node->number),
             .undo_retry = {.attempts = 2, .first = 100ms}}};
  std::string text;
  for (std::size_t i = 0; i < node->parts.size(); ++i) {
    const std::string name = std::to_string(node->number) + "." + std::to_string(i);
    text += co_await saga.step(step, name, undo);
    if (node->number % 5 == i) co_await run(wf, node->parts[i], depth);  // may fail: undone
    if (node->number % 7 == i) throw ApplicationError("planned", "the saga shall be undone");
  }
  if (node->number % 11 == 0) co_await saga.undo("by choice");
  co_return text;
}

Task<std::string> run_chance(Workflow& wf) {
  const std::uint64_t drawn = wf.random();
  std::string text = wf.uuid().substr(0, 8);
  if (drawn % 2 == 0) co_await wf.sleep(Duration{static_cast<std::int64_t>(drawn % 5000)});
  if (drawn % 3 == 0) text += co_await wf.call(work, text + format_time(wf.now()));
  if (wf.patched("change " + std::to_string(drawn % 4))) text += "!";
  co_return text;
}

Task<std::string> run_first(Workflow& wf, NodePointer node, unsigned depth) {
  std::vector<Future<std::string>> futures;
  for (const NodePointer& part : node->parts)
    futures.push_back(wf.spawn(run(wf, part, depth)));
  const auto others = node->number % 2 == 1 ? Others::keep : Others::cancel;
  const std::size_t first = co_await wf.first_of(futures, others);
  co_return std::to_string(first) + co_await futures[first];
}

Task<std::string> run_attempt(Workflow& wf, NodePointer node, unsigned depth) {
  bool failed = false;
  try {
    co_return co_await run(wf, node->parts[0], depth);
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception&) {
    failed = true;
  }
  co_return failed ? "caught" : "";
}

Task<std::string> run_group(Workflow& wf, NodePointer node, unsigned depth) {
  std::string text;
  if (node->kind == Kind::sequence) {
    for (const NodePointer& part : node->parts)
      text += co_await run(wf, part, depth);
    co_return text;
  }
  std::vector<Future<std::string>> futures;
  for (const NodePointer& part : node->parts)
    futures.push_back(wf.spawn(run(wf, part, depth)));
  if (node->kind == Kind::all_of) {
    for (const std::string& value : co_await wf.all_of(std::move(futures)))
      text += value;
    co_return text;
  }
  text = co_await wf.call(work, "beside");
  for (const Future<std::string>& future : futures)
    text += co_await future;
  co_return text;
}

Task<std::string> run_leaf(Workflow& wf, NodePointer node) {
  const std::string name = std::to_string(node->number);
  switch (node->kind) {
    case Kind::activity:
      co_return co_await wf.call(work, name);
    case Kind::local:
      co_return co_await wf.local(look, name);
    case Kind::sleep:
      co_await wf.sleep(Duration{static_cast<std::int64_t>(node->number * 20)});
      co_return "slept";
    case Kind::event:
      co_return co_await wf.event<std::string>("e" + std::to_string(node->number % 3));
    case Kind::state: {
      const int before = wf.get<int>("count").value_or(0);
      wf.set("count", before + 1);
      wf.set_status("counted to " + std::to_string(before + 1));
      if (node->number % 9 == 0) wf.erase("count");
      co_return std::to_string(before);
    }
    case Kind::message:
      wf.send("out", name);
      wf.publish("news.of." + name, name);
      co_return "";
    default:
      wf.send_event("i" + std::to_string(node->number % 3), "e" + std::to_string(node->number % 3),
                    name);
      co_return "";
  }
}

Task<std::string> run(Workflow& wf, NodePointer node, unsigned depth) {
  switch (node->kind) {
    case Kind::sequence:
    case Kind::all_of:
    case Kind::spawn:
      co_return co_await run_group(wf, node, depth);
    case Kind::first_of:
      co_return co_await run_first(wf, node, depth);
    case Kind::attempt:
      co_return co_await run_attempt(wf, node, depth);
    case Kind::within:
      co_return co_await wf.within(Duration{static_cast<std::int64_t>(1 + node->number * 10)},
                                   run(wf, node->parts[0], depth));
    case Kind::shield:
      co_return co_await wf.shield(run(wf, node->parts[0], depth));
    case Kind::child: {
      constexpr WhenParentEnds choices[] = {WhenParentEnds::cancel, WhenParentEnds::terminate,
                                            WhenParentEnds::keep};
      const std::string input =
          std::to_string(node->number) + " " + std::to_string(depth == 0 ? 0 : depth - 1) + " 1";
      co_return co_await wf.child(program, input, {.when_parent_ends = choices[node->number % 3]});
    }
    case Kind::saga:
      co_return co_await run_saga(wf, node, depth);
    case Kind::chance:
      co_return co_await run_chance(wf);
    default:
      co_return co_await run_leaf(wf, node);
  }
}

// How far a program has come.
struct Progress {
  std::size_t parts = 0;
  std::string text = {};
  Time until{};
};
STRAND_JSON(Progress, parts, text, until)

Task<std::string> run_program(Workflow& wf, std::string input) {
  std::istringstream in(input);
  std::uint64_t seed = 0;
  unsigned depth = 0;
  std::uint64_t execution = 0;
  in >> seed >> depth >> execution;
  const auto answering = wf.answer("seed", [seed] { return seed; });
  const Program made = make_program(seed * 1000 + execution, depth);
  Progress progress = wf.restored<Progress>().value_or(Progress{.until = wf.now() + 20s});
  // Some have an activity, or a timer, under way all along: over checkpoints.
  std::optional<Future<std::string>> beside;
  std::optional<Future<void>> pause;
  if (seed % 3 == 0) beside = wf.call(work, "all along");
  if (seed % 3 == 1) pause = wf.sleep_until(progress.until);
  while (progress.parts < made.root->parts.size()) {
    co_await wf.checkpoint(progress);
    progress.text += co_await run(wf, made.root->parts[progress.parts], depth);
    ++progress.parts;
  }
  co_await wf.checkpoint(progress);
  if (beside) progress.text += co_await *beside;
  if (pause) co_await *pause;
  if (execution < made.executions) {
    co_return co_await wf.continue_as_new(std::to_string(seed) + " " + std::to_string(depth) + " " +
                                          std::to_string(execution + 1));
  }
  co_return progress.text.substr(0, 200);
}

}  // namespace

const WorkflowType<std::string(std::string)> program{"program", run_program};

Program make_program(std::uint64_t seed, unsigned depth) {
  sim::Random random(seed);
  Program result;
  result.executions = 1 + (random.one_in(4) ? random.below(3) : 0);
  auto root = std::make_shared<Node>();
  root->kind = Kind::sequence;
  for (std::uint64_t i = 1 + random.below(5); i > 0; --i)
    root->parts.push_back(draw(random, depth));
  result.root = std::move(root);
  return result;
}

}  // namespace strand::workflow_sim
