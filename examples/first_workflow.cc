#include <chrono>
#include <iostream>
#include <string>

#include <strand/strand.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

std::string charge(const std::string& order) { return "payment for " + order; }
const strand::Activity charge_card{"charge_card", charge};

strand::Task<std::string> run_checkout(strand::Workflow& wf, std::string order) {
  auto payment = co_await wf.call(charge_card, order);  // done by a worker, again if it throws
  co_await wf.sleep(std::chrono::milliseconds{10});     // or thirty days
  co_return payment + ", and a short nap";
}
const strand::WorkflowType checkout{"checkout", run_checkout};

int main() {
  const auto store = strand::open("rocksdb:first-workflow").value();
  const auto worker =
      strand::WorkflowWorker::start(*store, {.workflows = {checkout}, .activities = {charge_card}})
          .value();

  auto workflows = strand::Workflows::open(*store).value();
  auto order = workflows.start(checkout, "order-7", "tea").value();
  std::cout << order.wait().value().value() << "\n";
}
