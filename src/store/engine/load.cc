#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "store/engine/bounds.h"
#include "store/engine/state.h"

// Reading a store: every entry is decoded into the state that its writer had.

namespace strand::engine {

namespace {

constexpr std::uint32_t format = 1;
// Leases last at least so long after a reopen, once each.
constexpr Duration reopen_grace = std::chrono::seconds{10};

// Settings are added to times. An absurd one counts as ten years: the store opens, so that it can
// be configured again.
Duration bounded(Duration duration) {
  return is_absurd(Time{duration}) ? std::chrono::hours{24 * 3650} : duration;
}

// A number that is not would be given out again.
bool is_reserved(std::uint64_t number, const MetaRecord& meta) {
  return number < meta.numbers_reserved;
}

QueueSettings bounded(QueueSettings settings) {
  for (Duration& step : settings.backoff)
    step = bounded(step);
  settings.backoff_jitter_percent = std::min(settings.backoff_jitter_percent, 100U);
  if (settings.ttl) settings.ttl = bounded(*settings.ttl);
  settings.dedup_window = bounded(settings.dedup_window);
  settings.lease = bounded(settings.lease);
  settings.starvation_after = bounded(settings.starvation_after);
  return settings;
}

}  // namespace

// Calls `read(key, value)` for all entries of a family, or those from `first` on; it returns false
// for one that is damaged.
template <class Read>
Result<void> Engine::State::each(Family family, const Read& read, std::string_view first) const {
  std::optional<Error> wrong;
  auto scanned =
      archive_.scan(family, first, {}, [&](std::string_view key, std::string_view value) {
        if (read(key, value)) return true;
        wrong = damaged(family, key);
        return false;
      });
  if (!scanned) return scanned;
  if (wrong) return std::unexpected(*wrong);
  return {};
}

Result<void> Engine::State::load(Time wall, const Identity& identity, CommitNumber commit_after,
                                 Loading why) {
  loading_ = true;
  if (auto done = load_meta(wall, identity, commit_after); !done) return done;
  const Time opened_at = std::max(wall, now_);
  if (auto done = load_queues(); !done) return done;
  if (auto done = load_topics(); !done) return done;
  if (auto done = load_instances(); !done) return done;
  if (auto done = load_messages(); !done) return done;
  if (auto done = load_states(); !done) return done;
  if (auto done = load_lanes(); !done) return done;
  if (auto done = load_leases(opened_at, why); !done) return done;
  if (auto done = load_ids(); !done) return done;
  if (auto done = load_pins(); !done) return done;
  if (STRAND_PLANTED("epoch-from-live-leases")) {
    next_number_ = std::max<std::uint64_t>(1, meta_.lowest_message);
    for (const auto& [id, message] : loaded_)
      next_number_ = std::max(next_number_, id + 1);
    for (const auto& [epoch, lease] : leases_)
      next_number_ = std::max(next_number_, epoch + 1);
  }
  link_loaded();
  loaded_ = {};
  // What came due while the store was closed happens now, at its own times.
  advance(opened_at);
  loading_ = false;
  list_loaded();
  return {};
}

Result<void> Engine::State::load_meta(Time wall, const Identity& identity,
                                      CommitNumber commit_after) {
  const auto entry = archive_.get(Family::meta, meta_key());
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) {
    meta_.identity = identity;
    now_ = wall;
  } else {
    const auto meta = decode<MetaRecord>(**entry);
    if (!meta || is_absurd(meta->time) || meta->numbers_reserved > numbers_max) {
      return std::unexpected(damaged(Family::meta, meta_key()));
    }
    if (meta->format > format) {
      return failure(
          Errc::unsupported,
          fmt::format("the store has format {}, and this version of Strand knows formats "
                      "up to {}: use a newer version",
                      meta->format, format));
    }
    meta_ = *meta;
    now_ = meta_.time;
  }
  // Numbers that were reserved and not given out are skipped.
  next_number_ = meta_.numbers_reserved;
  loaded_commit_ = meta_.commit;
  last_commit_ = std::max(meta_.commit, commit_after);
  return {};
}

