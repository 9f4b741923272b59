#include "model/text.h"

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <variant>

namespace strand::model {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string of(Priority priority) { return "p" + number(static_cast<std::uint64_t>(priority)); }

std::string of(const Headers& headers) {
  std::string out = "{";
  for (const Header& header : headers) {
    out += (out.size() > 1 ? "," : "") + quote(header.name) + "=" + quote(header.value);
  }
  return out + "}";
}

template <class T>
std::string maybe(std::string_view label, const std::optional<T>& value) {
  if (!value) return "";
  return " " + std::string(label) + "=" + text(*value);
}

std::string maybe_number(std::string_view label, const std::optional<std::uint32_t>& value) {
  return value ? " " + std::string(label) + "=" + number(*value) : "";
}

std::string maybe_quoted(std::string_view label, const std::optional<std::string>& value) {
  return value ? " " + std::string(label) + "=" + quote(*value) : "";
}

std::string of_content(const Content& content) {
  std::string out =
      maybe_quoted("key", content.key) + " " + quote(content.body) + " " + of(content.priority);
  if (!content.headers.empty()) out += " " + of(content.headers);
  if (content.delay.count() != 0) out += " delay=" + text(content.delay);
  return out + maybe("ttl", content.ttl) + maybe_quoted("dedup", content.dedup_id);
}

std::string of(const Send& send) {
  std::string out = "send " + quote(send.queue) + of_content(send);
  if (!send.label.empty()) out += " label=" + quote(send.label);
  out += maybe_quoted("name", send.name) + maybe_number("max_attempts", send.max_attempts);
  if (send.dead_notice_to) {
    out += " notice=" + quote(send.dead_notice_to->queue) +
           maybe_quoted("notice_key", send.dead_notice_to->key);
  }
  return out;
}

std::string of(const Outcome& outcome) {
  static constexpr std::array names = {"ack", "retry", "dead", "release"};
  std::string out = std::string(names.at(static_cast<std::size_t>(outcome.kind))) + " " +
                    text(outcome.id) + maybe("delay", outcome.delay);
  if (!outcome.reason.empty()) out += " " + quote(outcome.reason);
  return out;
}

std::string of(const Settle& settle) {
  static constexpr std::array names = {"end", "keep", "park"};
  std::string out = "settle " + text(settle.token) + " {";
  for (const Outcome& outcome : settle.outcomes)
    out += of(outcome) + "; ";
  out += std::string("} ") + names.at(static_cast<std::size_t>(settle.then));
  if (!settle.park_reason.empty()) out += " " + quote(settle.park_reason);
  out += maybe_quoted("label", settle.label);
  if (settle.owner_hint) {
    out += " hint=" + quote(settle.owner_hint->owner) + "/" + text(settle.owner_hint->valid_for) +
           "/" + text(settle.owner_hint->grace);
  }
  return out;
}

std::string of(const Append& append) {
  std::string out = "append " + text(append.token) + " execution=" + number(append.execution) +
                    " at=" + number(append.expected_length) + " [";
  for (const Bytes& event : append.events)
    out += quote(event) + " ";
  return out + "]" + maybe_quoted("close", append.close);
}

std::string of(const WriteRecord& write) {
  std::string out = "record " + quote(write.space) + "/" + quote(write.key);
  out += write.value ? " = " + quote(*write.value) : " removed";
  if (write.expected) out += " expected=" + number(static_cast<std::uint64_t>(*write.expected));
  return out;
}

std::string of_ids(const std::vector<MessageId>& ids) {
  std::string out = "[";
  for (const MessageId id : ids)
    out += text(id) + " ";
  return out + "]";
}

struct AdministrationText {
  std::string operator()(const ConfigureQueue& x) const {
    return "configure " + quote(x.queue) + " " + text(x.settings);
  }
  std::string operator()(const PauseQueue& x) const { return "pause " + quote(x.queue); }
  std::string operator()(const ResumeQueue& x) const { return "resume " + quote(x.queue); }
  std::string operator()(const ResumeLane& x) const {
    return "resume lane " + quote(x.queue) + maybe_quoted("key", x.key) + maybe("id", x.id);
  }
  std::string operator()(const PurgeQueue& x) const {
    return "purge " + quote(x.queue) + maybe_quoted("key", x.key);
  }
  std::string operator()(const RemoveQueue& x) const {
    return "remove " + quote(x.queue) + (x.force ? " force" : "");
  }
  std::string operator()(const Redrive& x) const {
    return "redrive " + quote(x.queue) + " " + of_ids(x.ids) + maybe_quoted("to", x.to);
  }
  std::string operator()(const DropDead& x) const {
    return "drop dead " + quote(x.queue) + " " + of_ids(x.ids);
  }
  std::string operator()(const Subscribe& x) const {
    return "subscribe " + quote(x.queue) + " " + quote(x.pattern) + maybe("from", x.from);
  }
  std::string operator()(const Unsubscribe& x) const { return "unsubscribe " + quote(x.queue); }
  std::string operator()(const ConfigureTopic& x) const {
    return "configure topic " + quote(x.topic) + " retain=" + text(x.settings.retain);
  }
};

}  // namespace

