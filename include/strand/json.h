#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

// Values as JSON. One line makes a struct convertible, in the namespace of the struct:
//
//   struct Line { std::string article; std::uint32_t count = 1; std::optional<double> price; };
//   STRAND_JSON(Line, article, count, price)
//   struct Order { std::uint64_t id = 0; std::vector<Line> lines; };
//   STRAND_JSON(Order, id, lines)
//
//   strand::json::write(order)        {"id":7,"lines":[{"article":"tea","count":2}]}
//   strand::json::read<Order>(text)   lines[2].count: expected a whole number, found a string
//
// | C++                                   | JSON                                                  |
// |---------------------------------------|-------------------------------------------------------|
// | bool                                  | true, false                                           |
// | integers                              | a whole number, checked for its range, 64 bits exact  |
// | float, double                         | a number; infinite ones and NaN cannot be written     |
// | std::string                           | a string; what is not UTF-8 cannot be written         |
// | std::optional                         | null; as a member of a struct it may also be missing  |
// | std::vector, std::array               | an array; for std::array of just that size            |
// | std::map with std::string as key      | an object                                             |
// | enums, so all strong ids              | their number                                          |
// | strand::Duration                      | whole milliseconds                                    |
// | strand::Time                          | RFC 3339, "2026-11-15T06:30:00.000Z"                  |
// | structs with STRAND_JSON              | an object with the names of the members               |
//
// Reading is strict where a mistake would go unnoticed: a missing member, another type, a number
// out of range, a name that occurs twice, text behind the value and nesting beyond depth_max are
// errors. Members that the struct does not have are ignored, so that a sender may be newer.
//
// A type of one's own, such as an amount of money as text, takes part if its namespace has
//
//   void write_json(strand::json::Writer& out, const Money& money) { out.text(money.to_string()); }
//   strand::Result<void> read_json(const strand::json::View& in, Money& money) {
//     const auto text = in.text();
//     if (!text) return std::unexpected(text.error());
//     if (!money.assign(*text)) return in.fail("expected an amount such as 12.50 EUR");
//     return {};
//   }

namespace strand::json {

class Writer;
class View;

// Arrays and objects inside each other.
inline constexpr std::size_t depth_max = 64;

// How a T is written and read; below for the types of the table. Not defined for others.
template <class T>
struct Codec;

// What can be written as JSON and read again.
template <class T>
concept Convertible = requires(Writer& out, const View& in, const T& from, T& to) {
  T{};
  Codec<T>::write(out, from);
  { Codec<T>::read(in, to) } -> std::same_as<Result<void>>;
};

// Puts one JSON value together. Whatever goes wrong is remembered, and take() says the first of it.
//
// Threads: one at a time.
class Writer {
 public:
  Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  // In an object, before each value.
  void name(std::string_view name);

  void null();
  void boolean(bool value);
  void integer(std::int64_t value);
  void unsigned_integer(std::uint64_t value);
  void number(double value);
  void text(std::string_view value);
  // Any of them, or a whole struct.
  template <Convertible T>
  void value(const T& value) {
    Codec<T>::write(*this, value);
  }
  // A name and a value; nothing for an optional that is empty.
  template <Convertible T>
  void member(std::string_view name, const T& value);

  // This cannot be written: the error names the place that the writer has come to.
  void fail(std::string_view what);

  // The text, or what went wrong. The writer is empty then.
  Result<std::string> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Looks at one value inside a JSON text, and knows its path in it for errors. Errors are
// `invalid_argument`.
//
// Ownership: belongs to the call that got it (read_json, for_each): do not keep it.
class View {
 public:
  [[nodiscard]] bool is_null() const;
  Result<bool> boolean() const;
  Result<std::int64_t> integer(std::int64_t min, std::int64_t max) const;
  Result<std::uint64_t> unsigned_integer(std::uint64_t max) const;
  Result<double> number() const;
  Result<std::string_view> text() const;  // as long as the text that is read
  // Calls back for each element, or member, in order, up to the first error.
  using Each = std::function<Result<void>(const View&)>;
  Result<void> for_each_element(const Each& each) const;
  Result<void> for_each_member(const Each& each) const;  // see name()
  [[nodiscard]] Result<std::size_t> element_count() const;
  [[nodiscard]] std::string_view name() const { return name_; }

  // Any of them, or a whole struct.
  template <Convertible T>
  Result<void> value(T& target) const {
    return Codec<T>::read(*this, target);
  }
  Result<void> expect_object() const;
  // A member of an object, which must be there unless it is optional.
  template <Convertible T>
  Result<void> member(std::string_view name, T& target) const;

