#include "relay/worker.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::relay {

using postgres::Group;
using postgres::Statement;
using std::chrono::steady_clock;

namespace {

constexpr Duration connect_max = std::chrono::seconds{10};
constexpr Duration upkeep_every = std::chrono::seconds{1};
// A watermark holds rows back for as long as transactions are open: usually milliseconds.
constexpr Duration held_back_wait{10};

}  // namespace

std::string session_script() {
  return "set default_transaction_isolation = 'read committed';\n"
         "set plan_cache_mode = force_generic_plan;\n"
         "set enable_seqscan = off;\n"
         "set enable_bitmapscan = off;\n"
         "set enable_hashjoin = off;\n"
         "set enable_mergejoin = off;\n"
         "set jit = off;\n"
         "set client_min_messages = warning;\n";
}

// One claim of a batch: its rows in order, and how far it has come.
struct Worker::Entity {
  const Claim* claim = nullptr;
  std::vector<const Row*> rows = {};
  std::vector<Message> messages = {};  // of the first rows; the one behind them may be poison
  std::size_t confirmed = 0;           // so many of the first rows
  bool suspect = false;                // one of them was refused, alone or with others
  std::string poison = {};             // why the row behind the confirmed ones cannot be sent
  std::string trouble = {};            // why it stopped, if it was no poison

  [[nodiscard]] std::vector<std::string> ids(std::size_t count) const {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < count; ++i)
      result.push_back(rows[i]->id);
    return result;
  }
};

Worker::Worker(const Crew& crew, Owner owner, std::unique_ptr<Sink> sink)
    : crew_(crew),
      settings_(crew.outbox.settings()),
      owner_(std::move(owner)),
      sink_(std::move(sink)) {}

void Worker::run() {
  while (!crew_.wakeups.stopped()) {
    if (connection_ == nullptr) {
      if (auto connected = connect(); !connected) {
        if (crew_.wakeups.stopped()) break;  // told to stop while it connected: no trouble
        log_once(connected.error().message);
        connection_.reset();
        crew_.wakeups.pause(database_backoff_.next());
        continue;
      }
    }
    Result<Step> step = Step::nothing;
    if (auto kept = upkeep(steady_clock::now()); !kept) {
      step = std::unexpected(kept.error());
    } else if (!waits_for_others_) {
      step = work();
    }
    if (step) {
      database_backoff_.reset();
      wait_after(*step);
    } else {
      // Nothing is known of the claims any more, so that all of them are given up.
      crew_.log(fmt::format("{}: {}; connecting again", settings_.name, step.error().message));
      source_.reset();
      claims_.reset();
      connection_.reset();
      crew_.wakeups.pause(database_backoff_.next());
    }
  }
  if (connection_ != nullptr && claims_ != nullptr) {
    std::ignore = claims_->end();
    unregister_worker();
  }
}

Result<void> Worker::connect() {
  auto connection =
      postgres::Connection::open(crew_.conninfo, connect_max, crew_.hurry.descriptor());
  if (!connection) return std::unexpected(connection.error());
  connection_ = std::move(*connection);
  if (auto done = connection_->script(session_script()); !done) {
    return std::unexpected(error_of(done.error(), "beginning a session"));
  }
  claims_ = make_claims(crew_.outbox, *connection_, owner_);
  source_ = std::make_unique<Source>(crew_.outbox, *connection_);
  if (std::exchange(connected_before_, true)) ++crew_.counters.reconnects;
  const auto alone = register_worker();
  if (!alone) return std::unexpected(alone.error());
  return claims_->begin();
}

void Worker::wait_after(Step step) {
  switch (step) {
    case Step::sent:
      kafka_backoff_.reset();
      return;  // there may be more
    case Step::nothing:
      crew_.wakeups.wait(std::min(settings_.poll, upkeep_every), woken_);
      return;
    case Step::held_back:
      crew_.wakeups.wait(std::min(settings_.poll, held_back_wait), woken_);
      return;
    case Step::outage:
      crew_.wakeups.pause(kafka_backoff_.next());
      return;
  }
}