std::string quote(std::string_view bytes) {
  static constexpr std::string_view digits = "0123456789abcdef";
  // Bodies of bad requests may be large; their length and beginning say enough.
  constexpr std::size_t shown_max = 80;
  std::string out = "'";
  for (const char c : bytes.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      out += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
    } else {
      out += c;
    }
  }
  out += "'";
  if (bytes.size() > shown_max) {
    out += "…(" + number(bytes.size()) + " bytes, hash " +
           number(std::hash<std::string_view>{}(bytes)) + ")";
  }
  return out;
}

std::string text(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::limit_exceeded:
      return "limit_exceeded";
    case Errc::transaction_too_large:
      return "transaction_too_large";
    case Errc::invalid_token:
      return "invalid_token";
    case Errc::unsupported:
      return "unsupported";
    case Errc::forbidden:
      return "forbidden";
    case Errc::not_found:
      return "not_found";
    case Errc::already_exists:
      return "already_exists";
    case Errc::in_use:
      return "in_use";
    case Errc::name_taken:
      return "name_taken";
    case Errc::lease_lost:
      return "lease_lost";
    case Errc::message_not_leased:
      return "message_not_leased";
    case Errc::invalid_cursor:
      return "invalid_cursor";
    case Errc::version_mismatch:
      return "version_mismatch";
    case Errc::history_mismatch:
      return "history_mismatch";
    case Errc::transaction_conflict:
      return "transaction_conflict";
    case Errc::transaction_expired:
      return "transaction_expired";
    case Errc::queue_full:
      return "queue_full";
    case Errc::store_full:
      return "store_full";
    case Errc::unavailable:
      return "unavailable";
    case Errc::unknown_outcome:
      return "unknown_outcome";
    case Errc::io_error:
      return "io_error";
    case Errc::corrupt:
      return "corrupt";
  }
  return "unknown code";
}

std::string text(const Error& error) { return text(error.code) + " (" + error.message + ")"; }

std::string text(Time time) { return "@" + text(time.time_since_epoch()); }

std::string text(Duration duration) {
  const auto ms = duration.count();
  if (ms % 1000 == 0) return std::to_string(ms / 1000) + "s";
  return std::to_string(ms) + "ms";
}

std::string text(MessageId id) { return "#" + number(static_cast<std::uint64_t>(id)); }

std::string text(const Token& token) {
  return "e" + number(static_cast<std::uint64_t>(token.epoch()));
}

std::string text(MessageState state) {
  static constexpr std::array names = {"ready",   "delayed", "backoff",
                                       "waiting", "leased",  "parked"};
  return names.at(static_cast<std::size_t>(state));
}

std::string text(const std::optional<std::string>& value) { return value ? quote(*value) : "none"; }

