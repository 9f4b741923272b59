#include "sim/client.h"

#include <algorithm>

#include "model/text.h"

namespace strand::sim {
namespace {

// How often each role does each Action, in their order.
using Weights = std::array<std::uint64_t, action_count>;
//                          send pub lease key seize pull renew settle cancel rec turn rep adm read
//                          bad
constexpr Weights producer = {20, 6, 0, 0, 0, 0, 0, 0, 4, 6, 0, 6, 2, 2, 1};
constexpr Weights consumer = {2, 1, 14, 3, 1, 6, 5, 18, 2, 2, 0, 6, 2, 2, 2};
constexpr Weights workflow = {3, 0, 10, 6, 2, 4, 3, 4, 2, 3, 16, 6, 0, 3, 2};
constexpr Weights operator_ = {1, 1, 0, 1, 3, 0, 0, 1, 1, 0, 0, 2, 20, 8, 2};
constexpr Weights onlooker = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 4};

const Weights& weights_of(Role role) {
  switch (role) {
    case Role::producer:
      return producer;
    case Role::consumer:
      return consumer;
    case Role::workflow:
      return workflow;
    case Role::operator_:
      return operator_;
    case Role::onlooker:
      return onlooker;
  }
  return producer;
}

}  // namespace

Client::Client(World& world, Gossip& gossip, std::uint64_t number, Role role)
    : world_(world),
      gossip_(gossip),
      number_(number),
      role_(role),
      random_(Random(world.plan().seed).fork(100 + number)) {}

void Client::start() { think(); }

void Client::think() {
  if (stopped_) return;
  const auto pace = static_cast<std::int64_t>(world_.plan().pace_ms);
  // Now and then a client stalls, past its leases.
  const std::int64_t pause =
      random_.one_in(40) ? random_.between(pace, 60'000) : random_.between(1, 2 * pace);
  world_.after(pause, [this] { wake(); });
}

void Client::wake() {
  if (stopped_) return;
  if (waits_) {
    // Loses patience at some time: the answer was lost, or comes too late.
    if (patience_-- > 0) return think();
    waits_ = false;
  }
  world_.draw_accidents();
  act();
  think();
}

Action Client::draw_action() {
  const Weights& weights = weights_of(role_);
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : weights)
    sum += weight;
  std::uint64_t drawn = random_.below(sum);
  for (std::size_t i = 0; i < action_count; ++i) {
    if (drawn < weights.at(i)) return static_cast<Action>(i);
    drawn -= weights.at(i);
  }
  return Action::read;
}

void Client::act() {
  const Action action = draw_action();
  if (!world_.plan().actions.at(static_cast<std::size_t>(action))) return;
  switch (action) {
    case Action::send:
      return send();
    case Action::publish:
      return publish();
    case Action::lease:
      return lease();
    case Action::lease_key:
      return lease_key();
    case Action::seize:
      return seize();
    case Action::pull:
      return pull();
    case Action::renew:
      return renew();
    case Action::settle:
      return settle();
    case Action::cancel:
      return cancel();
    case Action::write_record:
      return write_record();
    case Action::turn:
      return turn();
    case Action::repeat:
      return repeat();
    case Action::administer:
      return administer();
    case Action::read:
      return read();
    case Action::mischief:
      return mischief();
  }
}

void Client::submit(Transaction transaction, const World::Reply<Receipt>& reply) {
  if (random_.one_in(3)) transaction.durability = Durability::async;
  if (random_.one_in(2)) {
    TransactionId id;
    id.client = 1000 + number_;
    id.number = next_transaction_++;
    id.time = world_.client_now();
    unanswered_.emplace(id.number, Transaction{});
    if (unanswered_.size() > 3) unanswered_.erase(unanswered_.begin());
    id.lowest_unanswered = unanswered_.begin()->first;
    transaction.id = id;
    unanswered_[id.number] = transaction;
  }
  last_transaction_ = transaction;
  world_.apply(transaction, waiting<Receipt>([this, transaction, reply](const Result<Receipt>& r) {
                 got_receipt(transaction, r);
                 if (reply) reply(r);
               }));
}

