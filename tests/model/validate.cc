// Checks of a request alone, before the state is looked at (S19).

#include <algorithm>
#include <set>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

[[noreturn]] void invalid(const std::string& why) { throw Refused{Errc::invalid_argument, why}; }
[[noreturn]] void beyond(const std::string& why) { throw Refused{Errc::limit_exceeded, why}; }
// Some ranges have two natural names for being left.
[[noreturn]] void out_of_range(const std::string& why) {
  throw Refused{Errc::invalid_argument, why, Errc::limit_exceeded};
}

void valid_bytes(std::string_view value, std::size_t most, const char* what) {
  if (value.empty()) invalid(std::string(what) + " is empty");
  if (value.size() > most) beyond(std::string(what) + " is too long");
}

// The simulator writes names of ASCII; real UTF-8 is for the conformance suite.
void valid_name(std::string_view value, const Limits& limits, const char* what) {
  valid_bytes(value, limits.name_bytes_max, what);
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) invalid(std::string(what) + " has a control character");
  }
}

void valid_topic(std::string_view value, const Limits& limits, bool pattern) {
  valid_name(value, limits, "a topic");
  for (;;) {
    const std::size_t dot = value.find('.');
    const std::string_view segment = value.substr(0, dot);
    if (segment.empty()) invalid("a topic has an empty segment");
    const bool last = dot == std::string_view::npos;
    const bool wild = segment.find_first_of("*#") != std::string_view::npos;
    if (wild && (!pattern || segment.size() != 1)) invalid("a wildcard in the wrong place");
    if (segment == "#" && !last) invalid("# belongs at the end");
    if (last) return;
    value.remove_prefix(dot + 1);
  }
}

void valid_duration(Duration duration, const Limits& limits, const char* what) {
  if (duration.count() < 0) invalid(std::string(what) + " is negative");
  if (duration > limits.delay_max) out_of_range(std::string(what) + " is too long");
}

void validate(const Content& content, const Limits& limits) {
  if (content.key) valid_bytes(*content.key, limits.key_bytes_max, "a key");
  if (content.body.size() > limits.body_bytes_max) beyond("a body is too large");
  std::size_t headers = 0;
  for (const Header& header : content.headers) {
    if (header.name.empty()) invalid("a header has no name");
    headers += header.name.size() + header.value.size();
  }
  if (headers > limits.headers_bytes_max) beyond("headers are too large");
  if (content.priority > Priority::low) invalid("no such priority");
  valid_duration(content.delay, limits, "a delay");
  if (content.ttl) {
    valid_duration(*content.ttl, limits, "a TTL");
    if (content.ttl->count() == 0) invalid("a TTL of nothing");
  }
  if (content.dedup_id) valid_bytes(*content.dedup_id, limits.name_bytes_max, "a dedup id");
}

void validate(const Address& address, const Limits& limits) {
  valid_name(address.queue, limits, "a queue");
  if (address.key) valid_bytes(*address.key, limits.key_bytes_max, "a key");
}

void validate(const Send& send, const Limits& limits) {
  validate(static_cast<const Content&>(send), limits);
  valid_name(send.queue, limits, "a queue");
  if (!send.label.empty()) valid_name(send.label, limits, "a label");
  if (send.name) valid_bytes(*send.name, limits.name_bytes_max, "a name");
  if (send.dead_notice_to) validate(*send.dead_notice_to, limits);
}

void validate(const Settle& settle, const Limits& limits) {
  for (const Outcome& outcome : settle.outcomes) {
    if (outcome.reason.size() > limits.reason_bytes_max) beyond("a reason is too long");
    if (outcome.delay) {
      if (outcome.kind != Outcome::Kind::retry) invalid("a delay without retry");
      valid_duration(*outcome.delay, limits, "a delay");
    }
  }
  if (settle.park_reason.size() > limits.reason_bytes_max) beyond("a reason is too long");
  if (settle.label && !settle.label->empty()) valid_name(*settle.label, limits, "a label");
  if (settle.owner_hint) {
    valid_name(settle.owner_hint->owner, limits, "an owner");
    valid_duration(settle.owner_hint->valid_for, limits, "a hint");
    valid_duration(settle.owner_hint->grace, limits, "a grace");
    if (settle.owner_hint->grace > limits.owner_grace_max) out_of_range("a grace is too long");
  }
}

void validate(const QueueSettings& settings, const Limits& limits) {
  if (settings.backoff.size() > limits.backoff_steps_max) beyond("too many steps of backoff");
  for (const Duration step : settings.backoff)
    valid_duration(step, limits, "a backoff");
  if (settings.backoff_jitter_percent > 100) invalid("more jitter than the wait itself");
  if (settings.dead_notice_to) validate(*settings.dead_notice_to, limits);
  if (settings.ttl) {
    valid_duration(*settings.ttl, limits, "a TTL");
    if (settings.ttl->count() == 0) invalid("a TTL of nothing");
  }
  valid_duration(settings.dedup_window, limits, "a window");
  validate_lease_length(settings.lease, limits);
  valid_duration(settings.starvation_after, limits, "starvation_after");
}

struct AdministrationChecks {
  const Limits& limits;