// Registers anew when it is time to, and lets the strategy do what it has to.
Result<void> Worker::upkeep(Moment now) {
  if (now >= registered_at_ + settings_.lease / 3 || waits_for_others_) {
    if (auto registered = register_worker(); !registered) {
      return std::unexpected(registered.error());
    }
  }
  if (now < upkeep_at_ + upkeep_every) return {};
  upkeep_at_ = now;
  return claims_->upkeep();
}

// Whoever comes with another strategy while there are workers waits for their end: claims of two
// kinds do not see each other. The lock makes one of any two the first.
Result<bool> Worker::register_worker() {
  const std::string relay = settings_.full_name();
  Group group(3);
  group[0].sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
  group[0].params.text("strand relay workers " + relay);
  group[1].sql = fmt::format(
      "INSERT INTO {} AS w (relay, owner, process, worker, host, pid, strategy, started_at, until, "
      "rows) VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), now() + $8 * interval '1 "
      "millisecond', $9) ON CONFLICT (relay, owner) DO UPDATE SET seen_at = now(), until = "
      "EXCLUDED.until, rows = EXCLUDED.rows",
      crew_.outbox.own().workers);
  group[1]
      .params.text(relay)
      .text(owner_.name())
      .text(owner_.process)
      .int4(static_cast<std::int32_t>(owner_.worker))
      .text(owner_.host)
      .int4(owner_.pid)
      .text(to_string(settings_.strategy))
      .int8(settings_.lease.count())
      .int8(static_cast<std::int64_t>(rows_));
  group[2].sql = fmt::format(
      "SELECT o.owner, o.strategy FROM {0} o JOIN {0} me ON me.relay = o.relay AND me.owner = $2 "
      "WHERE o.relay = $1 AND o.strategy <> me.strategy AND o.until >= now() AND o.started_at < "
      "me.started_at LIMIT 1",
      crew_.outbox.own().workers);
  group[2].params.text(relay).text(owner_.name());
  const auto answer = connection_->run(group);
  if (!answer) return std::unexpected(error_of(answer.error(), "registering a worker"));
  registered_at_ = steady_clock::now();
  const postgres::Rows& others = answer->back();
  if (!others.empty() && !waits_for_others_) {
    crew_.log(fmt::format("{}: {} relays it with the strategy {}; waiting until it ends",
                          settings_.name, others.bytes(0, 0), others.bytes(0, 1)));
  }
  waits_for_others_ = !others.empty();
  return !waits_for_others_;
}

void Worker::unregister_worker() {
  Statement statement{.sql = fmt::format("DELETE FROM {} WHERE relay = $1 AND owner = $2",
                                         crew_.outbox.own().workers)};
  statement.params.text(settings_.full_name()).text(owner_.name());
  std::ignore = connection_->run(Group{std::move(statement)});
}

Result<Worker::Step> Worker::work() {
  auto claims = claims_->claim();
  if (!claims) return std::unexpected(claims.error());
  if (claims->empty()) return Step::nothing;
  kept_at_ = steady_clock::now();
  crew_.counters.claims += claims->size();
  for (const Claim& claim : *claims)
    trace("claim", claim);
  // As many as it may have: there are probably more, for somebody else.
  if (claims->size() == settings_.entities && !claims_->looks_at_own_rows()) crew_.wakeups.one();
  // Only now, in a statement that begins after the claim: what the holder before has sent is marked
  // in every snapshot from here on.
  const auto rows = source_->read(*claims);
  if (!rows) {
    for (const Claim& claim : *claims)
      trace("lost", claim);
    return std::unexpected(rows.error());
  }
  return relay(*claims, *rows);
}

