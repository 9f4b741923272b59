// How to test workflows: a clock that jumps, activities that are mocked, and every turn replayed.
// Inside GoogleTest, or any other framework, it looks the same.

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <strand/workflow_test.h>

using namespace std::chrono_literals;

namespace {

// --- What is tested: a mail every three days, until the customer has paid ---

const strand::Activity<void(std::string)> send_mail{
    "send_mail", {.retry = {.attempts = 3, .first = 10s, .jitter_percent = 0}, .timeout = 1min}};

strand::Task<int> run_reminders(strand::Workflow& wf, std::string customer) {
  for (int mails = 0;; ++mails) {
    const auto first = co_await wf.first_of(wf.event<bool>("paid"), wf.sleep(72h));
    if (first.index() == 0) co_return mails;
    co_await wf.call(send_mail, customer);
  }
}
const strand::WorkflowType reminders{"reminders", run_reminders};

// --- The tests ---

void require(bool condition, const char* what) {
  std::cout << (condition ? "ok: " : "not so: ") << what << "\n";
  if (!condition) std::exit(1);
}

void days_take_no_time() {
  strand::WorkflowTest test;
  test.add(reminders);
  std::vector<std::string> mailed;
  test.mock(send_mail, [&](const std::string& customer) { mailed.push_back(customer); });

  auto reminder = test.workflows().start(reminders, "invoice-1", "Ada").value();
  test.run_for(7 * 24h);  // and not a millisecond more
  require(mailed == std::vector<std::string>{"Ada", "Ada"}, "two mails in a week");

  test.workflows().send_event("invoice-1", "paid", true).value();
  test.run();  // until there is nothing to wait for
  require(reminder.wait().value().value() == 2, "no more mails when it is paid");
}

void failures_and_timeouts() {
  strand::WorkflowTest test;
  test.add(reminders);
  test.mock(send_mail, [attempt = 0](const std::string&) mutable {
    ++attempt;
    if (attempt == 1) throw std::runtime_error("the server is busy");
    throw strand::ActivityTimesOut{};
  });
  auto reminder = test.workflows().start(reminders, "invoice-2", "Ada").value();
  test.run();
  const auto ended = reminder.wait().value();
  require(test.attempts() == 3, "three attempts");
  require(ended.state == strand::InstanceState::failed, "it fails with its activity");
  std::cout << "    " << ended.error << "\n";
}

// Not like this: what depends on anything but its input and `wf` is another thing in each replay.
int times_called = 0;
strand::Task<> run_careless(strand::Workflow& wf) {
  co_await wf.call(send_mail, "customer " + std::to_string(++times_called));
}
const strand::WorkflowType careless{"careless", run_careless};

void what_is_not_deterministic_is_found() {
  strand::WorkflowTest test;  // Mode::always_replay is the default
  test.add(careless);
  test.mock(send_mail, [](const std::string&) {});
  test.workflows().start(careless, "c").value();
  test.run();
  const auto info = test.workflows().get("c").value();
  require(info.parked.has_value(), "code that does something else in a replay stops its instance");
  require(test.attempts() == 0, "and nothing of it has happened");
  std::cout << "    " << *info.parked << "\n";
}

}  // namespace

int main() {
  days_take_no_time();
  failures_and_timeouts();
  what_is_not_deterministic_is_found();
}
