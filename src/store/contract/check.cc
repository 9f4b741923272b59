#include "store/contract/check.h"

#include <unordered_set>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"

namespace strand {

namespace {

using base::printable;

// Runs each check until one fails.
#define STRAND_CHECK(expression)                                  \
  do {                                                            \
    if (auto checked_ = (expression); !checked_) return checked_; \
  } while (false)

Result<void> refuse(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

Result<void> too_much(std::string_view what, std::size_t found, std::size_t limit,
                      std::string_view limit_name) {
  return failure(Errc::limit_exceeded, fmt::format("{} has {}, more than the limit of {} ({})",
                                                   what, found, limit, limit_name));
}

Result<void> check_duration(std::string_view what, Duration duration, const Limits& limits) {
  if (duration < Duration::zero()) {
    return refuse(fmt::format("{} is negative ({} ms)", what, duration.count()));
  }
  if (duration > limits.delay_max) {
    return failure(Errc::limit_exceeded,
                   fmt::format("{} is {} ms, longer than the limit of {} (delay_max)", what,
                               duration.count(), format_duration(limits.delay_max)));
  }
  return {};
}

Result<void> check_label(std::string_view label, const Limits& limits) {
  return label.empty() ? Result<void>{} : check_name("label", label, limits);
}

Result<void> check_reason(std::string_view reason, const Limits& limits) {
  if (reason.size() > limits.reason_bytes_max) {
    return too_much("the reason (bytes)", reason.size(), limits.reason_bytes_max,
                    "reason_bytes_max");
  }
  return {};
}

Result<void> check_headers(const Headers& headers, const Limits& limits) {
  std::size_t bytes = 0;
  for (const Header& header : headers) {
    if (header.name.empty()) return refuse("a header has an empty name");
    bytes += header.name.size() + header.value.size();
  }
  if (bytes > limits.headers_bytes_max && !STRAND_PLANTED("headers-have-no-limit")) {
    return too_much("the headers (bytes)", bytes, limits.headers_bytes_max, "headers_bytes_max");
  }
  return {};
}

Result<void> check_content(const Content& content, const Limits& limits) {
  if (content.key) STRAND_CHECK(check_key("key", *content.key, limits));
  if (content.body.size() > limits.body_bytes_max) {
    return too_much("the body (bytes)", content.body.size(), limits.body_bytes_max,
                    "body_bytes_max");
  }
  STRAND_CHECK(check_headers(content.headers, limits));
  if (content.priority > Priority::low) {
    return refuse(fmt::format("priority {} is not one of 0 (urgent) to 3 (low)",
                              static_cast<unsigned>(content.priority)));
  }
  STRAND_CHECK(check_duration("delay", content.delay, limits));
  if (content.ttl) {
    STRAND_CHECK(check_duration("ttl", *content.ttl, limits));
    if (*content.ttl == Duration::zero()) return refuse("ttl is zero; leave it out for none");
  }
  if (content.dedup_id) STRAND_CHECK(check_key("dedup id", *content.dedup_id, limits));
  return {};
}

Result<void> check_notice_to(const Address& address, const Limits& limits) {
  STRAND_CHECK(check_name("queue of dead_notice_to", address.queue, limits));
  if (address.key) STRAND_CHECK(check_key("key of dead_notice_to", *address.key, limits));
  return {};
}

Result<void> check_send(const Send& send, const Limits& limits) {
  STRAND_CHECK(check_name("queue", send.queue, limits));
  STRAND_CHECK(check_content(send, limits));
  STRAND_CHECK(check_label(send.label, limits));
  if (send.name) STRAND_CHECK(check_key("message name", *send.name, limits));
  if (send.dead_notice_to) STRAND_CHECK(check_notice_to(*send.dead_notice_to, limits));
  return {};
}

Result<void> check_topic(std::string_view topic, bool pattern, const Limits& limits) {
  const std::string_view what = pattern ? "pattern" : "topic";
  STRAND_CHECK(check_name(what, topic, limits));
  std::string_view rest = topic;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view segment = rest.substr(0, dot);
    if (segment.empty()) {
      return refuse(fmt::format("{} '{}' has an empty segment", what, printable(topic)));
    }
    const bool wild = segment.find_first_of("*#") != std::string_view::npos;
    if (wild && !pattern) {
      return refuse(fmt::format("topic '{}' has '{}': wildcards belong to patterns",
                                printable(topic), printable(segment)));
    }
    if (wild && segment.size() > 1) {
      return refuse(
          fmt::format("pattern '{}': '*' and '#' stand for whole segments, not parts as in "
                      "'{}'",
                      printable(topic), printable(segment)));
    }
    if (segment == "#" && dot != std::string_view::npos) {
      return refuse(
          fmt::format("pattern '{}': '#' may only be the last segment", printable(topic)));
    }
    if (dot == std::string_view::npos) return {};
    rest.remove_prefix(dot + 1);
  }
}

Result<void> check_outcome(const Outcome& outcome, const Limits& limits) {
  if (outcome.kind > Outcome::Kind::release) {
    return refuse(fmt::format("outcome kind {} is unknown", static_cast<unsigned>(outcome.kind)));
  }
  if (outcome.delay) {
    if (outcome.kind != Outcome::Kind::retry) return refuse("only a retry takes a delay");
    STRAND_CHECK(check_duration("retry delay", *outcome.delay, limits));
  }
  return check_reason(outcome.reason, limits);
}

Result<void> check_settle(const Settle& settle, const Limits& limits) {
  for (const Outcome& outcome : settle.outcomes)
    STRAND_CHECK(check_outcome(outcome, limits));
  if (settle.then > Settle::Then::park) {
    return refuse(fmt::format("settle.then {} is unknown", static_cast<unsigned>(settle.then)));
  }
  STRAND_CHECK(check_reason(settle.park_reason, limits));
  if (settle.label) STRAND_CHECK(check_label(*settle.label, limits));
  if (const auto& hint = settle.owner_hint) {
    STRAND_CHECK(check_name("owner", hint->owner, limits));
    STRAND_CHECK(check_duration("valid_for of the owner hint", hint->valid_for, limits));
    STRAND_CHECK(check_duration("grace of the owner hint", hint->grace, limits));
    if (hint->grace > limits.owner_grace_max) {
      return failure(
          Errc::limit_exceeded,
          fmt::format("the owner hint's grace of {} is longer than {} (owner_grace_max)",
                      format_duration(hint->grace), format_duration(limits.owner_grace_max)));
    }
  }
  return {};
}

Result<void> check_record(const WriteRecord& record, const Limits& limits) {
  STRAND_CHECK(check_key("record space", record.space, limits));
  STRAND_CHECK(check_key("record key", record.key, limits));
  if (record.value && record.value->size() > limits.record_bytes_max) {
    return too_much("the record (bytes)", record.value->size(), limits.record_bytes_max,
                    "record_bytes_max");
  }
  return {};
}

Result<void> check_append(const Append& append, const Limits& limits) {
  if (append.execution == 0) return refuse("executions are numbered from 1");
  if (append.close) STRAND_CHECK(check_name("outcome of the execution", *append.close, limits));
  return {};
}

Result<void> check_trim(const TrimHistory& trim) {
  if (trim.execution == 0) return refuse("executions are numbered from 1");
  return {};
}

Result<void> check_settings(const QueueSettings& settings, const Limits& limits) {
  if (settings.backoff.size() > limits.backoff_steps_max) {
    return too_much("backoff (steps)", settings.backoff.size(), limits.backoff_steps_max,
                    "backoff_steps_max");
  }
  for (const Duration step : settings.backoff) {
    STRAND_CHECK(check_duration("backoff step", step, limits));
  }
  if (settings.backoff_jitter_percent > 100) {
    return refuse(fmt::format("backoff_jitter_percent is {}: it can be 0 to 100",
                              settings.backoff_jitter_percent));
  }
  if (settings.retry_policy > RetryPolicy::skip || settings.on_exhausted > OnExhausted::park ||
      settings.on_expired > OnExpired::dead) {
    return refuse("a policy of the queue settings has an unknown value");
  }
  if (settings.ttl) {
    STRAND_CHECK(check_duration("ttl", *settings.ttl, limits));
    if (*settings.ttl == Duration::zero()) return refuse("ttl is zero; leave it out for none");
  }
  if (settings.dead_notice_to) STRAND_CHECK(check_notice_to(*settings.dead_notice_to, limits));
  STRAND_CHECK(check_duration("dedup_window", settings.dedup_window, limits));
  STRAND_CHECK(check_lease_duration(settings.lease, limits));
  return check_duration("starvation_after", settings.starvation_after, limits);
}

Result<void> check_ids(const std::vector<MessageId>& ids) {
  std::unordered_set<std::uint64_t> seen;
  for (const MessageId id : ids) {
    if (!seen.insert(static_cast<std::uint64_t>(id)).second) {
      return refuse(fmt::format("message {} is named twice", static_cast<std::uint64_t>(id)));
    }
  }
  return {};
}

class CheckAdministration {
 public:
  explicit CheckAdministration(const Limits& limits) : limits_(limits) {}

