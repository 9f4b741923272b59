// A saga whose steps are done by workers that only speak the queue: they know headers and bodies,
// and nothing of workflows. They could as well be written in another language.

#include <chrono>
#include <iostream>
#include <string>
#include <string_view>

#include <strand/queue.h>
#include <strand/store.h>

// --- The worker ---

namespace {

std::string header(const strand::Message& message, std::string_view name) {
  for (const strand::Header& header : message.headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

// The answer goes to where the headers say, in the transaction that acks the task.
strand::Send& reply(strand::Work& work, const char* kind) {
  const strand::Message& task = work.message();
  strand::Send& answer = work.transaction().sends.emplace_back();
  answer.queue = header(task, "strand-reply-queue");
  answer.key = header(task, "strand-reply-key");
  answer.label = header(task, "strand-reply-label");
  answer.headers = {{"strand-kind", kind}, {"strand-call", header(task, "strand-call")}};
  return answer;
}

strand::Verdict warehouse(strand::Work& work) {
  std::cout << "warehouse: " << header(work.message(), "strand-activity") << " "
            << work.message().body << "\n";
  reply(work, "result").body = "shelf 7";
  return strand::Verdict::ok();
}

strand::Verdict bank(strand::Work& work) {
  // The first attempt fails; a task is tried as often as the workflow has asked for.
  if (work.message().attempts == 0) return strand::Verdict::retry("the line is busy");
  std::cout << "bank: refuses " << work.message().body << "\n";
  strand::Send& error = reply(work, "error");
  error.headers.push_back({"strand-error", "the card has expired"});
  error.headers.push_back({"strand-error-type", "card_refused"});
  return strand::Verdict::ok();
}

}  // namespace

// --- The workflow, in another program perhaps ---

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

using namespace std::chrono_literals;

namespace {

// Without a function: done by somebody else, who serves the queue.
const strand::Activity<std::string(std::string)> reserve{"reserve", {.queue = "warehouse"}};
const strand::Activity<std::string(std::string)> put_back{"put_back", {.queue = "warehouse"}};
const strand::Activity<std::string(std::string)> charge{
    "charge", {.queue = "bank", .retry = {.attempts = 3}}};
const strand::Activity<std::string(std::string)> refund{"refund", {.queue = "bank"}};

strand::Task<> run_sale(strand::Workflow& wf, std::string article) {
  strand::Saga saga{wf};
  co_await saga.step(reserve, article, put_back);
  co_await saga.step(charge, article, refund);
}

const strand::WorkflowType sale{"sale", run_sale};

}  // namespace

int main() {
  const auto store = strand::open("memory:").value();
  strand::Transaction setup;
  strand::QueueSettings settings;
  settings.backoff = {10ms};  // for the retries of a worker that names no delay
  setup.admin = strand::ConfigureQueue{.queue = "bank", .settings = settings};
  store->apply(setup).value();

  using strand::Consumer;
  const auto at_warehouse = Consumer::start(*store, {.queues = {"warehouse"}}, warehouse).value();
  const auto at_bank = Consumer::start(*store, {.queues = {"bank"}}, bank).value();
  const auto worker = strand::WorkflowWorker::start(*store, {.workflows = {sale}}).value();

  auto workflows = strand::Workflows::open(*store).value();
  const auto ended = workflows.start(sale, "sale-1", "tea").value().wait().value();
  std::cout << "the sale has " << to_string(ended.state) << ": " << ended.error << "\n";

  const strand::SagaInfo saga = workflows.sagas("sale-1").value().front();
  for (const strand::SagaStep& step : saga.steps)
    std::cout << "  " << step.name << " by " << step.agent << ": " << to_string(step.status)
              << "\n";
  return ended.error_type == "card_refused" && saga.steps.back().name == "put_back" ? 0 : 1;
}
