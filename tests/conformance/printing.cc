// How values look in failed assertions.
#include <ostream>
#include <string>
#include <utility>

#include "conformance/suite.h"

namespace strand {
namespace {

std::string text_of(const std::optional<std::string>& text) {
  return text ? "\"" + *text + "\"" : "none";
}

std::string text_of(const std::optional<Time>& time) { return time ? format_time(*time) : "none"; }

template <class Items>
void print_all(const Items& items, std::ostream* out) {
  *out << "[";
  const char* separator = "";
  for (const auto& item : items) {
    *out << separator;
    PrintTo(item, out);
    separator = ", ";
  }
  *out << "]";
}

}  // namespace

void PrintTo(Errc code, std::ostream* out) { *out << to_string(code); }
void PrintTo(MessageId id, std::ostream* out) { *out << "message " << std::to_underlying(id); }
void PrintTo(Epoch epoch, std::ostream* out) { *out << "epoch " << std::to_underlying(epoch); }
void PrintTo(Version version, std::ostream* out) {
  *out << "version " << std::to_underlying(version);
}
void PrintTo(Cursor cursor, std::ostream* out) { *out << "cursor " << std::to_underlying(cursor); }
void PrintTo(MessageState state, std::ostream* out) { *out << to_string(state); }
void PrintTo(Priority priority, std::ostream* out) {
  *out << "priority " << static_cast<int>(std::to_underlying(priority));
}
void PrintTo(const Token& token, std::ostream* out) { *out << "token " << token.to_string(); }
void PrintTo(const Header& header, std::ostream* out) {
  *out << header.name << "=" << header.value;
}

void PrintTo(const Message& message, std::ostream* out) {
  PrintTo(message.id, out);
  *out << " {\"" << message.body << "\", deliveries " << message.deliveries << ", attempts "
       << message.attempts << ", ";
  PrintTo(message.priority, out);
  *out << ", enqueued " << format_time(message.enqueued_at) << ", due " << format_time(message.due)
       << ", expires " << text_of(message.expires_at) << ", name " << text_of(message.name)
       << ", topic " << text_of(message.topic) << ", headers ";
  print_all(message.headers, out);
  *out << "}";
}

void PrintTo(const PeekedMessage& message, std::ostream* out) {
  PrintTo(static_cast<const Message&>(message), out);
  *out << " " << to_string(message.state) << " in lane " << text_of(message.key) << " label \""
       << message.label << "\", retry at " << text_of(message.retry_at) << ", last reason "
       << text_of(message.last_reason) << ", park reason " << text_of(message.park_reason);
}

void PrintTo(const Failure& failure, std::ostream* out) {
  *out << "\"" << failure.reason << "\" at " << format_time(failure.at);
}

void PrintTo(const DeadLetter& letter, std::ostream* out) {
  PrintTo(static_cast<const Message&>(letter), out);
  *out << " dead in " << letter.queue << " lane " << text_of(letter.key) << " label \""
       << letter.label << "\" at " << format_time(letter.dead_at) << ": \"" << letter.reason
       << "\" after ";
  print_all(letter.failures, out);
}

void PrintTo(const Lease& lease, std::ostream* out) {
  *out << "lease of lane " << text_of(lease.key) << " in " << lease.queue << " label \""
       << lease.label << "\" ";
  PrintTo(lease.token.epoch(), out);
  *out << (lease.isolated ? " isolated" : "") << (lease.more ? " more" : "") << " until "
       << format_time(lease.expires_at) << " ";
  print_all(lease.messages, out);
  if (lease.history) PrintTo(*lease.history, out);
}

void PrintTo(const Pulled& pulled, std::ostream* out) {
  *out << "pulled ";
  print_all(pulled.messages, out);
  *out << (pulled.more ? " more, " : ", ");
  PrintTo(pulled.cursor, out);
}

void PrintTo(const QueueStats& stats, std::ostream* out) {
  *out << "accepted " << stats.accepted << " = acked " << stats.acked << " + expired "
       << stats.expired << " + dropped " << stats.dropped << " + moved " << stats.moved
       << " + purged " << stats.purged << " + dead " << stats.dead << " + ready " << stats.ready
       << " + delayed " << stats.delayed << " + waiting " << stats.waiting << " + leased "
       << stats.leased << " + parked " << stats.parked << "; backoff " << stats.backoff
       << ", lanes ready " << stats.lanes_ready << ", leases " << stats.leases << ", oldest ready "
       << text_of(stats.oldest_ready);
}

void PrintTo(const QueueInfo& info, std::ostream* out) {
  const QueueSettings& s = info.settings;
  *out << "queue " << info.name << (info.paused ? " paused" : "") << ", max_attempts "
       << s.max_attempts << ", backoff [";
  for (const Duration step : s.backoff)
    *out << " " << format_duration(step);
  *out << " ], jitter " << s.backoff_jitter_percent << ", "
       << (s.retry_policy == RetryPolicy::block ? "block" : "skip") << ", "
       << (s.on_exhausted == OnExhausted::dead ? "dead" : "park") << ", ttl "
       << (s.ttl ? format_duration(*s.ttl) : "none") << ", expired "
       << (s.on_expired == OnExpired::drop ? "drop" : "dead") << ", dedup "
       << format_duration(s.dedup_window) << ", lease " << format_duration(s.lease)
       << ", starvation " << format_duration(s.starvation_after) << ", max_length " << s.max_length;
}

void PrintTo(const Execution& execution, std::ostream* out) {
  *out << "execution " << execution.number << " of " << execution.queue << "/" << execution.key
       << " label \"" << execution.label << "\" from " << execution.first << " length "
       << execution.length << " outcome " << text_of(execution.outcome) << " opened "
       << format_time(execution.opened_at) << " updated " << format_time(execution.updated_at);
}

void PrintTo(const History& history, std::ostream* out) {
  PrintTo(history.execution, out);
  *out << " from " << history.first << " [";
  for (const Bytes& event : history.events)
    *out << " \"" << event << "\"";
  *out << " ]";
}

void PrintTo(const Record& record, std::ostream* out) {
  *out << "record " << record.space << "/" << record.key << " ";
  PrintTo(record.version, out);
  *out << " \"" << record.value << "\"";
}

void PrintTo(const Sent& sent, std::ostream* out) {
  PrintTo(sent.id, out);
  *out << (sent.duplicate ? " (duplicate)" : "");
}

void PrintTo(const Receipt& receipt, std::ostream* out) {
  *out << "receipt at " << format_time(receipt.time) << " sent ";
  print_all(receipt.sent, out);
  *out << " versions ";
  print_all(receipt.versions, out);
  *out << " published " << receipt.published.size() << " cancelled " << receipt.cancelled.size()
       << " affected " << receipt.affected;
}

}  // namespace strand

void testing::internal::UniversalPrinter<strand::Time>::Print(strand::Time time,
                                                              std::ostream* out) {
  *out << strand::format_time(time);
}

void testing::internal::UniversalPrinter<strand::Duration>::Print(strand::Duration duration,
                                                                  std::ostream* out) {
  *out << duration.count() << "ms";
}