Result<void> Engine::State::load_queues() {
  auto done = each(Family::queue, [&](std::string_view key, std::string_view value) {
    const auto id = decode_lane_key(key);
    auto record = decode<QueueRecord>(value);
    if (!id || !record || !id->key.empty() || queues_.contains(record->name)) return false;
    if (static_cast<std::uint32_t>(id->queue) >= meta_.next_queue) return false;
    auto queue = std::make_unique<Queue>();
    queue->id = id->queue;
    queue->name = record->name;
    queue->settings = bounded(std::move(record->settings));
    queue->paused = record->paused;
    queues_by_id_.emplace(static_cast<std::uint32_t>(queue->id), queue.get());
    queues_.emplace(queue->name, std::move(queue));
    return true;
  });
  if (!done) return done;
  const auto find = [&](std::string_view key) -> Queue* {
    const auto id = decode_lane_key(key);
    if (!id) return nullptr;
    const auto found = queues_by_id_.find(static_cast<std::uint32_t>(id->queue));
    return found == queues_by_id_.end() ? nullptr : found->second;
  };
  done = each(Family::counters, [&](std::string_view key, std::string_view value) {
    const auto record = decode<CountersRecord>(value);
    Queue* queue = find(key);
    if (!record || queue == nullptr) return false;
    queue->counters = *record;
    return true;
  });
  if (!done) return done;
  return each(Family::subscription, [&](std::string_view key, std::string_view value) {
    Queue* queue = find(key);
    if (queue == nullptr) return false;
    queue->pattern = std::string(value);
    subscriptions_.add(*queue->pattern, *queue);
    return true;
  });
}

Result<void> Engine::State::load_topics() {
  auto done = each(Family::topic, [&](std::string_view key, std::string_view value) {
    const auto settings = decode<TopicSettings>(value);
    if (!settings) return false;
    topics_[std::string(key)].settings = {.retain = bounded(settings->retain)};
    return true;
  });
  if (!done) return done;
  done = each(Family::retained, [&](std::string_view key, std::string_view value) {
    const auto name = decode_retained_key(key);
    const auto record = decode<PublicationRecord>(value);
    if (!name || !record || is_absurd(record->at)) return false;
    if (!is_reserved(static_cast<std::uint64_t>(name->second), meta_)) return false;
    const auto topic = topics_.find(name->first);
    if (topic == topics_.end()) return false;
    topic->second.retained.push_back({.id = name->second, .at = record->at});
    ++shared_bodies_[static_cast<std::uint64_t>(name->second)];
    return true;
  });
  if (!done) return done;
  for (auto& [name, topic] : topics_)
    set_retention_timer(name, topic);
  return {};
}

// Only instances with an open execution are kept in memory.
Result<void> Engine::State::load_instances() {
  std::vector<std::string> keys;
  auto done = each(Family::open, [&](std::string_view key, std::string_view) {
    keys.emplace_back(key);
    return true;
  });
  if (!done) return done;
  for (const std::string& key : keys) {
    const auto value = archive_.get(Family::instance, key);
    if (!value) return std::unexpected(value.error());
    auto record = *value ? decode<InstanceRecord>(**value) : std::nullopt;
    const auto place = decode_lane_key(key);
    if (!record || !place || !is_reserved(record->number, meta_)) {
      return std::unexpected(damaged(Family::instance, key));
    }
    const auto queue = queues_by_id_.find(static_cast<std::uint32_t>(place->queue));
    if (queue == queues_by_id_.end()) return std::unexpected(damaged(Family::instance, key));
    ++queue->second->open_executions;
    instances_.emplace(key,
                       InstanceState{.record = std::move(*record), .exists = true, .touched = 0});
  }
  return {};
}

Result<void> Engine::State::load_messages() {
  const auto read = [&](std::string_view key, std::string_view value) {
    const auto id = decode_number_key(key);
    const auto record = decode<MessageRecord>(value);
    if (!id || !record || !is_reserved(*id, meta_)) return false;
    const auto queue = queues_by_id_.find(static_cast<std::uint32_t>(record->queue));
    if (queue == queues_by_id_.end()) return false;
    if (record->name && queue->second->find_name(*record->name) != nullptr) return false;
    MessageNode& message = accept_node(*queue->second, MessageId{*id}, *record);
    if (message.extras && message.extras->body_at) {
      ++shared_bodies_[static_cast<std::uint64_t>(*message.extras->body_at)];
    }
    loaded_.emplace(*id, &message);
    return true;
  };
  return each(Family::message, read, number_key(meta_.lowest_message));
}

