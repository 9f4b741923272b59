// Calls of clients: decided by the engine, judged by the model, answered when written.

#include <utility>

#include "model/text.h"
#include "sim/world.h"
#include "store/engine/reads.h"

namespace strand::sim {
namespace {

using model::Invariant;

// What the engine has decided, in the form of an answer: bodies come later, from the disk.
std::vector<Message> bare(const std::vector<engine::GrantedMessage>& granted) {
  std::vector<Message> out;
  for (const engine::GrantedMessage& message : granted) {
    Message& added = out.emplace_back();
    added.id = message.id;
    added.deliveries = message.deliveries;
    added.attempts = message.attempts;
  }
  return out;
}

Lease bare(const engine::Grant& grant) {
  Lease lease;
  lease.token = grant.token;
  lease.queue = grant.queue;
  lease.key = grant.key;
  lease.label = grant.label;
  lease.messages = bare(grant.messages);
  lease.expires_at = grant.expires_at;
  lease.cursor = grant.cursor;
  lease.isolated = grant.isolated;
  lease.more = grant.more;
  return lease;
}

}  // namespace

Result<Page<PeekedMessage>> bare(const Result<Page<engine::PeekedEntry>>& found) {
  if (!found) return std::unexpected(found.error());
  Page<PeekedMessage> page;
  page.more = found->more;
  for (const engine::PeekedEntry& entry : found->items) {
    PeekedMessage& message = page.items.emplace_back();
    message.id = entry.message.id;
    message.deliveries = entry.message.deliveries;
    message.attempts = entry.message.attempts;
    message.label = entry.label;
    message.state = entry.state;
    message.retry_at = entry.retry_at;
    message.last_reason = entry.last_reason;
    message.park_reason = entry.park_reason;
  }
  return page;
}

namespace {

// The disk failed to read, because it was told to.
template <class T>
bool is_read_fault(const Result<T>& result) {
  return !result && result.error().code == Errc::io_error;
}

}  // namespace

template <class T>
void World::deliver(const Reply<T>& reply, const Result<T>& answer) {
  const bool lost = plan_.happens(Fault::lost_reply, random_) && accidents_;
  std::int64_t delay = random_.between(0, 2);
  if (plan_.happens(Fault::late_reply, random_) && accidents_) delay = random_.between(3, 30'000);
  if (lost) {
    trace([] { return "  a reply is lost"; });
    return;
  }
  after(delay, [reply, answer] { reply(answer); });
}

void World::check_durable(const Transaction& transaction, const Receipt& receipt,
                          engine::CommitNumber commit) const {
  bool changes = !transaction.appends.empty();
  for (const Settle& settle : transaction.settles) {
    changes = changes || settle.then != Settle::Then::keep || !settle.outcomes.empty();
  }
  for (const Sent& sent : receipt.sent)
    changes = changes || !sent.duplicate;
  for (const Version version : receipt.versions)
    changes = changes || version != Version{0};
  if (!changes) return;
  // A repeat of an id changes nothing, and may be answered under a later commit that is empty.
  if (transaction.id) return;
  model::expect(backend_.shown_commit() >= commit, Invariant::nothing_lost,
                [&] { return "answered before it was written: " + model::text(transaction); });
  model::expect(transaction.durability == Durability::async || backend_.durable_commit() >= commit,
                Invariant::nothing_lost,
                [&] { return "answered before it was synced: " + model::text(transaction); });
}

void World::apply(const Transaction& transaction, const Reply<Receipt>& reply) {
  Job job;
  job.needs_all_written = engine::Engine::needs_all_written(transaction);
  job.refuse = [this, reply](const Error& error) {
    deliver<Receipt>(reply, std::unexpected(error));
  };
  job.run = [this, transaction, reply] {
    // Administration finds that all is written, and must not add to it.
    const bool stands_still = engine::Engine::needs_all_written(transaction);
    const Time now = stands_still ? engine().now() : reach();
    const Result<Receipt> decided = engine().apply(transaction, now);
    const engine::CommitNumber commit = pipeline_->decided();
    trace([&] {
      return "apply" + model::text(now) + " c" + std::to_string(commit) + ": " +
             model::text(transaction) + " -> " + model::text(decided);
    });
    mix(decided ? 1 : 2 + static_cast<std::uint64_t>(decided.error().code));
    if (is_read_fault(decided)) {
      model_.advance(now, store_now(), commit);
    } else {
      model_.apply(transaction, now, decided, commit);
    }
    after_call();
    await(commit, [this, transaction, reply, decided, commit](const Result<void>& outcome) {
      if (!outcome) return deliver<Receipt>(reply, std::unexpected(outcome.error()));
      if (decided) {
        check_durable(transaction, *decided, commit);
        model_.shown(*decided);
      }
      deliver<Receipt>(reply, decided);
    });
  };
  submit(std::move(job));
}

void World::lease(const LeaseRequest& request, const Reply<std::vector<Lease>>& reply) {
  using Leases = std::vector<Lease>;
  Job job;
  job.refuse = [this, reply](const Error& error) {
    deliver<Leases>(reply, std::unexpected(error));
  };
  job.run = [this, request, reply] {
    const Time now = reach();
    const Result<std::vector<engine::Grant>> grants = engine().lease(request, now);
    const engine::CommitNumber commit = pipeline_->decided();
    Result<Leases> decided = Leases{};
    if (grants) {
      for (const engine::Grant& grant : *grants)
        decided->push_back(bare(grant));
    } else {
      decided = std::unexpected(grants.error());
    }
    trace([&] {
      return "lease" + model::text(now) + " c" + std::to_string(commit) + ": " +
             model::text(request) + " -> " + model::text(decided);
    });
    mix(decided ? decided->size() : 100);
    const Leases due = model_.lease(request, now, decided, commit);
    after_call();
    await(commit, [this, request, reply, grants, due](const Result<void>& outcome) {
      if (!outcome) return deliver<Leases>(reply, std::unexpected(outcome.error()));
      if (!grants) return deliver<Leases>(reply, std::unexpected(grants.error()));
      const Result<Leases> shown = engine::materialize(backend_, *grants, request);
      if (shown) model_.shown(request, due, *shown);
      model::expect(shown || is_read_fault(shown), Invariant::contract,
                    [&] { return "leases cannot be read: " + model::text(shown.error()); });
      deliver<Leases>(reply, shown);
    });
  };
  submit(std::move(job));
}

void World::pull(const Token& token, Cursor cursor, PullLimits limits, const Reply<Pulled>& reply) {
  Job job;
  job.refuse = [this, reply](const Error& error) {
    deliver<Pulled>(reply, std::unexpected(error));
  };
  job.run = [this, token, cursor, limits, reply] {
    const Time now = reach();
    const Result<engine::PullGrant> grant = engine().pull(token, cursor, limits, now);
    const engine::CommitNumber commit = pipeline_->decided();
    Result<Pulled> decided;
    if (grant) {
      decided = Pulled{bare(grant->messages), grant->cursor, grant->more};
    } else {
      decided = std::unexpected(grant.error());
    }
    trace([&] {
      return "pull" + model::text(now) + " c" + std::to_string(commit) + ": " + model::text(token) +
             " cursor=" + std::to_string(static_cast<std::uint64_t>(cursor)) + " -> " +
             model::text(decided);
    });
    mix(decided ? decided->messages.size() : 100);
    const Pulled due = model_.pull(token, cursor, limits, now, decided, commit);
    after_call();
    await(commit, [this, reply, grant, due](const Result<void>& outcome) {
      if (!outcome) return deliver<Pulled>(reply, std::unexpected(outcome.error()));
      if (!grant) return deliver<Pulled>(reply, std::unexpected(grant.error()));
      const Result<Pulled> shown = engine::materialize(backend_, *grant);
      if (shown) model_.shown(due, *shown);
      model::expect(shown || is_read_fault(shown), Invariant::contract,
                    [&] { return "a pull cannot be read: " + model::text(shown.error()); });
      deliver<Pulled>(reply, shown);
    });
  };
  submit(std::move(job));
}

void World::renew(const Token& token, Duration lease, const Reply<Time>& reply) {
  Job job;
  job.refuse = [this, reply](const Error& error) { deliver<Time>(reply, std::unexpected(error)); };
  job.run = [this, token, lease, reply] {
    const Time now = reach();
    const Result<Time> decided = engine().renew(token, lease, now);
    const engine::CommitNumber commit = pipeline_->decided();
    trace([&] {
      return "renew" + model::text(now) + " c" + std::to_string(commit) + ": " +
             model::text(token) + " " + model::text(lease) + " -> " + model::text(decided);
    });
    mix(decided ? 1 : 2 + static_cast<std::uint64_t>(decided.error().code));
    model_.renew(token, lease, now, decided, commit);
    after_call();
    await(commit, [this, reply, decided](const Result<void>& outcome) {
      if (!outcome) return deliver<Time>(reply, std::unexpected(outcome.error()));
      deliver<Time>(reply, decided);
    });
  };
  submit(std::move(job));
}

// --- Reads ---

void World::read_stats(const std::string& queue) {
  if (!serves()) return;
  catch_up();
  const Result<QueueStats> seen = engine().stats(queue);
  trace([&] { return "stats " + model::quote(queue) + " -> " + model::text(seen); });
  model_.stats(queue, seen);
  pump();
}

void World::read_current(const Token& token) {
  if (!serves()) return;
  catch_up();
  model_.current(token, engine().is_current(token));
  pump();
}

void World::read_lists() {
  if (!serves()) return;
  catch_up();
  model_.queues(engine().queues());
  model_.subscriptions(engine().subscriptions());
  model_.topics(engine().topics());
  pump();
}

void World::read_peek(const PeekQuery& query, const Reply<Page<PeekedMessage>>& reply) {
  using Peeked = Page<PeekedMessage>;
  if (!serves()) return;
  catch_up();
  const Result<Page<engine::PeekedEntry>> found = engine().peek(query);
  const Result<Peeked> decided = bare(found);
  trace([&] { return "peek " + model::quote(query.queue) + " -> " + model::text(decided); });
  const Peeked due = model_.peek(query, decided);
  if (found) {
    await(pipeline_->decided(), [this, found, due, reply](const Result<void>& outcome) {
      if (!outcome) return;
      const Result<Peeked> shown = engine::materialize(backend_, *found);
      model::expect(shown || is_read_fault(shown), Invariant::contract,
                    [&] { return "a peek cannot be read: " + model::text(shown.error()); });
      if (!shown) return;
      model_.shown(due, *shown);
      if (reply) reply(shown);
    });
    resolve();
  }
  pump();
}

void World::read_dead_letters(const DeadLettersQuery& query, const Reply<Page<DeadLetter>>& reply) {
  if (!serves()) return;
  const Result<Page<DeadLetter>> seen = engine::read_dead_letters(backend_, plan_.limits, query);
  if (is_read_fault(seen)) return;
  trace([&] { return "dead letters " + model::quote(query.queue) + " -> " + model::text(seen); });
  model_.dead_letters(query, seen);
  if (reply) reply(seen);
}

void World::read_history(const HistoryQuery& query) {
  if (!serves()) return;
  const Result<History> seen = engine::read_history(backend_, plan_.limits, query);
  if (is_read_fault(seen)) return;
  trace([&] { return "history -> " + model::text(seen); });
  model_.history(query, seen);
}

void World::read_instances(const InstancesQuery& query) {
  if (!serves()) return;
  const Result<Page<Execution>> seen = engine::read_instances(backend_, plan_.limits, query);
  if (is_read_fault(seen)) return;
  trace([&] { return "instances " + model::quote(query.queue) + " -> " + model::text(seen); });
  model_.instances(query, seen);
}

void World::read_record(const std::string& space, const std::string& key) {
  if (!serves()) return;
  const auto seen = engine::read_record(backend_, plan_.limits, space, key);
  if (is_read_fault(seen)) return;
  model::expect(seen.has_value(), Invariant::contract,
                [&] { return "a record cannot be read: " + model::text(seen.error()); });
  model_.record(space, key, *seen);
}

void World::read_records(const RecordsQuery& query) {
  if (!serves()) return;
  const Result<Page<Record>> seen = engine::read_records(backend_, plan_.limits, query);
  if (is_read_fault(seen)) return;
  model::expect(seen.has_value(), Invariant::contract,
                [&] { return "records cannot be read: " + model::text(seen.error()); });
  trace([&] { return "records " + model::quote(query.space) + " -> " + model::text(*seen); });
  model_.records(query, *seen);
}

void World::read_everything() {
  if (!serves()) return;
  read_lists();
  for (const QueueInfo& queue : model_.decided().queue_infos()) {
    read_stats(queue.name);
    PeekQuery peek;
    peek.queue = queue.name;
    peek.limit = plan_.limits.page_max;
    read_peek(peek, {});
  }
  for (const QueueInfo& queue : model_.written_state().queue_infos()) {
    DeadLettersQuery dead;
    dead.queue = queue.name;
    dead.limit = plan_.limits.page_max;
    read_dead_letters(dead, {});
    InstancesQuery instances;
    instances.queue = queue.name;
    instances.limit = plan_.limits.page_max;
    read_instances(instances);
    for (const auto& [key, executions] : model_.written_state().executions(queue.name)) {
      for (const std::uint64_t number : executions) {
        HistoryQuery history;
        history.queue = queue.name;
        history.key = key;
        history.execution = number;
        read_history(history);
      }
    }
  }
  for (const std::string& space : model_.written_state().spaces()) {
    RecordsQuery records;
    records.space = space;
    records.limit = plan_.limits.page_max;
    read_records(records);
  }
}

}  // namespace strand::sim