std::string content(const Transaction& transaction) {
  std::string out;
  for (const RemoveHistory& x : transaction.remove_histories) {
    out += "remove history " + text(x.token) + " through=" + number(x.through_execution) + "; ";
  }
  for (const Append& x : transaction.appends)
    out += of(x) + "; ";
  for (const TrimHistory& x : transaction.trim_histories) {
    out += "trim history " + text(x.token) + " execution=" + number(x.execution) +
           " before=" + number(x.before) + "; ";
  }
  for (const Settle& x : transaction.settles)
    out += of(x) + "; ";
  for (const Cancel& x : transaction.cancels) {
    out += "cancel " + quote(x.queue) + " " + quote(x.name) + (x.quiet ? " quietly" : "") + "; ";
  }
  for (const Send& x : transaction.sends)
    out += of(x) + "; ";
  for (const Publish& x : transaction.publishes) {
    out += "publish " + quote(x.topic) + of_content(x) + "; ";
  }
  for (const WriteRecord& x : transaction.records)
    out += of(x) + "; ";
  if (transaction.admin) out += std::visit(AdministrationText{}, *transaction.admin) + "; ";
  return out;
}

std::string text(const Transaction& transaction) {
  std::string out;
  if (transaction.id) {
    out += "id=" + number(transaction.id->client) + "." + number(transaction.id->number) + "/" +
           number(transaction.id->lowest_unanswered) + text(transaction.id->time) + " ";
  }
  if (transaction.durability == Durability::async) out += "async ";
  return out + content(transaction);
}

std::string text(const LeaseRequest& request) {
  std::string out = quote(request.queue) + maybe_quoted("key", request.key);
  if (request.seize) out += " seize";
  for (const std::string& label : request.labels)
    out += " label=" + quote(label);
  if (!request.owner.empty()) out += " owner=" + quote(request.owner);
  if (request.request) {
    out += " request=" + number(request.request->client) + "." + number(request.request->number);
  }
  out += " lanes=" + number(request.lanes) + " messages=" + number(request.messages) +
         " bytes=" + number(request.bytes) + maybe("lease", request.lease);
  if (request.history_from) out += " history_from=" + number(*request.history_from);
  if (request.history_limit != LeaseRequest{}.history_limit) {
    out += " history_limit=" + number(request.history_limit);
  }
  return out;
}

std::string text(const Receipt& receipt) {
  std::string out = "ok" + text(receipt.time);
  for (const Sent& sent : receipt.sent) {
    out += " sent " + text(sent.id) + (sent.duplicate ? "(duplicate)" : "");
  }
  for (const Published& published : receipt.published) {
    out += " published " + text(published.id) + (published.duplicate ? "(duplicate)" : "") + "->" +
           number(published.matched);
  }
  for (const bool cancelled : receipt.cancelled) {
    out += cancelled ? " cancelled" : " not cancelled";
  }
  for (const Version version : receipt.versions) {
    out += " v" + number(static_cast<std::uint64_t>(version));
  }
  if (receipt.affected != 0) out += " affected=" + number(receipt.affected);
  return out;
}

std::string text(const Message& message) {
  std::string out = text(message.id) + " " + quote(message.body) + " " + of(message.priority) +
                    " d" + number(message.deliveries) + " a" + number(message.attempts) + " in" +
                    text(message.enqueued_at) + " due" + text(message.due) +
                    maybe("expires", message.expires_at) + maybe_quoted("name", message.name) +
                    maybe_quoted("topic", message.topic);
  if (!message.headers.empty()) out += " " + of(message.headers);
  return out;
}

std::string text(const std::vector<Message>& messages) {
  std::string out = "[";
  for (const Message& message : messages)
    out += "\n    " + text(message);
  return out + "]";
}

std::string text(const Lease& lease) {
  std::string out = text(lease.token) + " " + quote(lease.queue) + maybe_quoted("key", lease.key) +
                    " label=" + quote(lease.label) + " until" + text(lease.expires_at) +
                    " cursor=" + number(static_cast<std::uint64_t>(lease.cursor));
  if (lease.isolated) out += " isolated";
  if (lease.more) out += " more";
  return out + " " + text(lease.messages) + maybe("history", lease.history);
}

