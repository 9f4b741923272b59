// A checkout that survives any crash: stock is held, the card is charged, and then somebody has a
// day to approve. If anything goes wrong, what was done is undone, the last step first.

#include <chrono>
#include <iostream>
#include <string>
#include <variant>

#include <strand/strand.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

using namespace std::chrono_literals;

struct Order {
  std::string id;
  std::string article;
  int cents = 0;
};
STRAND_JSON(Order, id, article, cents)

struct Hold {
  std::string id;
};
STRAND_JSON(Hold, id)

struct Payment {
  std::string id;
};
STRAND_JSON(Payment, id)

struct Receipt {
  std::string hold;
  std::string payment;
};
STRAND_JSON(Receipt, hold, payment)

namespace {

// Activities are plain functions. They may take long, fail, and be tried again.
Hold reserve(const Order& order) { return {"hold-" + order.id}; }
void release(const Hold& hold) { std::cout << hold.id << " is released\n"; }
Payment charge(const Order& order) { return {"payment-" + order.id}; }
void refund(const Payment& payment) { std::cout << payment.id << " is refunded\n"; }

const strand::Activity reserve_stock{"reserve_stock", reserve};
const strand::Activity release_stock{"release_stock", release};
const strand::Activity charge_card{"charge_card", charge, {.timeout = 30s}};
const strand::Activity refund_card{"refund_card", refund};

// The workflow is a coroutine. It may wait for days; no thread and no memory waits with it.
strand::Task<Receipt> run_checkout(strand::Workflow& wf, Order order) {
  strand::Saga saga{wf};
  auto hold = co_await saga.step(reserve_stock, order, release_stock);
  auto paid = co_await saga.step(charge_card, order, refund_card);

  auto answer = co_await wf.first_of(wf.event<bool>("approved"), wf.sleep(24h));
  const bool* approved = std::get_if<bool>(&answer);
  if (approved == nullptr) throw strand::ApplicationError("too_late", "nobody approved it");
  if (!*approved) throw strand::ApplicationError("refused", "it was not approved");
  co_return Receipt{hold.id, paid.id};
}

const strand::WorkflowType checkout{"checkout", run_checkout};

}  // namespace

int main() {
  const auto store = strand::open("memory:").value();
  const auto worker =
      strand::WorkflowWorker::start(
          *store, {.workflows = {checkout},
                   .activities = {reserve_stock, release_stock, charge_card, refund_card}})
          .value();

  auto workflows = strand::Workflows::open(*store).value();
  auto tea = workflows.start(checkout, "order-1", {"1", "tea", 500}).value();
  auto yacht = workflows.start(checkout, "order-2", {"2", "yacht", 99'000'000}).value();
  workflows.send_event("order-1", "approved", true).value();  // may come early: it waits
  workflows.send_event("order-2", "approved", false).value();

  const Receipt receipt = tea.wait().value().value();
  std::cout << "order-1: " << receipt.hold << ", " << receipt.payment << "\n";
  const auto ended = yacht.wait().value();
  std::cout << "order-2: " << to_string(ended.state) << ", " << ended.error << "\n";

  // All that is recorded of it: what came in, and what the code decided.
  for (const strand::HistoryEvent& event : workflows.history("order-2").value().events)
    std::cout << "  " << strand::describe(event) << "\n";
  return receipt.payment == "payment-1" && ended.error_type == "refused" ? 0 : 1;
}