  // This is not what it should be: the error names its path.
  [[nodiscard]] std::unexpected<Error> fail(std::string_view what) const;

 private:
  friend class Document;
  View(const void* node, const View* parent) : node_(node), parent_(parent) {}
  [[nodiscard]] std::optional<View> find(std::string_view name) const;
  [[nodiscard]] View missing(std::string_view name) const;
  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const;
  [[nodiscard]] std::string path() const;

  const void* node_;    // of the document
  const View* parent_;  // none: the whole text
  std::string_view name_;
  std::size_t index_ = 0;  // of an element
};

// A JSON text that was taken apart.
class Document {
 public:
  static Result<Document> parse(std::string_view text);
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();
  // Lives no longer than the document.
  [[nodiscard]] View view() const;

 private:
  struct State;
  explicit Document(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

template <Convertible T>
Result<std::string> write(const T& value) {
  Writer out;
  out.value(value);
  return out.take();
}

// The whole text must be one T.
template <Convertible T>
Result<T> read(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return std::unexpected(document.error());
  T value{};
  if (auto done = document->view().value(value); !done) return std::unexpected(done.error());
  return value;
}

// --- How each type is converted ---

// Has functions of its own, by STRAND_JSON or by hand.
template <class T>
concept HasOwnJson = requires(Writer& out, const View& in, const T& from, T& to) {
  write_json(out, from);
  { read_json(in, to) } -> std::same_as<Result<void>>;
};

// Characters are no numbers.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                  !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                  !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// Passes on what was found, or what was wrong with it.
template <class To, class From>
Result<void> assign(To& target, const Result<From>& found) {
  if (!found) return std::unexpected(found.error());
  target = static_cast<To>(*found);
  return {};
}

template <HasOwnJson T>
struct Codec<T> {
  static void write(Writer& out, const T& value) { write_json(out, value); }
  static Result<void> read(const View& in, T& value) { return read_json(in, value); }
};

template <>
struct Codec<bool> {
  static void write(Writer& out, bool value) { out.boolean(value); }
  static Result<void> read(const View& in, bool& value) { return assign(value, in.boolean()); }
};

template <Integer T>
struct Codec<T> {
  static void write(Writer& out, T value) {
    if constexpr (std::signed_integral<T>) {
      out.integer(value);
    } else {
      out.unsigned_integer(value);
    }
  }
  static Result<void> read(const View& in, T& value) {
    using Range = std::numeric_limits<T>;
    if constexpr (std::signed_integral<T>) {
      return assign(value, in.integer(Range::min(), Range::max()));
    } else {
      return assign(value, in.unsigned_integer(Range::max()));
    }
  }
};

template <>
struct Codec<double> {
  static void write(Writer& out, double value) { out.number(value); }
  static Result<void> read(const View& in, double& value) { return assign(value, in.number()); }
};

template <>
struct Codec<float> {
  static void write(Writer& out, float value) { out.number(static_cast<double>(value)); }
  static Result<void> read(const View& in, float& value);
};

template <>
struct Codec<std::string> {
  static void write(Writer& out, const std::string& value) { out.text(value); }
  static Result<void> read(const View& in, std::string& value) { return assign(value, in.text()); }
};

template <>
struct Codec<Duration> {
  static void write(Writer& out, Duration value) { out.integer(value.count()); }
  static Result<void> read(const View& in, Duration& value);
};

template <>
struct Codec<Time> {
  static void write(Writer& out, Time value);
  static Result<void> read(const View& in, Time& value);
};

template <class T>
  requires(std::is_enum_v<T> && !HasOwnJson<T> && Integer<std::underlying_type_t<T>>)
struct Codec<T> {
  static void write(Writer& out, T value) { out.value(std::to_underlying(value)); }
  static Result<void> read(const View& in, T& value) {
    std::underlying_type_t<T> number{};
    auto done = in.value(number);
    if (done) value = static_cast<T>(number);
    return done;
  }
};

template <class T>
  requires(Convertible<T> && !is_optional<T>)
struct Codec<std::optional<T>> {
  static void write(Writer& out, const std::optional<T>& value) {
    if (value) {
      out.value(*value);
    } else {
      out.null();
    }
  }
  static Result<void> read(const View& in, std::optional<T>& value) {
    if (!in.is_null()) return in.value(value.emplace());
    value.reset();
    return {};
  }
};

template <Convertible T, class Allocator>
struct Codec<std::vector<T, Allocator>> {
  static void write(Writer& out, const std::vector<T, Allocator>& list) {
    out.begin_array();
    for (const T& element : list)
      out.value(element);
    out.end_array();
  }
  static Result<void> read(const View& in, std::vector<T, Allocator>& list) {
    list.clear();
    return in.for_each_element([&](const View& each) {
      T element{};
      auto done = each.value(element);
      if (done) list.push_back(std::move(element));
      return done;
    });
  }
};

template <Convertible T, std::size_t size>
struct Codec<std::array<T, size>> {
  static void write(Writer& out, const std::array<T, size>& list) {
    out.begin_array();
    for (const T& element : list)
      out.value(element);
    out.end_array();
  }
  static Result<void> read(const View& in, std::array<T, size>& list) {
    const Result<std::size_t> count = in.element_count();
    if (!count) return std::unexpected(count.error());
    if (*count != size) {
      return in.fail("expected " + std::to_string(size) + " elements, found " +
                     std::to_string(*count));
    }
    std::size_t next = 0;
    return in.for_each_element([&](const View& each) { return each.value(list.at(next++)); });
  }
};

template <Convertible T, class Compare, class Allocator>
struct Codec<std::map<std::string, T, Compare, Allocator>> {
  using Map = std::map<std::string, T, Compare, Allocator>;
  static void write(Writer& out, const Map& map) {
    out.begin_object();
    for (const auto& [name, value] : map) {
      out.name(name);
      out.value(value);
    }
    out.end_object();
  }
  static Result<void> read(const View& in, Map& map) {
    map.clear();
    return in.for_each_member(
        [&](const View& each) { return each.value(map[std::string(each.name())]); });
  }
};

template <Convertible T>
void Writer::member(std::string_view member_name, const T& value) {
  if constexpr (is_optional<T>) {
    if (!value) return;
  }
  name(member_name);
  Codec<T>::write(*this, value);
}

template <Convertible T>
Result<void> View::member(std::string_view member_name, T& target) const {
  if (const std::optional<View> found = find(member_name)) return found->value(target);
  if constexpr (is_optional<T>) {
    target.reset();
    return {};
  } else {
    return missing(member_name).fail("missing");
  }
}

}  // namespace strand::json

// --- STRAND_JSON(Type, member, …): at namespace scope, behind the type; up to 32 members ---

#define STRAND_JSON(Type, ...)                                                           \
  inline void write_json(::strand::json::Writer& strand_out, const Type& strand_value);  \
  inline ::strand::Result<void> read_json(const ::strand::json::View& strand_in,         \
                                          Type& strand_value);                           \
  inline void write_json(::strand::json::Writer& strand_out, const Type& strand_value) { \
    strand_out.begin_object();                                                           \
    STRAND_JSON_EXPAND(STRAND_JSON_EACH(STRAND_JSON_WRITE, __VA_ARGS__))                 \
    strand_out.end_object();                                                             \
  }                                                                                      \
  inline ::strand::Result<void> read_json(const ::strand::json::View& strand_in,         \
                                          Type& strand_value) {                          \
    auto strand_read = strand_in.expect_object();                                        \
    STRAND_JSON_EXPAND(STRAND_JSON_EACH(STRAND_JSON_READ, __VA_ARGS__))                  \
    return strand_read;                                                                  \
  }

#define STRAND_JSON_WRITE(member_name) strand_out.member(#member_name, strand_value.member_name);
#define STRAND_JSON_READ(member_name) \
  if (strand_read) strand_read = strand_in.member(#member_name, strand_value.member_name);

// A macro is not expanded inside itself, so one for each member leaves a call of itself unfinished
// (STRAND_JSON_AGAIN) that the next scan goes on with; EXPAND scans often enough for 32 members.
#define STRAND_JSON_PARENS ()
#define STRAND_JSON_EACH(macro, first, ...) \
  macro(first) __VA_OPT__(STRAND_JSON_AGAIN STRAND_JSON_PARENS(macro, __VA_ARGS__))
#define STRAND_JSON_AGAIN() STRAND_JSON_EACH
#define STRAND_JSON_EXPAND(...) \
  STRAND_JSON_EXPAND3(STRAND_JSON_EXPAND3(STRAND_JSON_EXPAND3(__VA_ARGS__)))
#define STRAND_JSON_EXPAND3(...) \
  STRAND_JSON_EXPAND2(STRAND_JSON_EXPAND2(STRAND_JSON_EXPAND2(__VA_ARGS__)))
#define STRAND_JSON_EXPAND2(...) \
  STRAND_JSON_EXPAND1(STRAND_JSON_EXPAND1(STRAND_JSON_EXPAND1(__VA_ARGS__)))
#define STRAND_JSON_EXPAND1(...) __VA_ARGS__
