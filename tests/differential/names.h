#pragma once

#include <array>
#include <charconv>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <strand/store.h>

// Where requests and answers hold names that a store has made up. Two stores may choose different
// ones and still be equal, so each such place must be found; everything else is compared as it is.

namespace strand::differential {

enum class NameKind : std::uint8_t { message, publication, token, cursor, version };

// One name. A cursor means something for its lease only, so the lease's epoch belongs to it.
struct Name {
  NameKind kind{};
  std::array<std::uint64_t, 3> value{};

  friend auto operator<=>(const Name&, const Name&) = default;
};

inline Name name_of(MessageId id) { return {NameKind::message, {static_cast<std::uint64_t>(id)}}; }
inline Name name_of(Version version) {
  return {NameKind::version, {static_cast<std::uint64_t>(version)}};
}
inline Name name_of(const Token& token) {
  return {NameKind::token,
          {static_cast<std::uint64_t>(token.epoch()), token.place(), token.seal()}};
}
inline Name name_of(const Token& token, Cursor cursor) {
  return {NameKind::cursor,
          {static_cast<std::uint64_t>(token.epoch()), static_cast<std::uint64_t>(cursor)}};
}

// each_name(x, f) calls f(Name&) for every name in x, in an order that depends on nothing but the
// shape of x, and writes back what f makes of it. A type without names is listed too: one that is
// forgotten does not compile.

template <class F>
void each_name(MessageId& id, const F& f) {
  Name name = name_of(id);
  f(name);
  id = MessageId{name.value[0]};
}
template <class F>
void each_name(Version& version, const F& f) {
  Name name = name_of(version);
  f(name);
  version = Version{name.value[0]};
}
template <class F>
void each_name(Token& token, const F& f) {
  Name name = name_of(token);
  f(name);
  token = Token(Epoch{name.value[0]}, name.value[1], name.value[2]);
}
// With the token as the store of the cursor has it: so before the token itself is renamed.
template <class F>
void each_name(const Token& token, Cursor& cursor, const F& f) {
  Name name = name_of(token, cursor);
  f(name);
  cursor = Cursor{name.value[1]};
}

template <class F>
void each_name(std::optional<MessageId>& id, const F& f) {
  if (id) each_name(*id, f);
}

// --- Answers ---

// A notice tells the id of the message that ended as text.
template <class F>
void each_name(Header& header, const F& f) {
  if (header.name != notice_id_header) return;
  std::uint64_t number = 0;
  const char* const end = header.value.data() + header.value.size();
  if (std::from_chars(header.value.data(), end, number).ptr != end) return;
  Name name = name_of(MessageId{number});
  f(name);
  header.value = std::to_string(name.value[0]);
}

template <class F>
void each_name(Message& message, const F& f) {
  each_name(message.id, f);
  for (Header& header : message.headers)
    each_name(header, f);
}
template <class F>
void each_name(PeekedMessage& message, const F& f) {
  each_name(static_cast<Message&>(message), f);
}
template <class F>
void each_name(DeadLetter& letter, const F& f) {
  each_name(static_cast<Message&>(letter), f);
}

template <class F>
void each_name(Receipt& receipt, const F& f) {
  for (Sent& sent : receipt.sent)
    each_name(sent.id, f);
  // Publications may be counted apart from messages.
  for (Published& published : receipt.published) {
    Name name{NameKind::publication, {static_cast<std::uint64_t>(published.id)}};
    f(name);
    published.id = MessageId{name.value[0]};
  }
  for (Version& version : receipt.versions)
    each_name(version, f);
}

template <class F>
void each_name(Lease& lease, const F& f) {
  each_name(lease.token, lease.cursor, f);
  each_name(lease.token, f);
  for (Message& message : lease.messages)
    each_name(message, f);
}

// What a pull brought, with the token that it was made with.
struct PulledFor {
  Token token;
  Pulled pulled;

  friend bool operator==(const PulledFor&, const PulledFor&) = default;
};
template <class F>
void each_name(PulledFor& answer, const F& f) {
  each_name(answer.token, answer.pulled.cursor, f);
  each_name(answer.token, f);
  for (Message& message : answer.pulled.messages)
    each_name(message, f);
}

template <class F>
void each_name(Record& record, const F& f) {
  each_name(record.version, f);
}

template <class T>
concept Nameless =
    std::is_same_v<T, Time> || std::is_same_v<T, History> || std::is_same_v<T, Execution> ||
    std::is_same_v<T, QueueStats> || std::is_same_v<T, QueueInfo> ||
    std::is_same_v<T, Subscription> || std::is_same_v<T, Topic>;
template <Nameless T, class F>
void each_name(T& /*answer*/, const F& /*f*/) {}

template <class T, class F>
void each_name(std::vector<T>& items, const F& f) {
  for (T& item : items)
    each_name(item, f);
}
template <class T, class F>
void each_name(Page<T>& page, const F& f) {
  each_name(page.items, f);
}
template <class F>
void each_name(std::optional<Record>& record, const F& f) {
  if (record) each_name(*record, f);
}

// --- Requests ---

template <class F>
void each_name(Administration& administration, const F& f) {
  if (auto* const resume = std::get_if<ResumeLane>(&administration)) each_name(resume->id, f);
  if (auto* const redrive = std::get_if<Redrive>(&administration)) each_name(redrive->ids, f);
  if (auto* const drop = std::get_if<DropDead>(&administration)) each_name(drop->ids, f);
}

template <class F>
void each_name(Transaction& transaction, const F& f) {
  for (RemoveHistory& removal : transaction.remove_histories)
    each_name(removal.token, f);
  for (Append& append : transaction.appends)
    each_name(append.token, f);
  for (TrimHistory& trim : transaction.trim_histories)
    each_name(trim.token, f);
  for (Settle& settle : transaction.settles) {
    each_name(settle.token, f);
    for (Outcome& outcome : settle.outcomes)
      each_name(outcome.id, f);
  }
  for (WriteRecord& write : transaction.records) {
    if (write.expected) each_name(*write.expected, f);
  }
  if (transaction.admin) each_name(*transaction.admin, f);
}

template <class F>
void each_name(PeekQuery& query, const F& f) {
  each_name(query.after, f);
}
template <class F>
void each_name(DeadLettersQuery& query, const F& f) {
  each_name(query.after, f);
}

}  // namespace strand::differential