std::string text(const std::vector<Lease>& leases) {
  std::string out = number(leases.size()) + " leases";
  for (const Lease& lease : leases)
    out += "\n   " + text(lease);
  return out;
}

std::string text(const Pulled& pulled) {
  return "cursor=" + number(static_cast<std::uint64_t>(pulled.cursor)) +
         (pulled.more ? " more " : " ") + text(pulled.messages);
}

std::string text(const QueueStats& s) {
  return "accepted=" + number(s.accepted) + " acked=" + number(s.acked) +
         " expired=" + number(s.expired) + " dropped=" + number(s.dropped) +
         " moved=" + number(s.moved) + " purged=" + number(s.purged) + " dead=" + number(s.dead) +
         " ready=" + number(s.ready) + " delayed=" + number(s.delayed) +
         " waiting=" + number(s.waiting) + " leased=" + number(s.leased) +
         " parked=" + number(s.parked) + " backoff=" + number(s.backoff) +
         " lanes_ready=" + number(s.lanes_ready) + " leases=" + number(s.leases) +
         maybe("oldest_ready", s.oldest_ready);
}

std::string text(const QueueSettings& s) {
  std::string out = "{max_attempts=" + number(s.max_attempts) + " backoff=";
  for (const Duration step : s.backoff)
    out += text(step) + ",";
  if (s.backoff_jitter_percent > 0) out += " jitter:" + std::to_string(s.backoff_jitter_percent);
  if (s.dead_notice_to) {
    out += " notice=" + quote(s.dead_notice_to->queue) +
           maybe_quoted("notice_key", s.dead_notice_to->key);
  }
  out += s.retry_policy == RetryPolicy::block ? " block" : " skip";
  out += s.on_exhausted == OnExhausted::dead ? " exhausted:dead" : " exhausted:park";
  out += maybe("ttl", s.ttl);
  out += s.on_expired == OnExpired::drop ? " expired:drop" : " expired:dead";
  return out + " dedup=" + text(s.dedup_window) + " lease=" + text(s.lease) +
         " starvation=" + text(s.starvation_after) + " max_length=" + number(s.max_length) + "}";
}

std::string text(const QueueInfo& info) {
  return quote(info.name) + (info.paused ? " paused " : " ") + text(info.settings);
}

std::string text(const PeekedMessage& message) {
  return text(static_cast<const Message&>(message)) + maybe_quoted("key", message.key) +
         " label=" + quote(message.label) + " " + text(message.state) +
         maybe("retry_at", message.retry_at) + maybe_quoted("last_reason", message.last_reason) +
         maybe_quoted("park_reason", message.park_reason);
}

std::string text(const DeadLetter& letter) {
  std::string out = text(static_cast<const Message&>(letter)) + " queue=" + quote(letter.queue) +
                    maybe_quoted("key", letter.key) + " label=" + quote(letter.label) + " dead" +
                    text(letter.dead_at) + " " + quote(letter.reason) + " failures:";
  for (const Failure& failure : letter.failures) {
    out += " " + text(failure.at) + quote(failure.reason);
  }
  return out;
}

std::string text(const Execution& execution) {
  return quote(execution.queue) + "/" + quote(execution.key) +
         " execution=" + number(execution.number) + " length=" + number(execution.length) +
         " first=" + number(execution.first) + " label=" + quote(execution.label) +
         maybe_quoted("outcome", execution.outcome) + " opened" + text(execution.opened_at) +
         " updated" + text(execution.updated_at);
}

std::string text(const History& history) {
  std::string out = text(history.execution) + " from=" + number(history.first) + " [";
  for (const Bytes& event : history.events)
    out += quote(event) + " ";
  return out + "]";
}

std::string text(const Subscription& subscription) {
  return quote(subscription.queue) + " " + quote(subscription.pattern);
}

std::string text(const Topic& topic) {
  return quote(topic.name) + " " + text(topic.settings.retain);
}

std::string text(const Record& record) {
  return quote(record.space) + "/" + quote(record.key) + " v" +
         number(static_cast<std::uint64_t>(record.version)) + " = " + quote(record.value);
}

}  // namespace strand::model
