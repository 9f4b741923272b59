#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include <strand/time.h>

namespace strand::sqlite {

// Gives a statement its parameters, from left to right, and runs it. What text() and blob() are
// given must live until step().
class Binder {
 public:
  explicit Binder(sqlite3_stmt* statement) : statement_(statement) {}

  void null() { note(sqlite3_bind_null(statement_, ++last_)); }
  void integer(std::int64_t value) { note(sqlite3_bind_int64(statement_, ++last_, value)); }
  // SQLite's integers have a sign: numbers from 2^63 on look negative, and come back as they were.
  void number(std::uint64_t value) { integer(std::bit_cast<std::int64_t>(value)); }
  void time(Time value) { integer(value.time_since_epoch().count()); }
  void duration(Duration value) { integer(value.count()); }
  void flag(bool value) { integer(value ? 1 : 0); }
  void text(std::string_view value) {
    note(sqlite3_bind_text64(statement_, ++last_, not_null(value), value.size(), SQLITE_STATIC,
                             SQLITE_UTF8));
  }
  void copied_text(std::string_view value) {
    note(sqlite3_bind_text64(statement_, ++last_, not_null(value), value.size(),
                             SQLITE_TRANSIENT,  // NOLINT(performance-no-int-to-ptr)
                             SQLITE_UTF8));
  }
  void blob(std::string_view value) {
    note(sqlite3_bind_blob64(statement_, ++last_, not_null(value), value.size(), SQLITE_STATIC));
  }
  void copied_blob(std::string_view value) {
    note(sqlite3_bind_blob64(statement_, ++last_, not_null(value), value.size(),
                             SQLITE_TRANSIENT));  // NOLINT(performance-no-int-to-ptr)
  }
  void optional_text(const std::optional<std::string>& value) { value ? text(*value) : null(); }
  void optional_blob(const std::optional<std::string>& value) { value ? blob(*value) : null(); }
  void optional_time(const std::optional<Time>& value) { value ? time(*value) : null(); }

  // Runs a statement that returns no rows, and makes it ready for the next time. An SQLite result
  // code: SQLITE_OK, or the first that was not.
  int step() {
    if (code_ == SQLITE_OK) code_ = sqlite3_step(statement_);
    const int reset = sqlite3_reset(statement_);
    return code_ == SQLITE_DONE ? reset : code_;
  }

  [[nodiscard]] int code() const { return code_; }

 private:
  // SQLite takes a null pointer for NULL, which is another thing than no bytes.
  static const char* not_null(std::string_view value) {
    return value.data() == nullptr ? "" : value.data();
  }
  void note(int code) {
    if (code_ == SQLITE_OK) code_ = code;
  }

  sqlite3_stmt* statement_;
  int last_ = 0;
  int code_ = SQLITE_OK;
};

// Takes the columns of a row, from left to right. A column that is not of the type asked for reads
// as zero or nothing, and ok() is false from then on: check it once, at the end.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement, std::size_t first = 0)
      : statement_(statement), next_(static_cast<int>(first)) {}

  std::int64_t integer() {
    const int column = next_++;
    if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) {
      ok_ = false;
      return 0;
    }
    return sqlite3_column_int64(statement_, column);
  }
  std::uint64_t number() { return std::bit_cast<std::uint64_t>(integer()); }
  std::uint32_t number32() {
    const std::int64_t value = integer();
    if (value >= 0 && value <= std::int64_t{UINT32_MAX}) return static_cast<std::uint32_t>(value);
    ok_ = false;
    return 0;
  }
  bool flag() {
    const std::int64_t value = integer();
    if (value != 0 && value != 1) ok_ = false;
    return value == 1;
  }
  Time time() { return Time{Duration{integer()}}; }
  Duration duration() { return Duration{integer()}; }
  // Views are valid until the next step.
  std::string_view text() { return bytes(SQLITE_TEXT); }
  std::string_view blob() { return bytes(SQLITE_BLOB); }
  std::optional<std::string> optional_text() {
    if (skip_null()) return std::nullopt;
    return std::string(text());
  }
  std::optional<std::string> optional_blob() {
    if (skip_null()) return std::nullopt;
    return std::string(blob());
  }
  std::optional<Time> optional_time() {
    if (skip_null()) return std::nullopt;
    return time();
  }
  // Whether the next column is NULL; it is skipped then.
  bool skip_null() {
    if (sqlite3_column_type(statement_, next_) != SQLITE_NULL) return false;
    ++next_;
    return true;
  }
  [[nodiscard]] bool next_is_text() const {
    return sqlite3_column_type(statement_, next_) == SQLITE_TEXT;
  }
  void fail() { ok_ = false; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view bytes(int type) {
    const int column = next_++;
    if (sqlite3_column_type(statement_, column) != type) {
      ok_ = false;
      return {};
    }
    const void* const data = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return size == 0 ? std::string_view{} : std::string_view{static_cast<const char*>(data), size};
  }

  sqlite3_stmt* statement_;
  int next_;
  bool ok_ = true;
};

}  // namespace strand::sqlite
