#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/engine/state.h"

// Dead letters: given back, moved, dropped.

namespace strand::engine {

Result<std::vector<DeadEntry>> Engine::State::find_dead(Queue& queue,
                                                        const std::vector<MessageId>& ids) const {
  std::vector<DeadEntry> entries;
  entries.reserve(ids.size());
  for (const MessageId id : ids) {
    const std::string key = dead_key(queue.id, id);
    const auto value = archive_.get(Family::dead, key);
    if (!value) return std::unexpected(value.error());
    if (!*value) {
      return failure(Errc::not_found,
                     fmt::format("queue '{}' has no dead letter {}; nothing was changed",
                                 base::printable(queue.name), static_cast<std::uint64_t>(id)));
    }
    auto entry = decode<DeadEntry>(**value);
    // One that is alive as well is a disk's invention: given back, it would be there twice.
    const bool alive = queue.messages.find(id) != queue.messages.end();
    if (!entry || alive) return std::unexpected(damaged(Family::dead, key));
    entries.push_back(std::move(*entry));
  }
  return entries;
}

// Brings the bodies that have entries of their own: a moved message takes its body along.
Result<void> Engine::State::read_bodies(std::vector<DeadEntry>& entries,
                                        const std::vector<MessageId>& ids) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    MessageRecord& message = entries[i].message;
    bytes += message.body_bytes;
    if (bytes > limits_.transaction_bytes_max) {
      return failure(Errc::transaction_too_large,
                     fmt::format("the bodies to move have more than {} bytes in all "
                                 "(transaction_bytes_max): move fewer at a time",
                                 limits_.transaction_bytes_max));
    }
    if (message.body_at != ids[i]) continue;
    const std::string key = message_key(ids[i]);
    auto body = archive_.get(Family::body, key);
    if (!body) return std::unexpected(body.error());
    if (!*body) return std::unexpected(damaged(Family::body, key));
    message.body = std::move(**body);
  }
  return {};
}

Result<std::uint64_t> Engine::State::run(const Redrive& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  auto entries = find_dead(queue, op.ids);
  if (!entries) return std::unexpected(entries.error());
  if (!op.to || *op.to == op.queue) {
    for (std::size_t i = 0; i < op.ids.size(); ++i)
      redrive_here(queue, op.ids[i], (*entries)[i]);
    return op.ids.size();
  }
  if (auto checked = check_new_queue(*op.to); !checked) return std::unexpected(checked.error());
  if (auto read = read_bodies(*entries, op.ids); !read) return std::unexpected(read.error());
  Queue& to = ensure_queue(*op.to);
  for (std::size_t i = 0; i < op.ids.size(); ++i) {
    redrive_there(queue, to, op.ids[i], (*entries)[i]);
  }
  return op.ids.size();
}

void Engine::State::redrive_here(Queue& queue, MessageId id, DeadEntry& entry) {
  MessageRecord& record = entry.message;
  record.expires_at.reset();
  if (STRAND_PLANTED("redrive-at-the-end")) record.due = now_;
  if (record.name && queue.names.contains(*record.name)) record.name.reset();
  erase(Family::dead, dead_key(queue.id, id));
  // Its share in a publication's body stays; it is the live message's from now on.
  if (record.body_at && *record.body_at != id) erase(Family::pin, pin_key(*record.body_at, id));
  put(Family::message, message_key(id), record);
  --count(queue).dead;
  MessageNode& message = accept_node(queue, id, record);
  message.deliveries = entry.dead.deliveries;
  if (!entry.dead.failures.empty()) message.more().failures = std::move(entry.dead.failures);
  persist_state(message);
  std::optional<LaneEdit> edit;
  if (message.lane != nullptr) {
    edit.emplace(*this, *message.lane);
    if (message.lane->label.empty() && !record.label.empty())
      set_label(*message.lane, record.label);
  }
  link(message);
}

void Engine::State::redrive_there(Queue& from, Queue& to, MessageId id, DeadEntry& entry) {
  const MessageRecord& record = entry.message;
  Content content;
  content.key = record.key;
  content.body = record.body;
  content.headers = record.headers;
  content.priority = record.priority;
  Arrival arrival{.label = record.label,
                  .max_attempts = record.max_attempts,
                  .dead_notice_to = &record.dead_notice_to,
                  .topic = &record.topic};
  arrival.notice = record.notice;
  if (record.body_at && *record.body_at != id) {
    arrival.shared_body = record.body_at;
    arrival.shared_body_bytes = record.body_bytes;
  }
  accept(to, content, arrival);
  erase_dead(from, id, entry);
  ++count(from).moved;
}

void Engine::State::erase_dead(Queue& queue, MessageId id, const DeadEntry& entry) {
  erase(Family::dead, dead_key(queue.id, id));
  if (const auto body = entry.message.body_at) {
    if (*body == id) {
      erase(Family::body, message_key(id));
    } else {
      erase(Family::pin, pin_key(*body, id));
      release_shared(*body);
    }
  }
  --count(queue).dead;
}

Result<std::uint64_t> Engine::State::run(const DropDead& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  const auto entries = find_dead(queue, op.ids);
  if (!entries) return std::unexpected(entries.error());
  for (std::size_t i = 0; i < op.ids.size(); ++i)
    erase_dead(queue, op.ids[i], (*entries)[i]);
  count(queue).dropped += op.ids.size();
  return op.ids.size();
}

}  // namespace strand::engine
