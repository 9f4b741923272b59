// Sends, publications, cancels and records, and how transactions are put together.

#include <tuple>
#include <utility>

#include "differential/workload.h"

namespace strand::differential {

using std::chrono::milliseconds;

namespace {

// Few are remembered, so that what is repeated is mostly recent.
constexpr std::size_t remembered_max = 8;

template <class T>
void remember(std::vector<T>& list, const T& item) {
  list.push_back(item);
  if (list.size() > remembered_max) list.erase(list.begin());
}

}  // namespace

// --- Things to ask for: few names, so that requests meet each other ---

const std::vector<std::string>& Workload::queue_names() {
  static const std::vector<std::string> names = {"jobs", "mail", "wf", "alarms"};
  return names;
}

std::string Workload::draw_queue() {
  return queue_names().at(static_cast<std::size_t>(random_.below(plan_.queue_count)));
}

std::string Workload::draw_key() { return "k" + std::to_string(random_.below(plan_.key_count)); }

std::string Workload::draw_label() {
  return random_.pick(std::vector<std::string>{"", "red", "blue"});
}

std::string Workload::draw_topic() {
  return random_.pick(std::vector<std::string>{"order", "order.paid", "order.paid.eu", "user.new"});
}

std::string Workload::draw_pattern() {
  return random_.pick(std::vector<std::string>{"#", "order.#", "order.*", "*", "user.new",
                                               "*.paid.*", "order.paid"});
}

std::string Workload::draw_message_name() { return "n" + std::to_string(random_.below(4)); }

// Names its step, so that a trace can be read.
std::string Workload::draw_body() {
  std::string body = "m" + std::to_string(step_) + "." + std::to_string(++next_body_);
  if (random_.one_in(6)) body.append(static_cast<std::size_t>(random_.below(700)), 'x');
  if (random_.one_in(30)) body += std::string("\0\xff\n", 3);
  return body;
}

Duration Workload::draw_wait() {
  const std::int64_t pace = plan_.pace_ms;
  return milliseconds{random_.pick(std::vector<std::int64_t>{0, 1, pace, pace * 3, pace * 10, 1000,
                                                             5000, random_.between(0, 20'000)})};
}

void Workload::draw_content(Content& content) {
  if (!random_.one_in(4)) content.key = draw_key();
  content.body = draw_body();
  if (random_.one_in(60)) content.body.resize(plan_.limits.body_bytes_max, 'y');
  if (random_.one_in(5)) {
    content.headers.push_back({"h" + std::to_string(random_.below(3)), "v"});
    if (random_.one_in(3)) content.headers.push_back(content.headers.front());
  }
  if (random_.one_in(3)) content.priority = static_cast<Priority>(random_.below(4));
  if (random_.one_in(4)) content.delay = draw_wait();
  if (random_.one_in(6)) content.ttl = draw_wait() + milliseconds{1};
  if (random_.one_in(5)) content.dedup_id = "d" + std::to_string(random_.below(4));
}

Send Workload::draw_send() {
  Send send;
  draw_content(send);
  send.queue = draw_queue();
  if (random_.one_in(4)) send.label = draw_label();
  if (random_.one_in(4)) send.name = draw_message_name();
  if (random_.one_in(5)) send.max_attempts = static_cast<std::uint32_t>(random_.below(3));
  if (random_.one_in(5)) {
    send.dead_notice_to = Address{draw_queue(), std::nullopt};
    if (!random_.one_in(3)) send.dead_notice_to->key = draw_key();
  }
  return send;
}

Publish Workload::draw_publish() {
  Publish publish;
  draw_content(publish);
  publish.topic = draw_topic();
  return publish;
}

WriteRecord Workload::draw_record() {
  WriteRecord write;
  write.space = "s" + std::to_string(random_.below(2));
  write.key = "r" + std::to_string(random_.below(3));
  if (!random_.one_in(5)) write.value = "v" + draw_body().substr(0, 100);
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2: {
      // The version it has. Reading it first is what a client does as well.
      const Result<std::optional<Record>> record = stores_.record(write.space, write.key);
      write.expected = record && *record ? (*record)->version : Version{0};
      break;
    }
    case 3:
      if (!known_.versions.empty()) write.expected = random_.pick(known_.versions);
      break;
    case 4:
      if (!known_.versions.empty()) {
        write.expected = stores_.renaming().forged(known_.versions.back());
      }
      break;
    case 5:
      write.expected = Version{0};
      break;
    default:
      break;
  }
  return write;
}

void Workload::mix_in(Transaction& transaction) {
  if (random_.one_in(10))
    transaction.cancels.push_back({draw_queue(), draw_message_name(), random_.one_in(2)});
  if (random_.one_in(4)) transaction.sends.push_back(draw_send());
  if (random_.one_in(10)) transaction.publishes.push_back(draw_publish());
  if (random_.one_in(12)) transaction.records.push_back(draw_record());
}

// --- Steps ---

void Workload::send() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 4); n > 0; --n)
    transaction.sends.push_back(draw_send());
  mix_in(transaction);
  std::ignore = submit(transaction);
}

void Workload::publish() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 2); n > 0; --n)
    transaction.publishes.push_back(draw_publish());
  mix_in(transaction);
  std::ignore = submit(transaction);
}

