// A worker for the tests of `strand workflow`: strand-e2e-worker URL [DURATION]
//
// Runs the workflows below on the store until there is nothing to do, or, if it is told a duration,
// for so long or until its standard input ends.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <poll.h>
#include <unistd.h>

#include <strand/saga.h>
#include <strand/store.h>
#include <strand/workflow.h>
#include <strand/workflow_worker.h>

namespace {

using namespace std::chrono_literals;
using strand::Activity;
using strand::ApplicationError;
using strand::Task;
using strand::Workflow;
using strand::WorkflowType;

int twice(const int& number) { return 2 * number; }
const Activity double_it{"double_it", twice};

// Completes.
Task<int> run_double(Workflow& wf, int number) {
  wf.set_status("doubling");
  wf.set("before", number);
  wf.set("bytes", std::string("\xff\x00", 2));
  co_return co_await wf.call(double_it, number);
}
const WorkflowType doubling{"double", run_double};

// Fails.
Task<void> run_broken(Workflow&) {
  throw ApplicationError("out_of_order", "nothing works here", R"({"code":7})");
  co_return;
}
const WorkflowType broken{"broken", run_broken};

// Waits for an event, and answers what it waits for.
Task<std::string> run_approval(Workflow& wf) {
  std::string by;
  const auto answering = wf.answer("by", [&] { return by.empty() ? "nobody" : by; });
  by = co_await wf.event<std::string>("approved");
  co_return by;
}
const WorkflowType approval{"approval", run_approval};

// A saga whose last step fails.
std::string book_hotel(const std::string& where) { return "room in " + where; }
void cancel_hotel(const std::string&) {}
void book_flight(const std::string& where) {
  throw ApplicationError("sold_out", "no seat to " + where);
}
const Activity hotel{"book_hotel", book_hotel};
const Activity no_hotel{"cancel_hotel", cancel_hotel};
const Activity flight{"book_flight", book_flight, {.retry = strand::Retry::never()}};

Task<void> run_trip(Workflow& wf, std::string where) {
  strand::Saga saga{wf, {.name = "trip", .data = where}};
  co_await saga.step(hotel, where, no_hotel);
  co_await saga.step(flight, where);
}
const WorkflowType trip{"trip", run_trip};

// Two sagas, one after the other.
Task<void> run_nights(Workflow& wf, std::string where) {
  for (const char* name : {"first", "second"}) {
    strand::Saga saga{wf, {.name = name}};
    co_await saga.step(hotel, where, no_hotel);
  }
}
const WorkflowType nights{"nights", run_nights};

// Calls an activity that somebody else does.
const Activity<std::string(std::string)> charge_card{
    "charge_card",
    {.retry = {.attempts = 2, .backoff = strand::Retry::Backoff::fixed, .first = 1ms},
     .timeout = 2s}};

Task<std::string> run_payment(Workflow& wf, std::string card) {
  co_return "paid: " + co_await wf.call(charge_card, card);
}
const WorkflowType payment{"payment", run_payment};

// The same, and in a hurry.
const Activity<std::string()> look_up{"look_up",
                                      {.retry = strand::Retry::never(), .timeout = 50ms}};

Task<std::string> run_hurried(Workflow& wf) { co_return co_await wf.call(look_up); }
const WorkflowType hurried{"hurried", run_hurried};

// Has a child.
Task<int> run_parent(Workflow& wf, int number) {
  co_return co_await wf.child(doubling, number, {.id = wf.id() + "-child"});
}
const WorkflowType parent{"parent", run_parent};

// Needs a person.
Task<void> run_stuck(Workflow& wf) { co_await wf.park("the bank wants a signature"); }
const WorkflowType stuck{"stuck", run_stuck};

// Three executions.
Task<int> run_countdown(Workflow& wf, int left) {
  if (left > 0) co_return co_await wf.continue_as_new(left - 1);
  co_return left;
}
const WorkflowType countdown{"countdown", run_countdown};

int complain(const std::string& message) {
  std::fprintf(stderr, "strand-e2e-worker: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return complain("which store?");
  std::optional<strand::Duration> duration;
  if (argc > 2) {
    const auto parsed = strand::parse_duration(argv[2]);
    if (!parsed) return complain(parsed.error().message);
    duration = *parsed;
  }
  const auto store = strand::open(argv[1]);
  if (!store) return complain(store.error().message);
  strand::WorkflowWorkerOptions options;
  options.workflows = {doubling, broken,  approval, trip,  nights,
                       payment,  hurried, parent,   stuck, countdown};
  options.activities = {double_it, hotel, no_hotel, flight};
  options.verify = true;
  const auto worker = strand::WorkflowWorker::start(**store, options);
  if (!worker) return complain(worker.error().message);
  if (duration) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    ::poll(&input, 1, static_cast<int>(duration->count()));
  } else {
    (*worker)->wait_idle();
  }
  (*worker)->stop();
  return 0;
}