Result<void> Engine::State::load_states() {
  return each(Family::state, [&](std::string_view key, std::string_view value) {
    const auto id = decode_number_key(key);
    auto record = decode<StateRecord>(value);
    if (!id || !record) return false;
    const auto found = loaded_.find(*id);
    if (found == loaded_.end()) return false;
    MessageNode& message = *found->second;
    message.has_state = true;
    message.attempts = record->attempts;
    message.deliveries = record->deliveries;
    if (record->not_before) {
      message.more().not_before = record->not_before;
      message.more().blocks = record->blocks;
    }
    if (record->park_reason) message.more().park_reason = std::move(record->park_reason);
    if (!record->failures.empty()) message.more().failures = std::move(record->failures);
    return true;
  });
}

Result<void> Engine::State::load_lanes() {
  return each(Family::lane, [&](std::string_view key, std::string_view value) {
    const auto place = decode_lane_key(key);
    auto record = decode<LaneRecord>(value);
    if (!place || !record || place->key.empty()) return false;
    const auto queue = queues_by_id_.find(static_cast<std::uint32_t>(place->queue));
    if (queue == queues_by_id_.end()) return false;
    Lane& lane = ensure_lane(*queue->second, place->key);
    lane.persisted = true;
    lane.label = std::move(record->label);
    lane.isolate_next = record->isolate_next && !STRAND_PLANTED("isolation-forgotten-on-load");
    if (record->park_reason) {
      lane.park_reason = std::make_unique<std::string>(std::move(*record->park_reason));
    }
    if (record->hint && is_absurd(Time{record->hint->grace})) return false;
    if (record->hint) lane.hint = std::make_unique<HintRecord>(std::move(*record->hint));
    return true;
  });
}

Result<void> Engine::State::load_leases(Time opened_at, Loading why) {
  return each(Family::lease, [&](std::string_view key, std::string_view value) {
    const auto epoch = decode_number_key(key);
    auto record = decode<LeaseRecord>(value);
    if (!epoch || !record || !is_reserved(*epoch, meta_)) return false;
    const auto queue = queues_by_id_.find(static_cast<std::uint32_t>(record->queue));
    if (queue == queues_by_id_.end()) return false;
    auto node = std::make_unique<LeaseNode>();
    LeaseNode& lease = *node;
    lease.epoch = Epoch{*epoch};
    lease.queue = queue->second;
    lease.expires_at = record->expires_at;
    lease.cursor = record->cursor;
    lease.isolated = record->isolated;
    lease.graced = record->graced;
    lease.request = record->request;
    if (record->key) {
      lease.lane = &ensure_lane(*queue->second, *record->key);
      if (lease.lane->lease != nullptr) return false;
      lease.lane->lease = &lease;
    }
    for (const LeaseRecord::Carried& carried : record->messages) {
      const auto found = loaded_.find(static_cast<std::uint64_t>(carried.id));
      if (found == loaded_.end()) continue;  // acked since
      MessageNode& message = *found->second;
      if (message.lease != nullptr || message.lane != lease.lane) return false;
      if (message.queue != lease.queue) return false;
      if (const auto expires_at = message.expires_at()) ttl_ends_.erase({*expires_at, message.id});
      ++message.deliveries;
      lease.add(message, carried.pull);
    }
    if (lease.lane == nullptr && lease.carried != 1) return false;
    if (why == Loading::open && (!lease.graced || STRAND_PLANTED("lease-grace-every-open"))) {
      lease.graced = true;
      lease.expires_at = std::max(lease.expires_at, opened_at + reopen_grace);
      persist(lease);
    }
    lease_ends_.emplace(std::pair{lease.expires_at, lease.epoch}, &lease);
    ++lease.queue->leases;
    leases_.emplace(*epoch, std::move(node));
    return true;
  });
}

