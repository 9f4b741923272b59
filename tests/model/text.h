#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

// Requests and answers in one line each, for traces and failures. Complete and unambiguous, so the
// text of a transaction also serves as its content (S18). The model links no library of Strand,
// hence names of its own for codes and states.
namespace strand::model {

std::string quote(std::string_view bytes);
std::string text(Errc code);
std::string text(Time time);
std::string text(Duration duration);
std::string text(MessageId id);
std::string text(const Token& token);
std::string text(MessageState state);
std::string text(const std::optional<std::string>& value);

// All that is in a transaction but its id and durability.
std::string content(const Transaction& transaction);
std::string text(const Transaction& transaction);
std::string text(const LeaseRequest& request);

std::string text(const Receipt& receipt);
std::string text(const Message& message);
std::string text(const std::vector<Message>& messages);
std::string text(const Lease& lease);
std::string text(const std::vector<Lease>& leases);
std::string text(const Pulled& pulled);
std::string text(const QueueStats& stats);
std::string text(const QueueInfo& info);
std::string text(const QueueSettings& settings);
std::string text(const PeekedMessage& message);
std::string text(const DeadLetter& letter);
std::string text(const Execution& execution);
std::string text(const History& history);
std::string text(const Record& record);
std::string text(const Subscription& subscription);
std::string text(const Topic& topic);
std::string text(const Error& error);

template <class T>
std::string text(const Page<T>& page);

template <class T>
std::string text(const Result<T>& result) {
  return result ? text(*result) : text(result.error());
}

template <class T>
std::string text(const Page<T>& page) {
  std::string out = "[";
  for (const T& item : page.items)
    out += "\n    " + text(item);
  return out + (page.more ? " …]" : "]");
}

}  // namespace strand::model
