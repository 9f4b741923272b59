// Leases, pulls, renewals, outcomes, turns of workflows.

#include <algorithm>
#include <tuple>

#include "differential/workload.h"

namespace strand::differential {

using std::chrono::milliseconds;

namespace {

constexpr std::size_t held_max = 12;

void bounded(std::vector<Token>& tokens) {
  if (tokens.size() > held_max) tokens.erase(tokens.begin());
}

}  // namespace

// --- Getting work ---

// A notice tells an id as text, which may have another length in each store: a limit of bytes would
// then cut in different places.
std::size_t Workload::draw_bytes(const std::string& queue, std::size_t otherwise) {
  const auto drawn = static_cast<std::size_t>(random_.between(0, 900));
  const auto page = stores_.peek({.queue = queue, .limit = 1000});
  if (!page) return drawn;
  const bool has_notices = std::ranges::any_of(page->items, [](const PeekedMessage& message) {
    return std::ranges::find(message.headers, notice_id_header, &Header::name) !=
           message.headers.end();
  });
  return has_notices ? otherwise : drawn;
}

LeaseRequest Workload::draw_request() {
  LeaseRequest request;
  request.queue = draw_queue();
  if (random_.one_in(5)) {
    for (std::uint64_t n = random_.below(3); n > 0; --n)
      request.labels.push_back(draw_label());
  }
  if (random_.one_in(2)) request.owner = "o" + std::to_string(random_.below(3));
  if (random_.one_in(3)) request.request = RequestId{7, next_request_++};
  request.lanes = random_.one_in(2) ? 1 : static_cast<std::uint32_t>(random_.between(1, 6));
  request.messages = static_cast<std::uint32_t>(random_.one_in(2) ? 100 : random_.between(1, 5));
  if (random_.one_in(5)) request.bytes = draw_bytes(request.queue, request.bytes);
  if (random_.one_in(2)) request.lease = draw_wait() + milliseconds{1};
  if (random_.one_in(6)) request.history_from = random_.below(3);
  if (random_.one_in(3)) request.history_limit = static_cast<std::size_t>(random_.below(4));
  return request;
}

void Workload::ask(const LeaseRequest& request) {
  if (request.request) {
    known_.requests.push_back(request);
    if (known_.requests.size() > held_max) known_.requests.erase(known_.requests.begin());
  }
  const Result<std::vector<Lease>> leases = stores_.lease(request);
  if (!leases) return;
  if (leases->size() > 1) count("several leases at once");
  for (const Lease& lease : *leases) {
    count("leased");
    if (lease.isolated) count("leased isolated");
    if (lease.more) count("leased with more behind");
    if (lease.history && lease.history->execution.number > 0) count("leased with history");
    if (lease.history && lease.history->events.size() == request.history_limit &&
        lease.history->first + request.history_limit < lease.history->execution.length) {
      count("leased with a part of the history");
    }
    forget(lease.token);
    Held held{.token = lease.token,
              .queue = lease.queue,
              .key = lease.key,
              .left = {},
              .cursor = lease.cursor,
              .old_cursors = {}};
    for (const Message& message : lease.messages) {
      held.left.push_back(message.id);
      take_note(message);
    }
    known_.times.insert(lease.expires_at);
    known_.held.push_back(std::move(held));
    if (known_.held.size() > held_max) {
      known_.ended.push_back(known_.held.front().token);
      known_.held.erase(known_.held.begin());
    }
  }
  bounded(known_.ended);
}

void Workload::take_note(const Message& message) {
  if (message.expires_at) known_.times.insert(*message.expires_at);
  if (message.attempts > 0) count("leased again after a failure");
  for (const Header& header : message.headers) {
    if (header.name == notice_id_header) count("notice leased");
  }
}

void Workload::lease() { ask(draw_request()); }

void Workload::lease_key() {
  LeaseRequest request = draw_request();
  request.key = draw_key();
  ask(request);
}

void Workload::seize() {
  LeaseRequest request = draw_request();
  request.key = draw_key();
  request.seize = true;
  ask(request);
}

void Workload::repeat_request() {
  if (known_.requests.empty()) return lease();
  const LeaseRequest request = random_.pick(known_.requests);
  const Result<std::vector<Lease>> leases = stores_.lease(request);
  if (!leases) return;
  count(leases->empty() ? "request repeated, nothing left" : "request repeated");
}

// The one that was leased last, more often than others.
Held* Workload::draw_held(bool keyed) {
  std::vector<Held*> fit;
  for (Held& held : known_.held) {
    if (!keyed || held.key) fit.push_back(&held);
  }
  if (fit.empty()) return nullptr;
  return random_.one_in(2) ? fit.back() : random_.pick(fit);
}

void Workload::forget(const Token& token) {
  if (std::erase_if(known_.held, [&](const Held& held) { return held.token == token; }) == 0) {
    return;
  }
  known_.ended.push_back(token);
  bounded(known_.ended);
}

void Workload::pull() {
  Held* const held = draw_held(!random_.one_in(12));
  if (held == nullptr) return lease();
  // A pull has more to bring when something has come meanwhile.
  if (held->key && random_.one_in(2)) {
    Transaction transaction;
    transaction.sends.push_back(draw_send());
    transaction.sends.back().queue = held->queue;
    transaction.sends.back().key = held->key;
    std::ignore = submit(transaction);
  }
  Cursor cursor = held->cursor;
  const bool before = random_.one_in(3) && !held->old_cursors.empty();
  if (before) cursor = held->old_cursors.back();
  if (random_.one_in(10) && !held->old_cursors.empty()) cursor = held->old_cursors.front();
  if (random_.one_in(15)) cursor = stores_.renaming().forged(held->token, cursor);
  PullLimits limits;
  if (random_.one_in(2)) limits.messages = static_cast<std::uint32_t>(random_.between(1, 3));
  if (random_.one_in(4)) limits.bytes = draw_bytes(held->queue, limits.bytes);

  const Result<Pulled> pulled = stores_.pull(held->token, cursor, limits);
  if (!pulled && pulled.error().code == Errc::lease_lost) return forget(held->token);
  if (!pulled) return;
  if (!pulled->messages.empty()) count(before ? "pull repeated" : "pulled");
  if (pulled->cursor != held->cursor) {
    held->old_cursors.push_back(held->cursor);
    held->cursor = pulled->cursor;
    // The answer was lost: the same pull again brings the same.
    if (random_.one_in(3)) {
      const Result<Pulled> again = stores_.pull(held->token, cursor, limits);
      if (again && !again->messages.empty()) count("pull repeated");
    }
  }
  for (const Message& message : pulled->messages) {
    take_note(message);
    if (std::ranges::find(held->left, message.id) == held->left.end()) {
      held->left.push_back(message.id);
    }
  }
}

void Workload::renew() {
  std::vector<Token> tokens;
  for (const Held& held : known_.held) {
    if (tokens.empty() || random_.one_in(3)) tokens.push_back(held.token);
  }
  if (tokens.empty()) return lease();
  if (random_.one_in(4) && !known_.ended.empty()) tokens.push_back(random_.pick(known_.ended));
  const std::vector<Result<Time>> ends = stores_.renew(tokens, draw_wait() + milliseconds{1});
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i]) known_.times.insert(*ends[i]);
    if (!ends[i] && ends[i].error().code == Errc::lease_lost) forget(tokens[i]);
  }
}