  Result<void> operator()(const ConfigureQueue& op) const {
    STRAND_CHECK(check_name("queue", op.queue, limits_));
    return check_settings(op.settings, limits_);
  }
  Result<void> operator()(const PauseQueue& op) const { return queue(op.queue); }
  Result<void> operator()(const ResumeQueue& op) const { return queue(op.queue); }
  Result<void> operator()(const ResumeLane& op) const {
    STRAND_CHECK(queue(op.queue));
    if (op.key.has_value() == op.id.has_value()) {
      return refuse("ResumeLane names either a key or, for an unkeyed message, an id");
    }
    return op.key ? check_key("key", *op.key, limits_) : Result<void>{};
  }
  Result<void> operator()(const PurgeQueue& op) const {
    STRAND_CHECK(queue(op.queue));
    return op.key ? check_key("key", *op.key, limits_) : Result<void>{};
  }
  Result<void> operator()(const RemoveQueue& op) const { return queue(op.queue); }
  Result<void> operator()(const Redrive& op) const {
    STRAND_CHECK(queue(op.queue));
    if (op.to) STRAND_CHECK(queue(*op.to));
    return check_ids(op.ids);
  }
  Result<void> operator()(const DropDead& op) const {
    STRAND_CHECK(queue(op.queue));
    return check_ids(op.ids);
  }
  Result<void> operator()(const Subscribe& op) const {
    STRAND_CHECK(queue(op.queue));
    return check_topic(op.pattern, true, limits_);
  }
  Result<void> operator()(const Unsubscribe& op) const { return queue(op.queue); }
  Result<void> operator()(const ConfigureTopic& op) const {
    STRAND_CHECK(check_topic(op.topic, false, limits_));
    return check_duration("retain", op.settings.retain, limits_);
  }

