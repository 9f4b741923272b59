// Reads of all kinds; the survey of all there is, and the drain at the end of a history.

#include <string>
#include <tuple>

#include "differential/workload.h"
#include "model/text.h"

namespace strand::differential {

namespace {

constexpr std::size_t page = 1000;

}  // namespace

void Workload::read() {
  const std::string queue = draw_queue();
  switch (random_.below(8)) {
    case 0:
      std::ignore = stores_.stats(queue);
      return;
    case 1:
      std::ignore = stores_.queues();
      std::ignore = stores_.subscriptions();
      std::ignore = stores_.topics();
      return;
    case 2:
      read_records();
      return;
    case 3:
    case 4:
      read_instances(queue);
      return;
    default:
      read_messages(queue);
      return;
  }
}

// Page by page, to the end.
void Workload::read_messages(const std::string& queue) {
  const auto limit = static_cast<std::size_t>(random_.between(1, 6));
  if (random_.one_in(4)) {
    DeadLettersQuery query{.queue = queue, .after = {}, .limit = limit};
    for (auto letters = stores_.dead_letters(query); letters && letters->more;
         letters = stores_.dead_letters(query)) {
      query.after = letters->items.back().id;
      count("second page of dead letters");
    }
    return;
  }
  PeekQuery query{.queue = queue, .key = {}, .state = {}, .after = {}, .limit = limit};
  if (random_.one_in(2)) query.key = draw_key();
  if (random_.one_in(2)) query.state = static_cast<MessageState>(random_.below(6));
  for (auto peeked = stores_.peek(query); peeked && peeked->more; peeked = stores_.peek(query)) {
    query.after = peeked->items.back().id;
    count("second page of messages");
  }
}

void Workload::read_instances(const std::string& queue) {
  InstancesQuery query{.queue = queue, .open = {}, .after = {}, .limit = 2};
  if (random_.one_in(2)) query.open = random_.one_in(2);
  if (random_.one_in(3)) query.after = draw_key();
  std::ignore = stores_.instances(query);
  std::ignore = stores_.history({.queue = queue,
                                 .key = draw_key(),
                                 .execution = random_.below(4),
                                 .from = random_.below(4),
                                 .limit = static_cast<std::size_t>(random_.between(1, 5))});
}

void Workload::read_records() {
  const std::string space = "s" + std::to_string(random_.below(2));
  std::ignore = stores_.record(space, "r" + std::to_string(random_.below(4)));
  std::ignore = stores_.records({.space = space,
                                 .prefix = random_.one_in(2) ? "r" : "",
                                 .after = random_.one_in(2) ? "r1" : "",
                                 .limit = static_cast<std::size_t>(random_.between(1, 3))});
}

// --- Everything ---

void Workload::survey() {
  static_cast<void>(stores_.now());
  const Result<std::vector<QueueInfo>> queues = stores_.queues();
  if (!queues) return;
  for (const QueueInfo& info : *queues)
    survey_queue(info.name);
  std::ignore = stores_.subscriptions();
  std::ignore = stores_.topics();
  for (const char* const space : {"s0", "s1"})
    std::ignore = stores_.records({.space = space, .prefix = {}, .after = {}, .limit = page});
}

void Workload::survey_queue(const std::string& queue) {
  std::ignore = stores_.stats(queue);
  const auto peeked =
      stores_.peek({.queue = queue, .key = {}, .state = {}, .after = {}, .limit = page});
  std::set<std::string> keys;
  for (const PeekedMessage& message : peeked->items) {
    count("seen " + model::text(message.state));
    if (message.key) keys.insert(*message.key);
    if (message.retry_at) known_.times.insert(*message.retry_at);
    if (message.due > stores_.now()) known_.times.insert(message.due);
    if (message.expires_at) known_.times.insert(*message.expires_at);
    if (message.last_reason == "lease expired") count("seen an expired lease");
  }
  // Lane by lane as well: that is the order in which they will be leased.
  for (const std::string& key : keys)
    std::ignore =
        stores_.peek({.queue = queue, .key = key, .state = {}, .after = {}, .limit = page});
  const auto letters = stores_.dead_letters({.queue = queue, .after = {}, .limit = page});
  for (const DeadLetter& letter : letters->items) {
    count("seen dead letter");
    if (letter.reason == "expired") count("seen dead by TTL");
    if (letter.reason == "queue full") count("seen dead for want of room");
  }
  survey_instances(queue);
}

void Workload::survey_instances(const std::string& queue) {
  const auto instances =
      stores_.instances({.queue = queue, .open = {}, .after = {}, .limit = page});
  for (const Execution& last : instances->items) {
    // Earlier executions may have been removed; that they have is compared too.
    for (std::uint64_t number = 1; number <= last.number; ++number) {
      std::ignore = stores_.history(
          {.queue = queue, .key = last.key, .execution = number, .from = 0, .limit = page});
    }
  }
}

// --- The end ---

void Workload::drain() {
  stores_.heading("drain");
  random_ = sim::Random(plan_.seed);
  // First in small steps, because there are many things to be seen in them; then in large ones,
  // because a queue that was made by a send has a backoff of half an hour.
  constexpr int rounds_max = 40;
  for (int round = 0; round < rounds_max; ++round) {
    bool empty = true;
    const Result<std::vector<QueueInfo>> queues = stores_.queues();
    for (const QueueInfo& info : *queues) {
      resume_all(info.name);
      empty = take_all(info.name) && empty;
    }
    if (empty) return count_ends();
    stores_.advance(std::chrono::seconds{round < 10 ? 2 : (round < 20 ? 30 : 900)});
  }
  throw Difference("the reference does not drain, and the other store agrees: see the trace");
}

void Workload::count_ends() {
  count("drained");
  Coverage& coverage = stores_.coverage();
  const Result<std::vector<QueueInfo>> queues = stores_.queues();
  for (const QueueInfo& info : *queues) {
    const Result<QueueStats> stats = stores_.stats(info.name);
    coverage["ended acked"] += stats->acked;
    coverage["ended expired"] += stats->expired;
    coverage["ended dropped"] += stats->dropped;
    coverage["ended moved"] += stats->moved;
    coverage["ended purged"] += stats->purged;
  }
}

void Workload::resume_all(const std::string& queue) {
  Transaction resume;
  resume.admin = ResumeQueue{queue};
  std::ignore = stores_.apply(resume);
  const auto parked = stores_.peek(
      {.queue = queue, .key = {}, .state = MessageState::parked, .after = {}, .limit = page});
  std::set<std::string> keys;
  for (const PeekedMessage& message : parked->items) {
    if (message.key && !keys.insert(*message.key).second) continue;
    if (message.key) {
      resume.admin = ResumeLane{queue, message.key, std::nullopt};
    } else {
      resume.admin = ResumeLane{queue, std::nullopt, message.id};
    }
    std::ignore = stores_.apply(resume);
  }
}

// Leases and acks as long as there is something ready; says whether nothing at all is left.
bool Workload::take_all(const std::string& queue) {
  const LeaseRequest request{.queue = queue, .lanes = 100};
  for (auto leases = stores_.lease(request); leases && !leases->empty();
       leases = stores_.lease(request)) {
    Transaction transaction;
    for (const Lease& lease : *leases) {
      Settle settle;
      settle.token = lease.token;
      for (const Message& message : lease.messages)
        settle.outcomes.push_back({.id = message.id});
      // The limit is for operations: outcomes and settles together.
      const std::size_t operations = settle.outcomes.size() + 1;
      if (operations > plan_.limits.transaction_operations_max) settle.outcomes.resize(30);
      transaction.settles = {settle};
      std::ignore = stores_.apply(transaction);
    }
  }
  return stores_.stats(queue)->live() == 0;
}

}  // namespace strand::differential