  void operator()(const ConfigureQueue& x) const {
    valid_name(x.queue, limits, "a queue");
    validate(x.settings, limits);
  }
  void operator()(const PauseQueue& x) const { valid_name(x.queue, limits, "a queue"); }
  void operator()(const ResumeQueue& x) const { valid_name(x.queue, limits, "a queue"); }
  void operator()(const ResumeLane& x) const {
    valid_name(x.queue, limits, "a queue");
    if (x.key.has_value() == x.id.has_value()) invalid("exactly one of key and id");
    if (x.key) valid_bytes(*x.key, limits.key_bytes_max, "a key");
  }
  void operator()(const PurgeQueue& x) const {
    valid_name(x.queue, limits, "a queue");
    if (x.key) valid_bytes(*x.key, limits.key_bytes_max, "a key");
  }
  void operator()(const RemoveQueue& x) const { valid_name(x.queue, limits, "a queue"); }
  void operator()(const Redrive& x) const {
    valid_name(x.queue, limits, "a queue");
    if (x.to) valid_name(*x.to, limits, "a queue");
  }
  void operator()(const DropDead& x) const { valid_name(x.queue, limits, "a queue"); }
  void operator()(const Subscribe& x) const {
    valid_name(x.queue, limits, "a queue");
    valid_topic(x.pattern, limits, true);
  }
  void operator()(const Unsubscribe& x) const { valid_name(x.queue, limits, "a queue"); }
  void operator()(const ConfigureTopic& x) const {
    valid_topic(x.topic, limits, false);
    valid_duration(x.settings.retain, limits, "retain");
  }
};

std::size_t operations_of(const Transaction& transaction) {
  std::size_t count = transaction.remove_histories.size() + transaction.appends.size() +
                      transaction.trim_histories.size() + transaction.cancels.size() +
                      transaction.sends.size() + transaction.publishes.size() +
                      transaction.records.size();
  for (const Settle& settle : transaction.settles)
    count += 1 + settle.outcomes.size();
  if (!transaction.admin) return count;
  if (const auto* redrive = std::get_if<Redrive>(&*transaction.admin)) return redrive->ids.size();
  if (const auto* drop = std::get_if<DropDead>(&*transaction.admin)) return drop->ids.size();
  return count;
}

bool only_administration(const Transaction& transaction) {
  return transaction.remove_histories.empty() && transaction.appends.empty() &&
         transaction.trim_histories.empty() && transaction.settles.empty() &&
         transaction.cancels.empty() && transaction.sends.empty() &&
         transaction.publishes.empty() && transaction.records.empty();
}

}  // namespace

void validate_settled_once(const Transaction& transaction) {
  std::set<Token> settled;
  for (const Settle& settle : transaction.settles) {
    if (!settled.insert(settle.token).second) invalid("a lease is settled twice");
    std::set<MessageId> named;
    for (const Outcome& outcome : settle.outcomes) {
      if (!named.insert(outcome.id).second) invalid("a message is settled twice");
    }
  }
}

void validate_lease_length(Duration lease, const Limits& limits) {
  if (lease < limits.lease_min || lease > limits.lease_max) out_of_range("a lease length");
}

void validate(const Transaction& transaction, const Limits& limits) {
  if (transaction.admin && !only_administration(transaction)) {
    invalid("administration comes alone");
  }
  if (operations_of(transaction) > limits.transaction_operations_max) {
    throw Refused{Errc::transaction_too_large, "too many operations"};
  }
  for (const Settle& x : transaction.settles)
    validate(x, limits);
  for (const Append& x : transaction.appends) {
    if (x.execution == 0) invalid("executions are numbered from 1");
  }
  for (const TrimHistory& x : transaction.trim_histories) {
    if (x.execution == 0) invalid("executions are numbered from 1");
  }
  for (const Cancel& x : transaction.cancels) {
    valid_name(x.queue, limits, "a queue");
    valid_bytes(x.name, limits.name_bytes_max, "a name");
  }
  for (const Send& x : transaction.sends)
    validate(x, limits);
  for (const Publish& x : transaction.publishes) {
    validate(static_cast<const Content&>(x), limits);
    valid_topic(x.topic, limits, false);
  }
  for (const WriteRecord& x : transaction.records) {
    valid_bytes(x.space, limits.name_bytes_max, "a space");
    valid_bytes(x.key, limits.key_bytes_max, "a key");
    if (x.value && x.value->size() > limits.record_bytes_max) beyond("a record is too large");
  }
  if (transaction.admin) std::visit(AdministrationChecks{limits}, *transaction.admin);
}

void validate(const LeaseRequest& request, const Limits& limits) {
  valid_name(request.queue, limits, "a queue");
  if (request.key) valid_bytes(*request.key, limits.key_bytes_max, "a key");
  if (request.seize && !request.key) invalid("a seize needs a key");
  if (request.labels.size() > limits.labels_max) beyond("too many labels");
  for (const std::string& label : request.labels) {
    if (!label.empty()) valid_name(label, limits, "a label");
  }
  if (!request.owner.empty()) valid_name(request.owner, limits, "an owner");
  const bool nothing = request.lanes == 0 || request.messages == 0 || request.bytes == 0;
  const bool too_much = request.lanes > limits.lease_lanes_max ||
                        request.messages > limits.lease_messages_max ||
                        request.bytes > limits.lease_bytes_max;
  if (nothing && too_much) out_of_range("a request for nothing, and for too much");
  if (nothing) invalid("a request for nothing");
  if (too_much) beyond("a request for too much");
  if (request.lease) validate_lease_length(*request.lease, limits);
}

void validate(const PullLimits& pull, const Limits& limits) {
  if (pull.messages == 0 || pull.bytes == 0) invalid("a request for nothing");
  if (pull.messages > limits.lease_messages_max || pull.bytes > limits.lease_bytes_max) {
    beyond("a request for too much");
  }
}

}  // namespace strand::model