 private:
  [[nodiscard]] Result<void> queue(const std::string& name) const {
    return check_name("queue", name, limits_);
  }
  const Limits& limits_;
};

// How much a transaction asks for, against Limits::transaction_*.
struct Extent {
  std::size_t operations = 0;
  std::size_t bytes = 0;

  void add(std::size_t more_bytes) {
    ++operations;
    bytes += more_bytes;
  }
  void content(const Content& content) {
    add(content_bytes(content.body, content.headers) + (content.key ? content.key->size() : 0) +
        (content.dedup_id ? content.dedup_id->size() : 0));
  }
};

Extent extent(const Transaction& transaction) {
  Extent extent;
  extent.operations += transaction.remove_histories.size() + transaction.trim_histories.size();
  for (const Append& append : transaction.appends) {
    extent.add(0);
    for (const Bytes& event : append.events)
      extent.bytes += event.size();
  }
  for (const Settle& settle : transaction.settles) {
    extent.add(settle.park_reason.size());
    for (const Outcome& outcome : settle.outcomes)
      extent.add(outcome.reason.size());
  }
  for (const Cancel& cancel : transaction.cancels)
    extent.add(cancel.queue.size() + cancel.name.size());
  for (const Send& send : transaction.sends) {
    extent.content(send);
    extent.bytes += send.queue.size() + send.label.size() + (send.name ? send.name->size() : 0);
  }
  for (const Publish& publish : transaction.publishes) {
    extent.content(publish);
    extent.bytes += publish.topic.size();
  }
  for (const WriteRecord& record : transaction.records) {
    extent.add(record.space.size() + record.key.size() + (record.value ? record.value->size() : 0));
  }
  if (transaction.admin) {
    if (const auto* redrive = std::get_if<Redrive>(&*transaction.admin)) {
      extent.operations += redrive->ids.size();
    } else if (const auto* drop = std::get_if<DropDead>(&*transaction.admin)) {
      extent.operations += drop->ids.size();
    } else {
      ++extent.operations;
    }
  }
  return extent;
}

Result<void> check_extent(const Transaction& transaction, const Limits& limits) {
  const Extent found = extent(transaction);
  if (found.operations > limits.transaction_operations_max) {
    return failure(Errc::transaction_too_large,
                   fmt::format("the transaction has {} operations, more than the limit of {} "
                               "(transaction_operations_max): split it",
                               found.operations, limits.transaction_operations_max));
  }
  if (found.bytes > limits.transaction_bytes_max) {
    return failure(Errc::transaction_too_large,
                   fmt::format("the transaction has {} bytes, more than the limit of {} "
                               "(transaction_bytes_max): split it",
                               found.bytes, limits.transaction_bytes_max));
  }
  return {};
}

bool has_work(const Transaction& transaction) {
  return !transaction.remove_histories.empty() || !transaction.appends.empty() ||
         !transaction.trim_histories.empty() || !transaction.settles.empty() ||
         !transaction.cancels.empty() || !transaction.sends.empty() ||
         !transaction.publishes.empty() || !transaction.records.empty();
}

}  // namespace

std::size_t content_bytes(const Bytes& body, const Headers& headers) {
  std::size_t bytes = body.size();
  for (const Header& header : headers)
    bytes += header.name.size() + header.value.size();
  return bytes;
}

Result<void> check_name(std::string_view what, std::string_view name, const Limits& limits) {
  if (name.empty()) return refuse(fmt::format("the {} is empty", what));
  if (name.size() > limits.name_bytes_max) {
    return too_much(fmt::format("the {} '{}…' (bytes)", what, printable(name.substr(0, 40))),
                    name.size(), limits.name_bytes_max, "name_bytes_max");
  }
  if (!base::is_plain_text(name)) {
    return refuse(fmt::format("the {} '{}' is not UTF-8 text without control characters", what,
                              printable(name)));
  }
  return {};
}

Result<void> check_key(std::string_view what, std::string_view key, const Limits& limits) {
  if (key.empty()) return refuse(fmt::format("the {} is empty; leave it out for none", what));
  if (key.size() > limits.key_bytes_max) {
    return too_much(fmt::format("the {} '{}…' (bytes)", what, printable(key.substr(0, 40))),
                    key.size(), limits.key_bytes_max, "key_bytes_max");
  }
  return {};
}

Result<void> check_page(std::size_t limit, const Limits& limits) {
  if (limit == 0) return refuse("a page of 0 items was asked for");
  if (limit > limits.page_max) {
    return too_much("the page (items)", limit, limits.page_max, "page_max");
  }
  return {};
}

Result<void> check_lease_duration(Duration lease, const Limits& limits) {
  if (lease < limits.lease_min || lease > limits.lease_max) {
    return failure(lease < limits.lease_min ? Errc::invalid_argument : Errc::limit_exceeded,
                   fmt::format("a lease of {} ms is not between {} (lease_min) and {} (lease_max)",
                               lease.count(), format_duration(limits.lease_min),
                               format_duration(limits.lease_max)));
  }
  return {};
}

Result<void> check_pull_limits(const PullLimits& pull, const Limits& limits) {
  if (pull.messages == 0 || pull.bytes == 0) {
    return refuse("limits of 0 messages or 0 bytes would never yield anything");
  }
  if (pull.messages > limits.lease_messages_max) {
    return too_much("messages asked for", pull.messages, limits.lease_messages_max,
                    "lease_messages_max");
  }
  if (pull.bytes > limits.lease_bytes_max) {
    return too_much("bytes asked for", pull.bytes, limits.lease_bytes_max, "lease_bytes_max");
  }
  return {};
}

Result<void> check_lease_request(const LeaseRequest& request, const Limits& limits) {
  STRAND_CHECK(check_name("queue", request.queue, limits));
  if (request.labels.size() > limits.labels_max) {
    return too_much("labels asked for", request.labels.size(), limits.labels_max, "labels_max");
  }
  for (const std::string& label : request.labels)
    STRAND_CHECK(check_label(label, limits));
  if (request.key) STRAND_CHECK(check_key("key", *request.key, limits));
  if (request.seize && !request.key) return refuse("seize needs the key of the lane to take");
  if (!request.owner.empty()) STRAND_CHECK(check_name("owner", request.owner, limits));
  if (request.lanes == 0) return refuse("0 lanes were asked for");
  if (request.lanes > limits.lease_lanes_max) {
    return too_much("lanes asked for", request.lanes, limits.lease_lanes_max, "lease_lanes_max");
  }
  STRAND_CHECK(check_pull_limits({.messages = request.messages, .bytes = request.bytes}, limits));
  return request.lease ? check_lease_duration(*request.lease, limits) : Result<void>{};
}

Result<void> check_transaction(const Transaction& transaction, const Limits& limits) {
  STRAND_CHECK(check_extent(transaction, limits));
  if (transaction.durability > Durability::async) {
    return refuse(fmt::format("durability {} is neither sync nor async",
                              static_cast<unsigned>(transaction.durability)));
  }
  if (transaction.id && transaction.id->number == 0) {
    return refuse("transaction numbers start at 1");
  }
  if (transaction.admin) {
    if (has_work(transaction)) {
      return refuse("an administration must be alone in its transaction");
    }
    return std::visit(CheckAdministration(limits), *transaction.admin);
  }
  for (const Append& append : transaction.appends)
    STRAND_CHECK(check_append(append, limits));
  for (const TrimHistory& trim : transaction.trim_histories)
    STRAND_CHECK(check_trim(trim));
  for (const Settle& settle : transaction.settles)
    STRAND_CHECK(check_settle(settle, limits));
  for (const Cancel& cancel : transaction.cancels) {
    STRAND_CHECK(check_name("queue", cancel.queue, limits));
    STRAND_CHECK(check_key("message name", cancel.name, limits));
  }
  for (const Send& send : transaction.sends)
    STRAND_CHECK(check_send(send, limits));
  for (const Publish& publish : transaction.publishes) {
    STRAND_CHECK(check_topic(publish.topic, false, limits));
    STRAND_CHECK(check_content(publish, limits));
  }
  for (const WriteRecord& record : transaction.records)
    STRAND_CHECK(check_record(record, limits));
  return {};
}

#undef STRAND_CHECK

}  // namespace strand
