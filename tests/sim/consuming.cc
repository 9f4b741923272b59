// Clients at work: leases, pulls, outcomes, turns of workflows; and those that misbehave.

#include <algorithm>

#include "sim/client.h"

namespace strand::sim {
namespace {

using std::chrono::milliseconds;

// More than the engine trims event by event.
constexpr std::size_t many_events = 300;

}  // namespace

// --- Getting work ---

void Client::ask(const LeaseRequest& request) {
  last_request_ = request;
  world_.lease(request, waiting<std::vector<Lease>>([this](const Result<std::vector<Lease>>& r) {
                 if (r) got_leases(*r);
               }));
}

void Client::got_leases(const std::vector<Lease>& leases) {
  for (const Lease& lease : leases) {
    forget(lease.token);
    Held held;
    held.lease = lease;
    for (const Message& message : lease.messages)
      held.left.push_back(message.id);
    if (!lease.key && !held.left.empty()) {
      gossip_.unkeyed.emplace_back(lease.queue, held.left.front());
    }
    if (lease.history) {
      gossip_.executions[{lease.queue, *lease.key}] = lease.history->execution;
    }
    held_.push_back(std::move(held));
    gossip_.tokens.push_back(lease.token);
  }
  constexpr std::size_t remembered_max = 12;
  if (gossip_.tokens.size() > remembered_max) gossip_.tokens.erase(gossip_.tokens.begin());
  if (gossip_.unkeyed.size() > remembered_max) gossip_.unkeyed.erase(gossip_.unkeyed.begin());
  if (held_.size() > remembered_max) held_.erase(held_.begin());
}

void Client::forget(const Token& token) {
  std::erase_if(held_, [&](const Held& held) { return held.lease.token == token; });
}

void Client::lease() { ask(draw_request()); }

void Client::lease_key() {
  LeaseRequest request = draw_request();
  request.key = draw_key();
  ask(request);
}

void Client::seize() {
  LeaseRequest request = draw_request();
  request.key = draw_key();
  request.seize = true;
  ask(request);
}

Client::Held* Client::draw_held(bool keyed) {
  std::vector<Held*> fit;
  for (Held& held : held_) {
    if (!keyed || held.lease.key) fit.push_back(&held);
  }
  return fit.empty() ? nullptr : random_.pick(fit);
}

void Client::pull() {
  Held* held = draw_held(!random_.one_in(12));
  if (held == nullptr) return lease();
  Cursor cursor = held->lease.cursor;
  if (random_.one_in(4) && held->cursor_before) cursor = *held->cursor_before;
  PullLimits limits;
  if (random_.one_in(2)) limits.messages = static_cast<std::uint32_t>(random_.between(1, 3));
  if (random_.one_in(4)) limits.bytes = static_cast<std::size_t>(random_.between(0, 900));
  const Token token = held->lease.token;
  world_.pull(token, cursor, limits,
              waiting<Pulled>([this, token, cursor](const Result<Pulled>& r) {
                if (!r && r.error().code == Errc::lease_lost) return forget(token);
                if (!r) return;
                for (Held& mine : held_) {
                  if (mine.lease.token != token) continue;
                  if (r->cursor != cursor) mine.cursor_before = cursor;
                  mine.lease.cursor = r->cursor;
                  for (const Message& message : r->messages) {
                    if (std::ranges::find(mine.left, message.id) == mine.left.end()) {
                      mine.left.push_back(message.id);
                    }
                  }
                }
              }));
}

void Client::renew() {
  const Held* held = draw_held(false);
  if (held == nullptr) return lease();
  const Token token = held->lease.token;
  world_.renew(token, draw_wait() + milliseconds{1},
               waiting<Time>([this, token](const Result<Time>& r) {
                 if (!r && r.error().code == Errc::lease_lost) forget(token);
               }));
}

// --- Finishing it ---

Outcome Client::draw_outcome(MessageId id) {
  Outcome outcome;
  outcome.id = id;
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return outcome;
    case 4:
      outcome.kind = Outcome::Kind::retry;
      outcome.delay = draw_wait();
      outcome.reason = "later";
      return outcome;
    case 5:
      outcome.kind = Outcome::Kind::retry;
      outcome.reason = "broken";
      return outcome;
    case 6:
      outcome.kind = Outcome::Kind::dead;
      outcome.reason = "hopeless";
      return outcome;
    default:
      outcome.kind = Outcome::Kind::release;
      return outcome;
  }
}