// --- Finishing it ---

Outcome Workload::draw_outcome(MessageId id) {
  Outcome outcome;
  outcome.id = id;
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      return outcome;
    case 3:
    case 4:
      outcome.kind = Outcome::Kind::retry;
      outcome.reason = "broken";
      return outcome;
    case 5:
      outcome.kind = Outcome::Kind::retry;
      outcome.delay = draw_wait();
      outcome.reason = "later";
      known_.times.insert(stores_.now() + *outcome.delay);
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

Settle Workload::draw_settle(const Held& held) {
  Settle settle;
  settle.token = held.token;
  for (const MessageId id : held.left) {
    if (!random_.one_in(4)) settle.outcomes.push_back(draw_outcome(id));
  }
  if (random_.one_in(4)) std::ranges::reverse(settle.outcomes);
  if (random_.one_in(3)) settle.then = Settle::Then::keep;
  if (random_.one_in(12)) {
    settle.then = Settle::Then::park;
    settle.park_reason = "stopped by its holder";
  }
  if (held.key && random_.one_in(8)) settle.label = draw_label();
  if (held.key && random_.one_in(6)) {
    settle.owner_hint = OwnerHint{.owner = "o" + std::to_string(random_.below(3)),
                                  .valid_for = draw_wait(),
                                  .grace = milliseconds{random_.between(0, 1000)}};
    known_.times.insert(stores_.now() + settle.owner_hint->valid_for);
    known_.times.insert(stores_.now() + settle.owner_hint->grace);
  }
  return settle;
}

// One or two settles, or none if nothing is held.
Transaction Workload::draw_settling() {
  Transaction transaction;
  const Held* const held = draw_held(false);
  if (held == nullptr) return transaction;
  transaction.settles.push_back(draw_settle(*held));
  const Held* const other = draw_held(false);
  if (random_.one_in(5) && other->token != held->token) {
    transaction.settles.push_back(draw_settle(*other));
  }
  return transaction;
}

void Workload::settle() {
  if (known_.held.empty()) lease();
  Transaction transaction = draw_settling();
  if (transaction.settles.empty()) return;
  mix_in(transaction);
  std::ignore = submit(transaction);
}

void Workload::settled(const Settle& settle) {
  static const std::vector<std::string> outcomes = {"ack", "retry", "dead", "release"};
  static const std::vector<std::string> endings = {"lease ended", "lease kept", "lane parked"};
  for (const Outcome& outcome : settle.outcomes)
    count(outcomes.at(static_cast<std::size_t>(outcome.kind)));
  count(endings.at(static_cast<std::size_t>(settle.then)));
  if (settle.label) count("label given");
  if (settle.owner_hint) count("owner hint given");
  if (settle.then != Settle::Then::keep) return forget(settle.token);
  for (Held& held : known_.held) {
    if (held.token != settle.token) continue;
    for (const Outcome& outcome : settle.outcomes)
      std::erase(held.left, outcome.id);
  }
}

TrimHistory Workload::draw_trim(const Token& token, std::uint64_t execution, std::uint64_t length) {
  TrimHistory trim{.token = token, .execution = execution, .before = random_.below(length + 1)};
  if (random_.one_in(10)) trim.before = length + random_.below(2);
  if (random_.one_in(12)) trim.execution += 1;
  return trim;
}

// One turn of a workflow: append what happened, finish what was leased, send what follows.
void Workload::turn() {
  const Held* const held = draw_held(true);
  if (held == nullptr) {
    LeaseRequest request = draw_request();
    request.key = draw_key();
    request.history_from = 0;
    request.seize = random_.one_in(4);
    return ask(request);
  }
  Execution known;
  if (const auto history = stores_.history({.queue = held->queue, .key = *held->key, .limit = 1})) {
    known = history->execution;
  }
  Transaction transaction;
  if (random_.one_in(10)) {
    const std::uint64_t through = random_.one_in(2) ? 0 : random_.below(3);
    transaction.remove_histories.push_back({held->token, through});
    if (through == 0) known = Execution{};
  }
  Append append;
  append.token = held->token;
  const bool opens = known.number == 0 || known.outcome;
  append.execution = opens ? known.number + 1 : known.number;
  append.expected_length = opens ? 0 : known.length;
  if (random_.one_in(15)) append.expected_length += 1;
  if (random_.one_in(10) && append.expected_length > 0) append.expected_length -= 1;
  if (random_.one_in(20)) append.execution += 1;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n)
    append.events.push_back("e" + draw_body());
  if (random_.one_in(20)) append.events.resize(many_events, "e");
  if (random_.one_in(4)) append.close = "completed";
  transaction.appends.push_back(append);
  if (append.close && random_.one_in(2)) {  // continue-as-new
    Append next;
    next.token = append.token;
    next.execution = append.execution + 1;
    next.events = {"again"};
    transaction.appends.push_back(next);
  }
  if (random_.one_in(3)) {
    const Append& last = transaction.appends.back();
    const std::uint64_t length = last.expected_length + last.events.size();
    transaction.trim_histories.push_back(draw_trim(last.token, last.execution, length));
  }
  if (!random_.one_in(3)) transaction.settles.push_back(draw_settle(*held));
  mix_in(transaction);
  std::ignore = submit(transaction);
}

}  // namespace strand::differential
