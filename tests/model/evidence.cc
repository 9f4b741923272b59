#include "model/evidence.h"

#include <algorithm>

#include "model/text.h"
#include "model/violation.h"

namespace strand::model {

const Call& call_of(const Step& step) {
  return std::visit([](const auto& known) -> const Call& { return known.call; }, step);
}

// Each thread knows only its own calls, so leases come before what was done with them, and sends
// before their ends, only after sorting by kind.
Evidence::Evidence(const std::deque<Recorder::Log>& logs) {
  for (const Recorder::Log& log : logs) {
    for (const Recorder::Entry& entry : log.entries()) {
      if (const auto* applied = std::get_if<Recorder::Applied>(&entry)) add(*applied);
      if (const auto* leased = std::get_if<Recorder::Leased>(&entry)) add(*leased);
      if (const auto* counted = std::get_if<Recorder::Counted>(&entry)) add(*counted);
    }
  }
  std::ranges::sort(sends, {}, [](const auto& applied) { return applied.call.begin; });
  add_fates();
  for (const Recorder::Log& log : logs) {
    for (const Recorder::Entry& entry : log.entries()) {
      if (const auto* pulled = std::get_if<Recorder::PulledMore>(&entry)) add(*pulled);
      if (const auto* renewed = std::get_if<Recorder::Renewed>(&entry)) add(*renewed);
    }
  }
  add_ends();
  for (auto& [name, tenures] : lanes) {
    for (auto& [epoch, tenure] : tenures) {
      std::ranges::sort(tenure.steps, {}, [](const Step& step) { return call_of(step).begin; });
    }
  }
}

void Evidence::add(const Recorder::Applied& applied) {
  if (!applied.transaction.sends.empty()) sends.push_back(applied);
  const bool ends = !applied.transaction.settles.empty() || !applied.transaction.cancels.empty() ||
                    applied.transaction.admin;
  if (ends) transactions_.push_back(applied);
}

void Evidence::add(const Recorder::Leased& leased) {
  const Lease& lease = leased.lease;
  const Epoch epoch = lease.token.epoch();
  LaneName name{.queue = lease.queue, .key = lease.key};
  expect(lease.key ? !lease.messages.empty() : lease.messages.size() == 1, Invariant::contract,
         [&] { return "a lease carries messages, an unkeyed one exactly one: " + text(lease); });
  if (!lease.key) name.unkeyed = lease.messages.front().id;
  expect(lane_of_.emplace(epoch, name).second, Invariant::current_epoch,
         [&] { return "two leases have the same epoch: " + text(lease); });
  Tenure& tenure = lanes[name][epoch];
  tenure.epoch = epoch;
  tenure.granted = leased.call;
  tenure.expires_at = lease.expires_at;
  tenure.steps.emplace_back(Carried{.call = leased.call, .messages = lease.messages});
}

void Evidence::add(const Recorder::PulledMore& pulled) {
  tenure(pulled.token)
      .steps.emplace_back(Carried{.call = pulled.call, .messages = pulled.messages});
}

void Evidence::add(const Recorder::Renewed& renewed) {
  tenure(renewed.token)
      .steps.emplace_back(Prolonged{.call = renewed.call, .expires_at = renewed.expires_at});
}

Tenure& Evidence::tenure(const Token& token) {
  const auto lane = lane_of_.find(token.epoch());
  expect(lane != lane_of_.end(), Invariant::current_epoch,
         [&] { return "no lease was ever granted with the token " + text(token); });
  return lanes[lane->second][token.epoch()];
}

// In the order of calls: the first success is the one that was accepted, the others repeat it.
void Evidence::add_fates() {
  for (const Recorder::Applied& applied : sends) {
    if (!applied.answer) continue;
    const std::vector<Send>& asked = applied.transaction.sends;
    expect(applied.answer->sent.size() == asked.size(), Invariant::contract,
           [&] { return "not one answer for each send: " + text(*applied.answer); });
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Sent& sent = applied.answer->sent[i];
      if (sent.duplicate) continue;
      fates.try_emplace(sent.id, Fate{.queue = asked[i].queue,
                                      .key = asked[i].key,
                                      .body = asked[i].body,
                                      .due = applied.answer->time + asked[i].delay,
                                      .sent = applied.call});
      if (asked[i].name) names_.try_emplace({asked[i].queue, *asked[i].name}, sent.id);
    }
  }
  for (const auto& [id, fate] : fates) {
    messages[{.queue = fate.queue, .key = fate.key, .unkeyed = fate.key ? MessageId{} : id}]
        .push_back(id);
  }
}

void Evidence::add_ends() {
  for (const Recorder::Applied& applied : transactions_) {
    const Transaction& transaction = applied.transaction;
    // One lease that is over lets the whole transaction fail: which one it was, nobody says.
    const bool doubtful = !applied.answer && transaction.settles.size() > 1;
    for (const Settle& settle : transaction.settles) {
      if (doubtful) continue;
      Settled settled{.call = applied.call, .settle = settle};
      if (applied.answer) {
        settled.at = applied.answer->time;
      } else {
        settled.error = applied.answer.error().code;
      }
      tenure(settle.token).steps.emplace_back(std::move(settled));
    }
    if (!applied.answer) continue;
    for (std::size_t i = 0; i < transaction.cancels.size(); ++i) {
      if (!applied.answer->cancelled.at(i)) continue;
      const Cancel& cancel = transaction.cancels[i];
      const auto named = names_.find({cancel.queue, cancel.name});
      expect(named != names_.end(), Invariant::contract,
             [&] { return "cancelled a message that nobody sent: " + quote(cancel.name); });
      fates.at(named->second).cancels.push_back(applied.call);
    }
    if (!transaction.admin) continue;
    if (const auto* redrive = std::get_if<Redrive>(&*transaction.admin)) {
      for (const MessageId id : redrive->ids) {
        const auto fate = fates.find(id);
        expect(fate != fates.end(), Invariant::contract,
               [&] { return "redrove a message that nobody sent: " + text(id); });
        fate->second.redrives.push_back(applied.call);
      }
    }
  }
}

}  // namespace strand::model