Settle Client::draw_settle(Held& held) {
  Settle settle;
  settle.token = held.lease.token;
  std::vector<MessageId> rest;
  for (const MessageId id : held.left) {
    if (random_.one_in(4)) {
      rest.push_back(id);
    } else {
      settle.outcomes.push_back(draw_outcome(id));
    }
  }
  if (random_.one_in(4)) std::ranges::reverse(settle.outcomes);
  held.left = rest;
  if (random_.one_in(3)) settle.then = Settle::Then::keep;
  if (random_.one_in(12)) {
    settle.then = Settle::Then::park;
    settle.park_reason = "stopped by its holder";
  }
  if (held.lease.key && random_.one_in(8)) settle.label = draw_label();
  if (held.lease.key && random_.one_in(6)) {
    settle.owner_hint = OwnerHint{"o" + std::to_string(random_.below(3)), draw_wait(),
                                  milliseconds{random_.between(0, 1000)}};
  }
  return settle;
}

void Client::settle() {
  Held* held = draw_held(false);
  if (held == nullptr) return lease();
  Transaction transaction;
  transaction.settles.push_back(draw_settle(*held));
  if (random_.one_in(5)) {
    Held* other = draw_held(false);
    if (other->lease.token != transaction.settles.front().token) {
      transaction.settles.push_back(draw_settle(*other));
    }
  }
  if (random_.one_in(4)) transaction.sends.push_back(draw_send());
  if (random_.one_in(8)) transaction.publishes.push_back(draw_publish());
  if (random_.one_in(8)) transaction.records.push_back(draw_record());
  if (random_.one_in(10)) {
    transaction.cancels.push_back({draw_queue(), "n" + std::to_string(random_.below(4))});
  }
  const std::vector<Settle> settles = transaction.settles;
  submit(std::move(transaction), [this, settles](const Result<Receipt>& r) {
    for (const Settle& done : settles) {
      const bool lost = !r && r.error().code == Errc::lease_lost;
      if (lost || (r && done.then != Settle::Then::keep)) forget(done.token);
    }
  });
}

// One turn of a workflow: append what happened, finish what was leased, send what follows.
void Client::turn() {
  Held* held = draw_held(true);
  if (held == nullptr) {
    LeaseRequest request = draw_request();
    request.key = draw_key();
    request.history_from = 0;
    request.seize = random_.one_in(8);
    return ask(request);
  }
  const std::pair<std::string, std::string> instance{held->lease.queue, *held->lease.key};
  Execution known;
  if (const auto it = gossip_.executions.find(instance); it != gossip_.executions.end()) {
    known = it->second;
  }
  Transaction transaction;
  if (random_.one_in(12)) {
    transaction.remove_histories.push_back(
        {held->lease.token, random_.one_in(2) ? 0 : random_.below(3)});
    if (transaction.remove_histories.front().through_execution == 0) known = Execution{};
  }
  Append append;
  append.token = held->lease.token;
  const bool opens = known.number == 0 || known.outcome;
  append.execution = opens ? known.number + 1 : known.number;
  append.expected_length = opens ? 0 : known.length;
  if (random_.one_in(15)) append.expected_length += 1;
  if (random_.one_in(20)) append.execution += 1;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n) {
    append.events.push_back("e" + std::to_string(gossip_.bodies++));
  }
  if (random_.one_in(40)) append.events.resize(many_events, "e");
  if (random_.one_in(4)) append.close = "completed";
  Execution after = known;
  after.number = append.execution;
  after.length = append.expected_length + append.events.size();
  after.outcome = append.close;
  transaction.appends.push_back(append);
  if (append.close && random_.one_in(2)) {  // continue-as-new
    Append next;
    next.token = append.token;
    next.execution = append.execution + 1;
    next.events = {"again"};
    transaction.appends.push_back(next);
    after.number = next.execution;
    after.length = 1;
    after.outcome.reset();
  }
  if (random_.one_in(3)) {
    transaction.trim_histories.push_back(
        {append.token, after.number, random_.below(after.length + 1 + random_.below(2))});
    if (random_.one_in(15)) transaction.trim_histories.back().execution += 1;
  }
  if (!random_.one_in(3)) transaction.settles.push_back(draw_settle(*held));
  if (random_.one_in(2)) transaction.sends.push_back(draw_send());
  const Token token = append.token;
  const bool ends =
      !transaction.settles.empty() && transaction.settles.front().then != Settle::Then::keep;
  submit(std::move(transaction), [this, token, ends, instance, after](const Result<Receipt>& r) {
    if (r) gossip_.executions[instance] = after;
    if (!r && r.error().code == Errc::history_mismatch) gossip_.executions.erase(instance);
    if ((r && ends) || (!r && r.error().code == Errc::lease_lost)) forget(token);
  });
}

// --- Misbehaving ---

void Client::mischief() {
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      return bad_token();
    case 3:
      return bad_id();
    case 4:
      return bad_settle();
    case 5:
      return bad_request();
    default:
      return bad_transaction();
  }
}