Result<void> Engine::State::load_ids() {
  if (auto done = load_dedup(); !done) return done;
  auto done = each(Family::client, [&](std::string_view key, std::string_view value) {
    const auto client = decode_number_key(key);
    const auto record = decode<ClientRecord>(value);
    if (!client || !record) return false;
    ClientState& state = clients_[*client];
    state.lowest_unanswered = record->lowest_unanswered;
    state.forget_at = record->forget_at;
    client_ends_.emplace(state.forget_at, *client);
    return true;
  });
  if (!done) return done;
  done = each(Family::receipt, [&](std::string_view key, std::string_view value) {
    const auto id = decode_pair_key(key);
    auto record = decode<ReceiptRecord>(value);
    if (!id || !record) return false;
    const auto client = clients_.find(id->first);
    if (client == clients_.end() || record->forget_at > client->second.forget_at) return false;
    if (STRAND_PLANTED("receipts-lost-at-restart")) return true;
    receipt_ends_.emplace(record->forget_at, *id);
    client->second.receipts.emplace(id->second, std::move(*record));
    ++receipt_count_;
    return true;
  });
  if (!done) return done;
  done = each(Family::request, [&](std::string_view key, std::string_view value) {
    const auto request = decode_request_key(key);
    const auto record = decode<DedupRecord>(value);
    if (!request || !record) return false;
    requests_[*request].forget_at = record->ends_at;
    request_ends_.emplace(record->ends_at, *request);
    return true;
  });
  if (!done) return done;
  // Sorted, because a repeat lists the leases as the request granted them.
  std::vector<const LeaseNode*> leases;
  for (const auto& [epoch, lease] : leases_)
    leases.push_back(lease.get());
  std::ranges::sort(leases, {}, &LeaseNode::epoch);
  for (const LeaseNode* lease : leases) {
    if (!lease->request) continue;
    const auto request = requests_.find(*lease->request);
    if (request == requests_.end()) continue;
    request->second.leases.push_back(lease->epoch);
    ++request->second.live;
  }
  return {};
}

Result<void> Engine::State::load_dedup() {
  return each(Family::dedup, [&](std::string_view key, std::string_view value) {
    const auto record = decode<DedupRecord>(value);
    if (!record) return false;
    if (STRAND_PLANTED("dedup-lost-at-restart")) return true;
    dedup_.emplace(key, *record);
    dedup_ends_.emplace(record->ends_at, key);
    return true;
  });
}

// Dead letters stay on disk; only their shares in bodies are counted.
Result<void> Engine::State::load_pins() {
  return each(Family::pin, [&](std::string_view key, std::string_view) {
    const auto pin = decode_pair_key(key);
    if (!pin) return false;
    ++shared_bodies_[pin->first];
    return true;
  });
}

// Puts messages into their places, as of the stored time.
void Engine::State::link_loaded() {
  std::vector<Lane*> lanes;
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue->lanes) {
      lane->edits = 1;
      lanes.push_back(lane.get());
    }
    // Lanes lie anywhere in memory: each is asked for some messages before its turn.
    auto ahead = queue->messages.begin();
    for (int i = 0; i < 16 && ahead != queue->messages.end(); ++i)
      ++ahead;
    for (MessageNode& message : queue->messages) {
      if (ahead != queue->messages.end()) {
        if (ahead->lane != nullptr) __builtin_prefetch(&ahead->lane->visible[ahead->priority], 1);
        ++ahead;
      }
      if (message.where == Where::leased) {
        if (message.lane == nullptr) tally_unkeyed(message, 1);
      } else {
        link(message);
      }
    }
  }
  for (Lane* lane : lanes) {
    lane->edits = 0;
    refresh(*lane);
  }
}

void Engine::State::list_loaded() {
  struct Ready {
    Place place;
    Lane* lane;
    MessageNode* message;
  };
  std::vector<Ready> ready;
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue->lanes) {
      if (lane->lease != nullptr || lane->parked()) continue;
      if (const MessageNode* first = lane->first_visible()) {
        ready.push_back({.place = first->place(), .lane = lane.get(), .message = nullptr});
      }
    }
    for (MessageNode& message : queue->messages) {
      const bool free = message.lane == nullptr && message.where == Where::visible;
      if (free && !message.parked_alone()) {
        ready.push_back({.place = message.place(), .lane = nullptr, .message = &message});
      }
    }
  }
  std::ranges::sort(ready, {}, &Ready::place);
  last_turn_ = 0;
  for (const Ready& entry : ready) {
    loading_turn_ = entry.place.due;
    if (entry.lane != nullptr) {
      LaneEdit edit(*this, *entry.lane);
    } else {
      list_unkeyed(*entry.message);
    }
  }
  loading_turn_.reset();
  // Whoever waits for a store that was read again looks for himself.
  for (Queue* queue : woken_queues_)
    queue->woken = false;
  woken_queues_.clear();
  for (const auto& [epoch, lease] : leases_)
    lease->woken = false;
  decisions_.wakes = {};
}

}  // namespace strand::engine
