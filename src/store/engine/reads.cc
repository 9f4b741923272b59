#include "store/engine/reads.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/contract/check.h"
#include "store/engine/records.h"

namespace strand::engine {

namespace {

Result<Bytes> read_body(const Archive& archive, MessageRecord& record) {
  if (!record.body_at) return std::move(record.body);
  const std::string key = message_key(*record.body_at);
  auto body = archive.get(Family::body, key);
  if (!body) return std::unexpected(body.error());
  if (!*body) return std::unexpected(damaged(Family::body, key));
  return std::move(**body);
}

// Fills in what the entry of a message has; the body comes separately.
void fill(Message& message, MessageRecord& record) {
  message.headers = std::move(record.headers);
  message.priority = record.priority;
  message.enqueued_at = record.enqueued_at;
  message.due = record.due;
  message.expires_at = record.expires_at;
  message.name = std::move(record.name);
  message.topic = std::move(record.topic);
}

// Nothing if the message is gone. `each` gets the record before it is taken apart.
template <class Kind, class Each>
Result<std::optional<Kind>> read_message(const Archive& archive, const GrantedMessage& granted,
                                         const Each& each) {
  const std::string key = message_key(granted.id);
  const auto entry = archive.get(Family::message, key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  auto record = decode<MessageRecord>(**entry);
  if (!record) return std::unexpected(damaged(Family::message, key));
  Kind message;
  message.id = granted.id;
  message.deliveries = granted.deliveries;
  message.attempts = granted.attempts;
  each(message, *record);
  auto body = read_body(archive, *record);
  if (!body) {
    // The body may have gone with the message since it was read.
    const auto again = archive.get(Family::message, key);
    if (again && !*again) return std::nullopt;
    return std::unexpected(body.error());
  }
  message.body = std::move(*body);
  fill(message, *record);
  return message;
}

Result<std::vector<Message>> read_messages(const Archive& archive,
                                           const std::vector<GrantedMessage>& granted) {
  std::vector<Message> messages;
  messages.reserve(granted.size());
  for (const GrantedMessage& one : granted) {
    auto message = read_message<Message>(archive, one, [](Message&, MessageRecord&) {});
    if (!message) return std::unexpected(message.error());
    if (*message) messages.push_back(std::move(**message));
  }
  return messages;
}

Result<QueueId> find_queue(const Archive& archive, std::string_view name) {
  const auto entry = archive.get(Family::queue_name, name);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) {
    return failure(Errc::not_found, fmt::format("there is no queue '{}'", base::printable(name)));
  }
  const auto id = decode_lane_key(**entry);
  if (!id) return std::unexpected(damaged(Family::queue_name, name));
  return id->queue;
}

Result<std::optional<InstanceRecord>> find_instance(const Archive& archive,
                                                    const std::string& queue,
                                                    const std::string& key) {
  const auto id = find_queue(archive, queue);
  if (!id) return std::unexpected(id.error());
  const std::string name = lane_key(*id, key);
  const auto entry = archive.get(Family::instance, name);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  auto record = decode<InstanceRecord>(**entry);
  if (!record) return std::unexpected(damaged(Family::instance, name));
  record->last.queue = queue;
  record->last.key = key;
  return record;
}

// The instance and the execution of it that a query asks for; nothing if there is none.
Result<std::optional<InstanceRecord>> find_execution(const Archive& archive,
                                                     const HistoryQuery& query) {
  auto instance = find_instance(archive, query.queue, query.key);
  if (!instance || !*instance) return instance;
  InstanceRecord& record = **instance;
  if (query.execution == 0 || query.execution == record.last.number) return instance;
  const std::string key = execution_key(record.number, query.execution);
  const auto entry = archive.get(Family::execution, key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  auto earlier = decode<InstanceRecord>(**entry);
  if (!earlier) return std::unexpected(damaged(Family::execution, key));
  record.last = std::move(earlier->last);
  record.last.queue = query.queue;
  record.last.key = query.key;
  return instance;
}

// Events from `from` on, as many as `limit`; fewer if one is missing.
Result<std::vector<Bytes>> read_events(const Archive& archive, const InstanceRecord& instance,
                                       std::uint64_t from, std::uint64_t limit) {
  const Execution& execution = instance.last;
  std::vector<Bytes> events;
  if (limit == 0) return events;
  const auto key_of = [&](std::uint64_t index) {
    return event_key(instance.number, execution.number, index);
  };
  const std::string first = key_of(from);
  std::string expected = first;
  auto scanned = archive.scan(Family::event, first, key_of(execution.length),
                              [&](std::string_view key, std::string_view value) {
                                if (key != expected) return false;
                                events.emplace_back(value);
                                if (events.size() == limit) return false;
                                expected = key_of(from + events.size());
                                return true;
                              });
  if (!scanned) return std::unexpected(scanned.error());
  return events;
}

// Nothing if there is no such execution. What a read finds is of one commit or another: if events
// are missing, the history may have been trimmed or removed since its execution was read.
Result<std::optional<History>> find_history(const Archive& archive, const HistoryQuery& query) {
  std::optional<InstanceRecord> before;
  for (;;) {
    auto instance = find_execution(archive, query);
    if (!instance) return std::unexpected(instance.error());
    if (!*instance) return std::nullopt;
    const Execution& execution = (*instance)->last;
    const std::uint64_t from = std::max(query.from, execution.first);
    const std::uint64_t there = execution.length - std::min(from, execution.length);
    const std::uint64_t count = std::min<std::uint64_t>(there, query.limit);
    auto events = read_events(archive, **instance, from, count);
    if (!events) return std::unexpected(events.error());
    if (events->size() == count) {
      return History{.execution = execution, .first = from, .events = std::move(*events)};
    }
    if (STRAND_PLANTED("trim-under-a-read-is-damage")) before = **instance;
    if (before && before->number == (*instance)->number && before->last == execution) {
      return failure(Errc::corrupt,
                     fmt::format("the history of instance '{}' has a gap: {} events from {} on "
                                 "were expected, and {} found",
                                 base::printable(query.key), count, from, events->size()));
    }
    before = std::move(**instance);
  }
}

// The last execution, or one with the number 0.
Result<History> history_for_lease(const Archive& archive, const Grant& grant,
                                  const LeaseRequest& request) {
  auto history = find_history(archive, {.queue = grant.queue,
                                        .key = *grant.key,
                                        .execution = 0,
                                        .from = *request.history_from,
                                        .limit = request.history_limit});
  if (!history) return std::unexpected(history.error());
  if (*history) return std::move(**history);
  History none{.execution = {}, .first = *request.history_from, .events = {}};
  none.execution.queue = grant.queue;
  none.execution.key = *grant.key;
  return none;
}

Error unknown_execution(const HistoryQuery& query) {
  return {Errc::not_found,
          fmt::format("queue '{}' has no history of instance '{}'{}", base::printable(query.queue),
                      base::printable(query.key),
                      query.execution == 0 ? "" : fmt::format(", execution {}", query.execution))};
}

}  // namespace

Result<std::vector<Lease>> materialize(const Archive& archive, const std::vector<Grant>& grants,
                                       const LeaseRequest& request) {
  std::vector<Lease> leases;
  leases.reserve(grants.size());
  for (const Grant& grant : grants) {
    auto messages = read_messages(archive, grant.messages);
    if (!messages) return std::unexpected(messages.error());
    Lease lease{.token = grant.token,
                .queue = grant.queue,
                .key = grant.key,
                .label = grant.label,
                .messages = std::move(*messages),
                .expires_at = grant.expires_at,
                .cursor = grant.cursor,
                .isolated = grant.isolated,
                .more = grant.more,
                .history = std::nullopt};
    if (request.history_from && grant.key) {
      auto history = history_for_lease(archive, grant, request);
      if (!history) return std::unexpected(history.error());
      lease.history = std::move(*history);
    }
    leases.push_back(std::move(lease));
  }
  return leases;
}

Result<Pulled> materialize(const Archive& archive, const PullGrant& grant) {
  auto messages = read_messages(archive, grant.messages);
  if (!messages) return std::unexpected(messages.error());
  return Pulled{.messages = std::move(*messages), .cursor = grant.cursor, .more = grant.more};
}

Result<Page<PeekedMessage>> materialize(const Archive& archive, const Page<PeekedEntry>& entries) {
  Page<PeekedMessage> page;
  page.more = entries.more;
  for (const PeekedEntry& entry : entries.items) {
    auto message = read_message<PeekedMessage>(archive, entry.message,
                                               [&](PeekedMessage& peeked, MessageRecord& record) {
                                                 peeked.key = std::move(record.key);
                                                 peeked.label = entry.label;
                                                 peeked.state = entry.state;
                                                 peeked.retry_at = entry.retry_at;
                                                 peeked.last_reason = entry.last_reason;
                                                 peeked.park_reason = entry.park_reason;
                                               });
    if (!message) return std::unexpected(message.error());
    if (*message) page.items.push_back(std::move(**message));
  }
  return page;
}

Result<History> read_history(const Archive& archive, const Limits& limits,
                             const HistoryQuery& query) {
  if (auto checked = check_page(query.limit, limits); !checked) {
    return std::unexpected(checked.error());
  }
  auto history = find_history(archive, query);
  if (!history) return std::unexpected(history.error());
  if (!*history) return std::unexpected(unknown_execution(query));
  return std::move(**history);
}

Result<Page<Execution>> read_instances(const Archive& archive, const Limits& limits,
                                       const InstancesQuery& query) {
  if (auto checked = check_page(query.limit, limits); !checked) {
    return std::unexpected(checked.error());
  }
  const auto id = find_queue(archive, query.queue);
  if (!id) return std::unexpected(id.error());
  const std::string prefix = queue_key(*id);
  // The first key behind `after` is `after` and a NUL.
  std::string first = lane_key(*id, query.after);
  if (!query.after.empty()) first.push_back('\0');
  Page<Execution> page;
  std::optional<Error> wrong;
  auto scanned = archive.scan(Family::instance, first, behind_prefix(prefix),
                              [&](std::string_view key, std::string_view value) {
                                auto record = decode<InstanceRecord>(value);
                                const auto place = decode_lane_key(key);
                                if (!record || !place) {
                                  wrong = damaged(Family::instance, key);
                                  return false;
                                }
                                if (query.open && *query.open == record->last.outcome.has_value())
                                  return true;
                                if (page.items.size() == query.limit) {
                                  page.more = true;
                                  return false;
                                }
                                record->last.queue = query.queue;
                                record->last.key = std::string(place->key);
                                page.items.push_back(std::move(record->last));
                                return true;
                              });
  if (!scanned) return std::unexpected(scanned.error());
  if (wrong) return std::unexpected(*wrong);
  return page;
}

Result<std::optional<Record>> read_record(const Archive& archive, const Limits& limits,
                                          std::string_view space, std::string_view key) {
  if (auto checked = check_key("record space", space, limits); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto checked = check_key("record key", key, limits); !checked) {
    return std::unexpected(checked.error());
  }
  const std::string name = record_key(space, key);
  const auto entry = archive.get(Family::record, name);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  const auto record = decode<RecordRecord>(**entry);
  if (!record) return std::unexpected(damaged(Family::record, name));
  return Record{.space = std::string(space),
                .key = std::string(key),
                .version = record->version,
                .value = Bytes(record->value)};
}

Result<Page<Record>> read_records(const Archive& archive, const Limits& limits,
                                  const RecordsQuery& query) {
  if (auto checked = check_page(query.limit, limits); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto checked = check_key("record space", query.space, limits); !checked) {
    return std::unexpected(checked.error());
  }
  const std::string prefix = record_key(query.space, query.prefix);
  std::string first = prefix;
  if (!query.after.empty()) {
    first = std::max(first, record_key(query.space, query.after) + std::string(1, '\0'));
  }
  Page<Record> page;
  std::optional<Error> wrong;
  auto scanned = archive.scan(Family::record, first, behind_prefix(prefix),
                              [&](std::string_view key, std::string_view value) {
                                const auto name = decode_record_key(key);
                                const auto record = decode<RecordRecord>(value);
                                if (!name || !record) {
                                  wrong = damaged(Family::record, key);
                                  return false;
                                }
                                if (page.items.size() == query.limit) {
                                  page.more = true;
                                  return false;
                                }
                                page.items.push_back({.space = name->first,
                                                      .key = name->second,
                                                      .version = record->version,
                                                      .value = Bytes(record->value)});
                                return true;
                              });
  if (!scanned) return std::unexpected(scanned.error());
  if (wrong) return std::unexpected(*wrong);
  return page;
}

Result<Page<DeadLetter>> read_dead_letters(const Archive& archive, const Limits& limits,
                                           const DeadLettersQuery& query) {
  if (auto checked = check_page(query.limit, limits); !checked) {
    return std::unexpected(checked.error());
  }
  const auto id = find_queue(archive, query.queue);
  if (!id) return std::unexpected(id.error());
  const std::string prefix = queue_key(*id);
  std::string first = prefix;
  if (query.after) first = dead_key(*id, *query.after) + std::string(1, '\0');
  std::vector<std::pair<MessageId, DeadEntry>> found;
  Page<DeadLetter> page;
  std::optional<Error> wrong;
  auto scanned = archive.scan(Family::dead, first, behind_prefix(prefix),
                              [&](std::string_view key, std::string_view value) {
                                const auto name = decode_dead_key(key);
                                auto entry = decode<DeadEntry>(value);
                                if (!name || !entry) {
                                  wrong = damaged(Family::dead, key);
                                  return false;
                                }
                                if (found.size() == query.limit) {
                                  page.more = true;
                                  return false;
                                }
                                found.emplace_back(name->second, std::move(*entry));
                                return true;
                              });
  if (!scanned) return std::unexpected(scanned.error());
  if (wrong) return std::unexpected(*wrong);
  for (auto& [message_id, entry] : found) {
    DeadLetter letter;
    letter.id = message_id;
    letter.deliveries = entry.dead.deliveries;
    letter.attempts = entry.dead.attempts;
    letter.queue = query.queue;
    letter.key = std::move(entry.message.key);
    letter.label = std::move(entry.message.label);
    letter.dead_at = entry.dead.dead_at;
    letter.reason = std::move(entry.dead.reason);
    letter.failures = std::move(entry.dead.failures);
    auto body = read_body(archive, entry.message);
    if (!body) {
      // Redriven or dropped since it was read?
      const auto again = archive.get(Family::dead, dead_key(*id, message_id));
      if (again && !*again) continue;
      return std::unexpected(body.error());
    }
    letter.body = std::move(*body);
    fill(letter, entry.message);
    page.items.push_back(std::move(letter));
  }
  return page;
}

}  // namespace strand::engine
