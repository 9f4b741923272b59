// Requests that must be refused, each for one reason, with the same code by both stores.

#include <tuple>

#include "differential/workload.h"

namespace strand::differential {

using std::chrono::milliseconds;

namespace {

// Nobody gave this id, in any store.
constexpr MessageId nobodys{std::uint64_t{1} << 40U};

}  // namespace

void Workload::flaw() {
  switch (random_.below(10)) {
    case 0:
    case 1:
      return bad_send();
    case 2:
      return bad_settle();
    case 3:
    case 4:
      return bad_token();
    case 5:
      return bad_id();
    case 6:
      return bad_administration();
    case 7:
      return bad_read();
    default:
      return bad_request();
  }
}

void Workload::bad_send() {
  Transaction transaction;
  Send fine;
  fine.queue = draw_queue();
  fine.body = draw_body();
  transaction.sends.assign(2, fine);
  Send& bad = transaction.sends.back();
  switch (random_.below(19)) {
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
      bad.body.assign(plan_.limits.body_bytes_max + 1, 'x');
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
      transaction.sends.resize(plan_.limits.transaction_operations_max + 1, fine);
      break;
    case 9:
      transaction.admin = PauseQueue{draw_queue()};
      break;
    case 10:
      transaction.records.push_back(
          {"s0", "r0", Bytes(plan_.limits.record_bytes_max + 1, 'x'), {}});
      break;
    case 11:
      bad.label = "\xff";
      break;
    case 12:
      bad.headers.push_back({"", "v"});
      break;
    case 13:
      bad.ttl = milliseconds{0};
      break;
    case 14:
      bad.key = std::string(plan_.limits.key_bytes_max + 1, 'k');
      break;
    case 15:
      bad.headers.push_back({"h", Bytes(plan_.limits.headers_bytes_max, 'v')});
      break;
    case 16:
      bad.name = std::string(plan_.limits.name_bytes_max + 1, 'n');
      break;
    case 17:
      bad.delay = plan_.limits.delay_max + milliseconds{1};
      break;
    default:
      bad.dedup_id = "";
      break;
  }
  std::ignore = stores_.apply(transaction);
}

// Names messages that the lease does not carry, one of them twice, or a lease twice; says too much.
void Workload::bad_settle() {
  const Held* const held = draw_held(false);
  if (held == nullptr) return bad_send();
  Transaction transaction;
  Settle settle;
  settle.token = held->token;
  settle.then = Settle::Then::keep;
  for (const MessageId id : held->left)
    settle.outcomes.push_back({.id = id, .kind = Outcome::Kind::release});
  switch (random_.below(5)) {
    case 0:
      settle.outcomes.push_back({.id = nobodys});
      break;
    case 3:
      settle.then = Settle::Then::park;
      settle.park_reason.assign(plan_.limits.reason_bytes_max + 1, 'r');
      break;
    case 4:
      // Too long a grace; or, without a key, a hint that a lease like this cannot have at all.
      settle.owner_hint = OwnerHint{
          .owner = "o1", .valid_for = milliseconds{5}, .grace = plan_.limits.owner_grace_max};
      if (held->key) settle.owner_hint->grace += milliseconds{1};
      break;
    case 1:
      if (settle.outcomes.empty()) return bad_send();
      settle.outcomes.push_back(settle.outcomes.front());
      break;
    default:
      transaction.settles.push_back(settle);
      break;
  }
  transaction.settles.push_back(settle);
  std::ignore = submit(transaction);
}

// Ids that are too old, from the future, already given up, or impossible.
void Workload::bad_id() {
  Transaction transaction;
  Send fine;
  fine.queue = draw_queue();
  fine.body = draw_body();
  transaction.sends.push_back(fine);
  TransactionId id = draw_transaction_id();
  const Duration window = plan_.limits.transaction_window;
  switch (random_.below(4)) {
    case 0:
      id.time -= window;
      break;
    case 1:
      id.time += window + milliseconds{random_.between(0, 2)};
      break;
    case 2:
      id.number = random_.below(next_transaction_);
      break;
    default:
      id.lowest_unanswered = id.number + 1;
      break;
  }
  transaction.id = id;
  std::ignore = stores_.apply(transaction);
}

// Old tokens, forged ones, and one of another store.
Token Workload::draw_bad_token() {
  const Token strangers{Epoch{1}, 1, 0x5eed};
  std::optional<Token> genuine;
  if (!known_.held.empty()) genuine = random_.pick(known_.held).token;
  switch (random_.below(5)) {
    case 0:
      return strangers;
    case 1:
      return genuine ? stores_.renaming().forged_seal(*genuine) : strangers;
    case 2:
      return genuine ? stores_.renaming().forged_epoch(*genuine) : strangers;
    default:
      return known_.ended.empty() ? strangers : random_.pick(known_.ended);
  }
}

void Workload::bad_token() {
  const Token token = draw_bad_token();
  Transaction transaction;
  switch (random_.below(7)) {
    case 0:
      std::ignore = stores_.pull(token, Cursor{1}, {});
      return;
    case 1:
      stores_.renew({token}, milliseconds{5000});
      return;
    case 2:
      transaction.appends.push_back(
          {.token = token, .execution = 1, .expected_length = 0, .events = {"e"}, .close = {}});
      break;
    case 3:
      transaction.remove_histories.push_back({.token = token, .through_execution = 0});
      break;
    case 4:
      transaction.trim_histories.push_back({.token = token, .execution = 1, .before = 0});
      break;
    default:
      transaction.settles.push_back({.token = token});
      break;
  }
  if (random_.one_in(2)) transaction.sends.push_back(draw_send());
  std::ignore = submit(transaction);
}

void Workload::bad_request() {
  LeaseRequest request = draw_request();
  request.request.reset();
  const Held* const held = draw_held(false);
  switch (random_.below(11)) {
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
      request.lanes = plan_.limits.lease_lanes_max + 1;
      break;
    case 7:
      request.labels = {"a\tb"};
      break;
    case 8:
      if (held != nullptr) stores_.renew({held->token}, milliseconds{0});
      return;
    case 9:
      if (held != nullptr) std::ignore = stores_.pull(held->token, held->cursor, {.messages = 0});
      return;
    default:
      request.queue = "nowhere";
      break;
  }
  std::ignore = stores_.lease(request);
}

void Workload::bad_administration() {
  const std::string queue = draw_queue();
  QueueSettings settings = draw_queue_settings();
  switch (random_.below(10)) {
    case 0:
      std::ignore = administer(PauseQueue{"nowhere"});
      return;
    case 1:
      std::ignore = administer(ResumeLane{queue, std::nullopt, nobodys});
      return;
    case 2:
      std::ignore = administer(ResumeLane{queue, std::nullopt, std::nullopt});
      return;
    case 3:
      std::ignore = administer(Redrive{queue, {nobodys}, std::nullopt});
      return;
    case 4:
      std::ignore = administer(DropDead{queue, {nobodys}});
      return;
    case 5:
      std::ignore = administer(Subscribe{queue, "a.#.b", std::nullopt});
      return;
    case 6:
      settings.backoff_jitter_percent = 101;
      std::ignore = administer(ConfigureQueue{queue, settings});
      return;
    case 7:
      settings.lease = milliseconds{0};
      std::ignore = administer(ConfigureQueue{queue, settings});
      return;
    case 8:
      std::ignore = administer(RemoveQueue{"nowhere", true});
      return;
    default:
      std::ignore = administer(ConfigureTopic{"a.*", TopicSettings{milliseconds{5}}});
      return;
  }
}

void Workload::bad_read() {
  const std::string queue = draw_queue();
  switch (random_.below(9)) {
    case 0:
      std::ignore = stores_.stats("nowhere");
      return;
    case 1:
      std::ignore = stores_.peek({.queue = "nowhere"});
      return;
    case 2:
      std::ignore = stores_.peek({.queue = queue, .limit = 0});
      return;
    case 3:
      std::ignore = stores_.peek({.queue = queue, .key = draw_key(), .after = nobodys});
      return;
    case 4:
      std::ignore = stores_.dead_letters({.queue = queue, .limit = plan_.limits.page_max + 1});
      return;
    case 5:
      std::ignore = stores_.dead_letters({.queue = "nowhere"});
      return;
    case 6:
      std::ignore = stores_.history({.queue = queue, .key = "nobody"});
      return;
    case 7:
      std::ignore = stores_.instances({.queue = "nowhere"});
      return;
    default:
      std::ignore = stores_.records({.space = "", .limit = 1});
      return;
  }
}

}  // namespace strand::differential