void Workload::cancel() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n) {
    std::string queue = draw_queue();
    std::string name = draw_message_name();
    // Mostly a name that there is.
    if (const auto page = stores_.peek({.queue = queue}); page && !random_.one_in(4)) {
      for (const PeekedMessage& message : page->items) {
        if (message.name) name = *message.name;
      }
    }
    transaction.cancels.push_back(
        {.queue = std::move(queue), .name = std::move(name), .quiet = random_.one_in(2)});
  }
  mix_in(transaction);
  std::ignore = submit(transaction);
}

void Workload::write_record() {
  Transaction transaction;
  for (std::int64_t n = random_.between(1, 3); n > 0; --n)
    transaction.records.push_back(draw_record());
  std::ignore = submit(transaction);
}

void Workload::several() {
  std::vector<Transaction> transactions;
  for (std::int64_t n = random_.between(2, 4); n > 0; --n) {
    Transaction transaction = random_.one_in(2) ? draw_settling() : Transaction{};
    if (transaction.settles.empty()) transaction.sends.push_back(draw_send());
    mix_in(transaction);
    transactions.push_back(std::move(transaction));
  }
  // The same once more in the same call: the second gets the receipt of the first.
  if (random_.one_in(3)) {
    transactions.front().id = draw_transaction_id();
    transactions.push_back(transactions.front());
  }
  submit(std::move(transactions));
}

void Workload::repeat() {
  if (known_.transactions.empty()) return send();
  Transaction transaction = random_.pick(known_.transactions);
  const bool changed = random_.one_in(3);
  if (changed) {
    transaction.admin.reset();
    transaction.sends.push_back(draw_send());
  }
  if (random_.one_in(6)) transaction.durability = Durability::async;
  const Result<Receipt> result = stores_.apply(transaction);
  if (result) count(changed ? "transaction id used again" : "transaction repeated");
}

// --- Putting it together ---

TransactionId Workload::draw_transaction_id() {
  TransactionId id;
  id.client = 1000;
  id.number = next_transaction_++;
  id.time = stores_.now();
  const std::uint64_t unanswered = random_.below(12);
  id.lowest_unanswered = id.number > unanswered ? id.number - unanswered : 1;
  return id;
}

Result<Receipt> Workload::submit(const Transaction& transaction) {
  return submit(std::vector{transaction}).at(0);
}

std::vector<Result<Receipt>> Workload::submit(std::vector<Transaction> transactions) {
  for (Transaction& transaction : transactions) {
    if (random_.one_in(3)) transaction.durability = Durability::async;
    if (!transaction.id && random_.one_in(3)) transaction.id = draw_transaction_id();
  }
  std::vector<Result<Receipt>> results = stores_.apply(transactions);
  for (std::size_t i = 0; i < results.size(); ++i)
    learn(transactions[i], results[i]);
  return results;
}

void Workload::learn(const Transaction& transaction, const Result<Receipt>& result) {
  if (transaction.id) remember(known_.transactions, transaction);
  for (const Settle& settle : transaction.settles) {
    if (result) settled(settle);
    if (!result && result.error().code == Errc::lease_lost) forget(settle.token);
  }
  if (!result) return;
  for (std::size_t i = 0; i < result->sent.size(); ++i) {
    const Send& send = transaction.sends.at(i);
    if (result->sent[i].duplicate) count("send duplicate");
    if (send.delay > Duration{0}) known_.times.insert(result->time + send.delay);
    if (send.ttl) known_.times.insert(result->time + *send.ttl);
    if (send.dedup_id) count("send with dedup id");
  }
  for (const Published& published : result->published) {
    if (published.duplicate) count("publish duplicate");
    if (published.matched > 0) count("publish matched");
  }
  for (const bool cancelled : result->cancelled)
    count(cancelled ? "cancelled" : "nothing to cancel");
  for (std::size_t i = 0; i < result->versions.size(); ++i) {
    remember(known_.versions, result->versions[i]);
    if (transaction.records.at(i).expected) count("record with its version");
    if (!transaction.records.at(i).value) count("record removed");
  }
  for (const Append& append : transaction.appends)
    count(append.close ? "history closed" : "history appended");
  if (!transaction.remove_histories.empty()) count("history removed");
  for (const TrimHistory& trim : transaction.trim_histories) {
    if (trim.before > 0) count(trim.before > many_events / 2 ? "much trimmed" : "history trimmed");
  }
}

}  // namespace strand::differential