Result<Worker::Step> Worker::relay(std::vector<Claim>& claims, const std::vector<Row>& rows) {
  if (rows.empty()) {
    for (const Claim& claim : claims)
      trace("released", claim);
    if (auto released = claims_->release(claims); !released) {
      return std::unexpected(released.error());
    }
    return settings_.commit_order == CommitOrder::watermark ? Step::held_back : Step::nothing;
  }
  std::vector<Entity> entities(claims.size());
  std::map<std::string_view, Entity*> by_name;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    entities[i].claim = &claims[i];
    by_name[claims[i].entity] = &entities[i];
  }
  for (const Row& row : rows) {
    // A collation may take two texts for equal: such a row belongs to a claim of its own.
    const auto claimed = by_name.find(row.entity);
    if (claimed == by_name.end()) continue;
    Entity& entity = *claimed->second;
    entity.rows.push_back(&row);
    if (!entity.poison.empty()) continue;
    auto message = make_message(settings_, row);
    if (message) {
      message->slot = entity.claim->slot;
      entity.messages.push_back(std::move(*message));
    } else {
      entity.poison = message.error().message;
    }
  }
  ++crew_.counters.batches;
  if (auto published = publish(entities, claims); !published) {
    return std::unexpected(published.error());
  }
  return settle(entities, claims);
}

bool Worker::still_ours(std::span<const Claim> claims) {
  if (!connection_->still_open()) return false;
  const Moment now = steady_clock::now();
  if (now < kept_at_ + settings_.lease / 3) return true;
  const auto kept = claims_->keep(claims);
  if (!kept || !*kept) return false;
  kept_at_ = now;
  return true;
}

// Hands over all rows of all entities, interleaved as they are: those of one entity in order.
Result<void> Worker::publish(std::vector<Entity>& entities, std::span<const Claim> claims) {
  std::vector<Message> messages;
  std::vector<Entity*> owners;
  for (Entity& entity : entities) {
    if (entity.messages.empty()) continue;
    trace("publish", *entity.claim, entity.ids(entity.messages.size()));
    for (const Message& message : entity.messages) {
      messages.push_back(message);
      owners.push_back(&entity);
    }
  }
  // A worker that was paused since the claim looks before it sends anything.
  if (!still_ours(claims)) return {};
  const auto deadline = steady_clock::now() + settings_.delivery_timeout;
  const auto deliveries = sink_->publish(messages, deadline, [&] { return still_ours(claims); });
  std::string trouble;
  bool suspects = false;
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    Entity& entity = *owners[i];
    if (!entity.trouble.empty()) continue;
    if (deliveries[i].kind == Delivery::Kind::confirmed) {
      ++entity.confirmed;
      continue;
    }
    entity.trouble = deliveries[i].reason;
    entity.suspect = deliveries[i].kind == Delivery::Kind::refused;
    suspects = suspects || entity.suspect;
    if (!entity.suspect) trouble = entity.trouble;
  }
  if (suspects) return isolate(entities, claims);
  if (!trouble.empty()) {
    ++crew_.counters.outages;
    log_once(trouble);
  } else {
    last_log_.clear();
  }
  return {};
}

// Brokers refuse a whole batch for one message in it: each row goes alone, until the one is found.
Result<void> Worker::isolate(std::vector<Entity>& entities, std::span<const Claim> claims) {
  for (Entity& entity : entities) {
    if (!entity.suspect) continue;
    entity.trouble.clear();
    while (entity.confirmed < entity.messages.size()) {
      if (!still_ours(claims)) return {};
      const auto deadline = steady_clock::now() + settings_.delivery_timeout;
      const auto delivery = sink_->publish(std::span(&entity.messages[entity.confirmed], 1),
                                           deadline, [&] { return still_ours(claims); });
      if (delivery.front().kind == Delivery::Kind::confirmed) {
        ++entity.confirmed;
        continue;
      }
      if (delivery.front().kind == Delivery::Kind::refused) {
        entity.poison = delivery.front().reason;
      } else {
        entity.trouble = delivery.front().reason;
      }
      break;
    }
    // What lies behind the poison is for another batch.
    entity.messages.resize(std::min(entity.messages.size(), entity.confirmed));
  }
  return {};
}