void Client::got_receipt(const Transaction& transaction, const Result<Receipt>& result) {
  const bool known = result || !(result.error().code == Errc::unknown_outcome ||
                                 result.error().code == Errc::unavailable);
  // A client counts a failure as an answer too; the number is not used again.
  if (transaction.id && known && !random_.one_in(3)) unanswered_.erase(transaction.id->number);
  if (!result) return;
  for (std::size_t i = 0; i < transaction.records.size(); ++i) {
    gossip_.records[{transaction.records[i].space, transaction.records[i].key}] =
        result->versions[i];
  }
}

// --- Producing ---

void Client::send() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n)
    transaction.sends.push_back(draw_send());
  if (random_.one_in(8)) transaction.publishes.push_back(draw_publish());
  if (random_.one_in(8)) transaction.records.push_back(draw_record());
  submit(std::move(transaction));
}

void Client::publish() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 2); n > 0; --n) {
    transaction.publishes.push_back(draw_publish());
  }
  submit(std::move(transaction));
}

void Client::cancel() {
  Transaction transaction;
  transaction.cancels.push_back(
      {draw_queue(), "n" + std::to_string(random_.below(4)), random_.one_in(2)});
  // The name is free for a send of the same transaction.
  if (random_.one_in(2)) {
    Send send = draw_send();
    send.queue = transaction.cancels.front().queue;
    send.name = transaction.cancels.front().name;
    transaction.sends.push_back(std::move(send));
  }
  submit(std::move(transaction));
}

void Client::write_record() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n) {
    transaction.records.push_back(draw_record());
  }
  submit(std::move(transaction));
}

void Client::repeat() {
  if (random_.one_in(2) && last_request_) return ask(*last_request_);
  std::optional<Transaction> again = last_transaction_;
  if (random_.one_in(2) && !unanswered_.empty()) again = unanswered_.begin()->second;
  if (!again || !again->id) return;
  if (random_.one_in(6)) again->sends.push_back(draw_send());  // other content: a conflict
  if (random_.one_in(6)) again->durability = Durability::sync;
  const Transaction transaction = *again;
  world_.apply(transaction, waiting<Receipt>([this, transaction](const Result<Receipt>& r) {
                 got_receipt(transaction, r);
               }));
}

// --- Looking after it ---

void Client::administer() {
  Transaction transaction;
  transaction.admin = draw_administration();
  submit(std::move(transaction));
}

void Client::read() {
  const std::string queue = draw_queue();
  switch (random_.below(8)) {
    case 0:
      return world_.read_stats(queue);
    case 1:
      return world_.read_lists();
    case 2:
    case 3: {
      PeekQuery query;
      query.queue = queue;
      if (random_.one_in(2)) query.key = draw_key();
      if (random_.one_in(2)) query.state = static_cast<MessageState>(random_.below(6));
      query.limit = static_cast<std::size_t>(random_.between(1, 20));
      return world_.read_peek(query, [this, query](const Result<Page<PeekedMessage>>& page) {
        if (!page->more || query.state || page->items.empty()) return;
        PeekQuery next = query;
        next.after = page->items.back().id;
        world_.read_peek(next, {});
      });
    }
    case 4: {
      DeadLettersQuery query;
      query.queue = queue;
      query.limit = static_cast<std::size_t>(random_.between(1, 20));
      return world_.read_dead_letters(query, [this, queue](const Result<Page<DeadLetter>>& page) {
        if (!page) return;
        std::vector<MessageId>& ids = gossip_.dead[queue];
        ids.clear();
        for (const DeadLetter& letter : page->items)
          ids.push_back(letter.id);
      });
    }
    case 5: {
      HistoryQuery query;
      query.queue = queue;
      query.key = draw_key();
      query.execution = random_.below(4);
      query.from = random_.below(4);
      query.limit = static_cast<std::size_t>(random_.between(1, 5));
      return world_.read_history(query);
    }
    case 6: {
      InstancesQuery query;
      query.queue = queue;
      if (random_.one_in(2)) query.open = random_.one_in(2);
      if (random_.one_in(3)) query.after = draw_key();
      query.limit = static_cast<std::size_t>(random_.between(1, 5));
      return world_.read_instances(query);
    }
    default: {
      const WriteRecord some = draw_record();
      world_.read_record(some.space, some.key);
      RecordsQuery query;
      query.space = some.space;
      if (random_.one_in(2)) query.after = "r1";
      query.prefix = random_.one_in(2) ? "r" : "";
      query.limit = static_cast<std::size_t>(random_.between(1, 3));
      return world_.read_records(query);
    }
  }
}

}  // namespace strand::sim
