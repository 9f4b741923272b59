#include "cli/bench/listening.h"

#include "workflow/wire.h"

namespace strand::cli {

const WorkflowType<int()>& listening() {
  static const WorkflowType<int()> type{"listening", [](Workflow& wf) -> Task<int> {
                                          for (int count = 1;; ++count) {
                                            co_await wf.event<Bytes>("word");
                                            wf.set_status(std::to_string(count));
                                          }
                                        }};
  return type;
}

const WorkflowType<int()>& remembering() {
  static const WorkflowType<int()> type{"remembering", [](Workflow& wf) -> Task<int> {
                                          int count = wf.restored<int>().value_or(0);
                                          while (true) {
                                            co_await wf.checkpoint(count);
                                            co_await wf.event<Bytes>("word");
                                            wf.set_status(std::to_string(++count));
                                          }
                                        }};
  return type;
}

void add_word(Transaction& transaction, const std::string& id) {
  namespace wire = workflow::wire;
  Send& send = transaction.sends.emplace_back();
  send.queue = WorkflowsOptions{}.queue;
  send.key = id;
  send.body = "hello";
  wire::add(send.headers, wire::kind_header, wire::event_kind);
  wire::add(send.headers, wire::name_header, "word");
}

Result<void> send_words(Workflows& workflows, const std::string& id, std::uint64_t count) {
  for (std::uint64_t sent = 0; sent < count;) {
    Transaction transaction;
    transaction.durability = Durability::async;
    constexpr std::uint64_t at_once = 1000;
    for (std::uint64_t i = 0; i < at_once && sent < count; ++i, ++sent)
      add_word(transaction, id);
    if (auto done = workflows.store().apply(transaction); !done) {
      return std::unexpected(done.error());
    }
  }
  return {};
}

double value_of(const WorkflowWorker& worker, std::string_view name) {
  for (const Metric& metric : worker.metrics()) {
    if (metric.name == name) return metric.value;
  }
  return 0;
}

std::uint64_t count_of(const WorkflowWorker& worker, std::string_view name) {
  return static_cast<std::uint64_t>(value_of(worker, name));
}

}  // namespace strand::cli