// Sends the row that cannot be sent to the dead-letter topic; then it counts as sent.
void Worker::bury(Entity& entity, std::span<const Claim> claims) {
  if (!still_ours(claims)) return;
  Message letter = make_dead_letter(settings_, *entity.rows[entity.confirmed], entity.poison);
  letter.slot = entity.claim->slot;
  const auto delivery =
      sink_->publish(std::span(&letter, 1), steady_clock::now() + settings_.delivery_timeout,
                     [&] { return still_ours(claims); });
  switch (delivery.front().kind) {
    case Delivery::Kind::confirmed:
      ++entity.confirmed;
      ++crew_.counters.dead_letters;
      entity.poison.clear();
      break;
    case Delivery::Kind::refused:
      entity.poison += fmt::format("; the dead-letter topic {} refused it too: {}", letter.topic,
                                   delivery.front().reason);
      break;
    case Delivery::Kind::failed:
      entity.trouble = delivery.front().reason;
      break;
  }
}

Result<Worker::Step> Worker::settle(std::vector<Entity>& entities, std::span<const Claim> claims) {
  Outcome outcome;
  bool outage = false;
  for (Entity& entity : entities) {
    const bool poisoned = !entity.poison.empty() && entity.confirmed == entity.messages.size();
    if (poisoned && entity.trouble.empty()) {
      const Row& row = *entity.rows[entity.confirmed];
      ++crew_.counters.poison;
      trace("poison", *entity.claim, std::span(&row.id, 1), entity.poison);
      crew_.log(fmt::format("{}: row {} of entity {} cannot be sent: {}", settings_.name, row.id,
                            base::printable(entity.claim->entity), entity.poison));
      if (settings_.on_poison == OnPoison::dead_letter) bury(entity, claims);
      if (!entity.poison.empty() && entity.trouble.empty()) {
        outcome.trouble.push_back(
            {.entity = entity.claim->entity, .row = row.id, .reason = entity.poison});
      }
    }
    outage = outage || !entity.trouble.empty();
    for (std::size_t i = 0; i < entity.confirmed; ++i) {
      outcome.sent.push_back(
          {.id = entity.rows[i]->id, .slot = entity.claim->slot, .entity = entity.claim->entity});
    }
    if (entity.confirmed > 0) trace("confirmed", *entity.claim, entity.ids(entity.confirmed));
    trace("released", *entity.claim);
  }
  const auto marked = source_->mark(outcome, claims_->fence(claims));
  std::vector<std::string> ids = marked.value_or(std::vector<std::string>{});
  std::ranges::sort(ids);
  for (const Entity& entity : entities) {
    const std::vector<std::string> sent = entity.ids(entity.confirmed);
    if (sent.empty()) continue;
    const bool held = std::ranges::all_of(
        sent, [&](const std::string& id) { return std::ranges::binary_search(ids, id); });
    trace(held ? "marked" : "lost", *entity.claim, sent);
    if (!held) ++crew_.counters.lost;
  }
  if (!marked) return std::unexpected(marked.error());
  rows_ += ids.size();
  crew_.counters.rows += ids.size();
  return outage ? Step::outage : Step::sent;
}

// What lasts is said once, and not at every attempt.
void Worker::log_once(const std::string& line) {
  if (line != last_log_) crew_.log(fmt::format("{}: {}", settings_.name, line));
  last_log_ = line;
}

void Worker::trace(std::string_view event, const Claim& claim, std::span<const std::string> rows,
                   std::string_view reason) const {
  if (crew_.trace == nullptr) return;
  crew_.trace->write({.event = event,
                      .relay = settings_.name,
                      .worker = owner_.worker,
                      .entity = claim.entity,
                      .epoch = claim.epoch,
                      .rows = rows,
                      .reason = reason});
}

}  // namespace strand::relay
