#include "postgres_faults/lies.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "postgres_faults/journaled_store.h"
#include "postgres_faults/load.h"

namespace strand::postgres_faults {

namespace {

using namespace std::chrono_literals;

// So often it could have lied before it did.
constexpr int truths = 5;

// What a lie remembers. Calls come from one thread: that of a producer, or of a consumer by hand.
struct Liar {
  Store& store;
  std::function<void()> told;
  int seen = 0;
  bool lying = false;  // in the call that is under way
  std::optional<Token> earlier = {};

  // Whether to lie now.
  bool now() {
    if (seen > truths) return false;
    lying = ++seen > truths;
    return lying;
  }
  // Whether this call is the one; says so.
  bool over() {
    if (!lying) return false;
    lying = false;
    told();
    return true;
  }
};

// One that will not be repeated, or the repeat would be the one that gives the lie away.
bool acks(const Transaction& transaction) {
  return transaction.sends.empty() && transaction.settles.size() == 1 &&
         transaction.id->number % JournaledStore::repeat_every != 0 &&
         std::ranges::any_of(transaction.settles[0].outcomes, [](const Outcome& outcome) {
           return outcome.kind == Outcome::Kind::ack;
         });
}

bool sends_only(const Transaction& transaction) {
  return transaction.settles.empty() && !transaction.sends.empty() &&
         transaction.id->number % JournaledStore::repeat_every != 0;
}

using Making = std::function<differential::Lie(std::shared_ptr<Liar>)>;

// --- Of producers ---

// A message vanishes that was confirmed.
differential::Lie loses_a_message(const std::shared_ptr<Liar>& liar) {
  return {.in_transaction =
              [liar](Transaction& transaction) {
                if (!sends_only(transaction) || !liar->now()) return;
                transaction.sends[0].delay = 1h;
                transaction.sends[0].name = "to be lost";
              },
          .of_receipt =
              [liar](const Transaction&, Result<Receipt>&) {
                if (!liar->over()) return;
                Transaction cancel;
                cancel.cancels.push_back({.queue = work_queue, .name = "to be lost"});
                liar->store.apply(cancel).value();
              }};
}

// A transaction is applied twice and answered once.
differential::Lie sends_twice(const std::shared_ptr<Liar>& liar) {
  return {.of_receipt = [liar](const Transaction& transaction, Result<Receipt>&) {
    if (!sends_only(transaction) || !liar->now()) return;
    Transaction again = transaction;
    again.id.reset();
    liar->store.apply(again).value();
    liar->over();
  }};
}

// A refused transaction is applied all the same.
differential::Lie refuses_what_it_applies(const std::shared_ptr<Liar>& liar) {
  return {.of_receipt = [liar](const Transaction& transaction, Result<Receipt>& receipt) {
    if (!sends_only(transaction) || !liar->now()) return;
    receipt = failure(Errc::queue_full, "a lie");
    liar->over();
  }};
}

differential::Lie changes_a_body(const std::shared_ptr<Liar>& liar) {
  return {.in_transaction =
              [liar](Transaction& transaction) {
                if (sends_only(transaction) && liar->now()) transaction.sends[0].body += "!";
              },
          .of_receipt = [liar](const Transaction&, Result<Receipt>&) { liar->over(); }};
}

// The repeat of a transaction is answered with another receipt.
differential::Lie changes_a_receipt(const std::shared_ptr<Liar>& liar) {
  const auto last = std::make_shared<std::optional<TransactionId>>();
  return {.of_receipt = [liar, last](const Transaction& transaction, Result<Receipt>& receipt) {
    if (transaction.id && *last == transaction.id && receipt && liar->seen == 0) {
      liar->seen = truths + 1;
      receipt->time += 1ms;
      liar->told();
    }
    *last = transaction.id;
  }};
}

// --- Of consumers ---

// An ack is confirmed and not done: the message comes back.
differential::Lie forgets_an_ack(const std::shared_ptr<Liar>& liar) {
  return {.in_transaction =
              [liar](Transaction& transaction) {
                if (!acks(transaction) || !liar->now()) return;
                for (Outcome& outcome : transaction.settles[0].outcomes)
                  outcome = {.id = outcome.id, .kind = Outcome::Kind::release};
              },
          .of_receipt = [liar](const Transaction&, Result<Receipt>&) { liar->over(); }};
}

// A settle with an old epoch is confirmed, though another has the lane.
differential::Lie ignores_the_fence(const std::shared_ptr<Liar>& liar) {
  return {.in_transaction =
              [liar](const Transaction& transaction) {
                if (acks(transaction) && liar->now()) std::this_thread::sleep_for(1500ms);
              },
          .of_receipt =
              [liar](const Transaction&, Result<Receipt>& receipt) {
                if (!liar->over()) return;
                receipt = Receipt{.time = liar->store.now()};
              }};
}

differential::Lie reverses_a_lease(const std::shared_ptr<Liar>& liar) {
  return {.of_leases = [liar](Result<std::vector<Lease>>& leases) {
    if (!leases || leases->empty() || leases->front().messages.size() < 2 || !liar->now()) return;
    std::ranges::reverse(leases->front().messages);
    liar->over();
  }};
}

// Two leases have one epoch.
differential::Lie repeats_an_epoch(const std::shared_ptr<Liar>& liar) {
  return {.of_leases = [liar](Result<std::vector<Lease>>& leases) {
    if (!leases || leases->empty()) return;
    const Token token = leases->front().token;
    if (liar->earlier && liar->now()) leases->front().token = *liar->earlier;
    liar->earlier = token;
    liar->over();
  }};
}

// A lane is given to a second holder while the first has it.
differential::Lie has_two_holders(const std::shared_ptr<Liar>& liar) {
  return {.of_leases = [liar](Result<std::vector<Lease>>& leases) {
    if (!leases || leases->empty() || !leases->front().key || !liar->now()) return;
    LeaseRequest request{.queue = work_queue, .key = leases->front().key, .seize = true};
    request.lease = 400ms;
    auto second = liar->store.lease(request);
    if (second && !second->empty() && !second->front().messages.empty()) {
      leases->push_back(std::move(second->front()));
    }
    liar->over();
  }};
}

const std::vector<std::pair<std::string, Making>>& producers() {
  static const std::vector<std::pair<std::string, Making>> all = {
      {"loses_a_message", loses_a_message},
      {"sends_twice", sends_twice},
      {"refuses_what_it_applies", refuses_what_it_applies},
      {"changes_a_body", changes_a_body},
      {"changes_a_receipt", changes_a_receipt},
  };
  return all;
}

const std::vector<std::pair<std::string, Making>>& consumers() {
  static const std::vector<std::pair<std::string, Making>> all = {
      {"forgets_an_ack", forgets_an_ack},     {"ignores_the_fence", ignores_the_fence},
      {"reverses_a_lease", reverses_a_lease}, {"repeats_an_epoch", repeats_an_epoch},
      {"has_two_holders", has_two_holders},
  };
  return all;
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, Making>>& lies) {
  std::vector<std::string> names;
  for (const auto& [name, making] : lies)
    names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::string> lies_of_producers() { return names_of(producers()); }
std::vector<std::string> lies_of_consumers() { return names_of(consumers()); }

differential::Lie make_lie(const std::string& name, Store& store, std::function<void()> told) {
  const auto liar = std::make_shared<Liar>(Liar{.store = store, .told = std::move(told)});
  for (const auto* lies : {&producers(), &consumers()}) {
    for (const auto& [known, making] : *lies) {
      if (known == name) return making(liar);
    }
  }
  throw std::runtime_error("no such lie: " + name);
}

}  // namespace strand::postgres_faults