// Ids that are too old, from the future, already given up, or impossible.
void Client::bad_id() {
  Transaction transaction;
  transaction.sends.push_back(draw_send());
  TransactionId id{1000 + number_, next_transaction_++, world_.client_now(), 0};
  const Duration window = world_.plan().limits.transaction_window;
  switch (random_.below(5)) {
    case 0:
      id.time -= window;
      break;
    case 1:
      id.time += window + milliseconds{random_.between(0, 60'000)};
      break;
    case 2:
      id.number = random_.below(next_transaction_);
      break;
    case 3:
      id.lowest_unanswered = id.number + 1;
      break;
    default:
      id.lowest_unanswered = id.number;
      break;
  }
  transaction.id = id;
  world_.apply(transaction, waiting<Receipt>([](const auto&) {}));
}

// Names messages that the lease does not carry, or one of them twice.
void Client::bad_settle() {
  Held* held = draw_held(false);
  if (held == nullptr) return bad_token();
  Transaction transaction;
  Settle settle{held->lease.token, {}, Settle::Then::keep, "", {}, {}};
  for (const MessageId id : held->left)
    settle.outcomes.push_back(draw_outcome(id));
  switch (random_.below(3)) {
    case 0:
      settle.outcomes.push_back(draw_outcome(MessageId{1}));
      break;
    case 1:
      if (!settle.outcomes.empty()) settle.outcomes.push_back(settle.outcomes.front());
      break;
    default:
      settle.label = "red";
      transaction.settles.push_back(settle);
      break;
  }
  transaction.settles.push_back(settle);
  submit(std::move(transaction));
}

void Client::bad_request() {
  LeaseRequest request = draw_request();
  switch (random_.below(8)) {
    case 0:
      request.lanes = 0;
      break;
    case 1:
      request.messages = 0;
      break;
    case 2:
      request.seize = true;
      break;
    case 3:
      request.key = "";
      break;
    case 4:
      request.lease = milliseconds{0};
      break;
    case 5:
      request.lease = std::chrono::hours{25};
      break;
    case 6:
      request.lanes = world_.plan().limits.lease_lanes_max + 1;
      break;
    default:
      request.queue = "nowhere";
      break;
  }
  world_.lease(request, waiting<std::vector<Lease>>([](const auto&) {}));
}

// Old tokens, forged ones, and tokens of others: the fence must hold.
void Client::bad_token() {
  if (gossip_.tokens.empty()) return;
  Token token = random_.pick(gossip_.tokens);
  if (random_.one_in(4)) token = Token(token.epoch(), token.place(), token.seal() ^ 1U);
  if (random_.one_in(8)) {
    token =
        Token(Epoch{static_cast<std::uint64_t>(token.epoch()) + 1}, token.place(), token.seal());
  }
  world_.read_current(token);
  switch (random_.below(3)) {
    case 0:
      return world_.pull(token, Cursor{random_.below(3)}, {}, waiting<Pulled>([](const auto&) {}));
    case 1:
      return world_.renew(token, milliseconds{5000}, waiting<Time>([](const auto&) {}));
    default: {
      Transaction transaction;
      transaction.settles.push_back(Settle{token, {}, Settle::Then::end, "", {}, {}});
      if (random_.one_in(2)) transaction.sends.push_back(draw_send());
      return submit(std::move(transaction));
    }
  }
}

void Client::bad_transaction() {
  Transaction transaction;
  transaction.sends.push_back(draw_send());
  transaction.sends.push_back(draw_send());
  Send& bad = transaction.sends.back();
  switch (random_.below(12)) {
    case 0:
      bad.key = "";
      break;
    case 1:
      bad.queue = "";
      break;
    case 2:
      bad.queue = "a\nb";
      break;
    case 3:
      bad.body.assign(world_.plan().limits.body_bytes_max + 1, 'x');
      break;
    case 4:
      bad.delay = milliseconds{-1};
      break;
    case 5:
      bad.name = "";
      break;
    case 6:
      transaction.publishes.push_back(draw_publish());
      transaction.publishes.back().topic = "a..b";
      break;
    case 7:
      transaction.publishes.push_back(draw_publish());
      transaction.publishes.back().topic = "a.*";
      break;
    case 8:
      transaction.sends.resize(world_.plan().limits.transaction_operations_max + 1, draw_send());
      break;
    case 9:
      transaction.admin = PauseQueue{draw_queue()};
      break;
    case 10:
      transaction.records.push_back(
          {"s0", "r0", Bytes(world_.plan().limits.record_bytes_max + 1, 'x'), {}});
      break;
    default:
      bad.dedup_id = "";
      break;
  }
  submit(std::move(transaction));
}

}  // namespace strand::sim
