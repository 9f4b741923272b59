#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <strand/store.h>

// Requests and answers of a store as words on one line, there and back. Only what the processes of
// these tests ask for: a part that has no words here would be lost, so journal.cc refuses it.
namespace strand::postgres_faults {

// The members of a type that are written, in this order.
template <class T>
struct Fields;

template <>
struct Fields<TransactionId> {
  static constexpr auto all = std::tuple(&TransactionId::client, &TransactionId::number,
                                         &TransactionId::time, &TransactionId::lowest_unanswered);
};
template <>
struct Fields<Outcome> {
  static constexpr auto all =
      std::tuple(&Outcome::id, &Outcome::kind, &Outcome::delay, &Outcome::reason);
};
template <>
struct Fields<Settle> {
  static constexpr auto all = std::tuple(&Settle::token, &Settle::outcomes, &Settle::then);
};
template <>
struct Fields<Send> {
  static constexpr auto all =
      std::tuple(&Send::queue, &Content::key, &Content::body, &Content::delay);
};
template <>
struct Fields<Transaction> {
  static constexpr auto all = std::tuple(&Transaction::id, &Transaction::durability,
                                         &Transaction::settles, &Transaction::sends);
};
template <>
struct Fields<Sent> {
  static constexpr auto all = std::tuple(&Sent::id, &Sent::duplicate);
};
template <>
struct Fields<Receipt> {
  static constexpr auto all = std::tuple(&Receipt::time, &Receipt::sent);
};
template <>
struct Fields<Message> {
  static constexpr auto all = std::tuple(&Message::id, &Message::body, &Message::deliveries,
                                         &Message::attempts, &Message::due);
};
template <>
struct Fields<Lease> {
  static constexpr auto all = std::tuple(&Lease::token, &Lease::queue, &Lease::key,
                                         &Lease::messages, &Lease::expires_at, &Lease::isolated);
};
template <>
struct Fields<QueueStats> {
  static constexpr auto all = std::tuple(
      &QueueStats::accepted, &QueueStats::acked, &QueueStats::expired, &QueueStats::dropped,
      &QueueStats::moved, &QueueStats::purged, &QueueStats::dead, &QueueStats::ready,
      &QueueStats::delayed, &QueueStats::waiting, &QueueStats::leased, &QueueStats::parked);
};
template <>
struct Fields<Error> {
  static constexpr auto all = std::tuple(&Error::code, &Error::message);
};

template <class T>
concept Number = std::integral<T> || std::is_enum_v<T>;

class WordWriter {
 public:
  template <class T>
  void add(const T& value) {
    std::apply([&](const auto... members) { (add(value.*members), ...); }, Fields<T>::all);
  }
  template <Number T>
  void add(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      word(std::to_string(static_cast<std::underlying_type_t<T>>(value)));
    } else {
      word(std::to_string(value));
    }
  }
  void add(const std::string& value) { word(quoted(value)); }
  void add(const Token& token) { word(token.to_string()); }
  template <class Rep, class Period>
  void add(const std::chrono::duration<Rep, Period>& length) {
    add(length.count());
  }
  template <class Clock, class Length>
  void add(const std::chrono::time_point<Clock, Length>& point) {
    add(point.time_since_epoch());
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values)
      add(value);
  }
  template <class T>
  void add(const Result<T>& result) {
    add(result.has_value());
    if (result) {
      add(*result);
    } else {
      add(result.error());
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  // A quotation mark in front, so that nothing is a word too; no space and no end of line within.
  static std::string quoted(std::string_view value);
  void word(std::string_view word) {
    text_ += word;
    text_ += ' ';
  }

  std::string text_;
};

// Throws std::runtime_error for what no WordWriter wrote.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : rest_(text) {}

  template <class T>
  void read(T& value) {
    std::apply([&](const auto... members) { (read(value.*members), ...); }, Fields<T>::all);
  }
  template <Number T>
  void read(T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = number<int>() != 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(number<std::underlying_type_t<T>>());
    } else {
      value = number<T>();
    }
  }
  void read(std::string& value);
  void read(Token& token);
  template <class Rep, class Period>
  void read(std::chrono::duration<Rep, Period>& length) {
    length = std::chrono::duration<Rep, Period>(number<Rep>());
  }
  template <class Clock, class Length>
  void read(std::chrono::time_point<Clock, Length>& point) {
    point = std::chrono::time_point<Clock, Length>(Length(number<typename Length::rep>()));
  }
  template <class T>
  void read(std::optional<T>& value) {
    value.reset();
    if (number<int>() != 0) read(value.emplace());
  }
  template <class T>
  void read(std::vector<T>& values) {
    const auto count = number<std::size_t>();
    for (std::size_t i = 0; i < count; ++i)
      read(values.emplace_back());
  }
  template <class T>
  void read(Result<T>& result) {
    if (number<int>() != 0) {
      result = T{};
      read(*result);
    } else {
      Error error;
      read(error);
      result = std::unexpected(std::move(error));
    }
  }

 private:
  std::string_view word();
  template <class T>
  T number() {
    const std::string_view text = word();
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      throw std::runtime_error("not a number: " + std::string(text));
    }
    return value;
  }

  std::string_view rest_;
};

}  // namespace strand::postgres_faults
