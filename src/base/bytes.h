#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <strand/time.h>

namespace strand::base {

// Appends values to a string: fixed-width integers big-endian (so that keys sort), others as
// variable-length integers, strings with their length in front.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  void u8(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void fixed32(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
      u8(static_cast<std::uint8_t>(value >> shift));
  }
  void fixed64(std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8)
      u8(static_cast<std::uint8_t>(value >> shift));
  }
  void varint(std::uint64_t value) {
    while (value >= 0x80U) {
      u8(static_cast<std::uint8_t>(value | 0x80U));
      value >>= 7U;
    }
    u8(static_cast<std::uint8_t>(value));
  }
  void text(std::string_view value) {
    varint(value.size());
    out_.append(value);
  }
  void raw(std::string_view value) { out_.append(value); }
  // Times are not before 1970 in any store.
  void time(Time value) { varint(static_cast<std::uint64_t>(value.time_since_epoch().count())); }
  void duration(Duration value) { varint(static_cast<std::uint64_t>(value.count())); }
  void flag(bool value) { u8(value ? 1 : 0); }
  void optional_text(const std::optional<std::string>& value) {
    flag(value.has_value());
    if (value) text(*value);
  }
  // Sorts as the string itself does, and no encoding is a prefix of another: NUL is escaped, and
  // two bytes end it.
  void sortable(std::string_view value) {
    for (const char c : value) {
      out_.push_back(c);
      if (c == '\0') out_.push_back('\xff');
    }
    out_.push_back('\0');
    out_.push_back('\x01');
  }

 private:
  std::string& out_;
};

// Takes values from bytes. After the first value that is not there, everything reads as zero and
// ok() is false: check it once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t u8() {
    if (rest_.empty()) return fail();
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint32_t fixed32() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i)
      value = (value << 8U) | u8();
    return value;
  }
  std::uint64_t fixed64() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i)
      value = (value << 8U) | u8();
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8();
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    return fail();
  }
  std::uint32_t varint32() {
    const std::uint64_t value = varint();
    return value <= UINT32_MAX ? static_cast<std::uint32_t>(value) : fail();
  }
  std::string_view text() {
    const std::uint64_t size = varint();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view value = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(value.size());
    return value;
  }
  std::string string() { return std::string(text()); }
  Time time() { return Time{Duration{static_cast<std::int64_t>(varint())}}; }
  Duration duration() { return Duration{static_cast<std::int64_t>(varint())}; }
  bool flag() {
    const std::uint8_t value = u8();
    if (value > 1) fail();
    return value == 1;
  }
  std::optional<std::string> optional_text() {
    if (!flag()) return std::nullopt;
    return string();
  }
  std::string sortable() {
    std::string value;
    while (ok_) {
      const char c = static_cast<char>(u8());
      if (c != '\0') {
        value.push_back(c);
        continue;
      }
      const std::uint8_t next = u8();
      if (next == 0x01U) return value;
      if (next != 0xffU) fail();
      value.push_back('\0');
    }
    return {};
  }
  // How many values of at least `bytes_each` can still come: bounds what a damaged count allocates.
  std::uint64_t count(std::size_t bytes_each) {
    const std::uint64_t value = varint();
    return value <= rest_.size() / bytes_each ? value : fail();
  }
  std::string_view rest() {
    const std::string_view value = rest_;
    rest_ = {};
    return value;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was there, and nothing is left over.
  [[nodiscard]] bool done() const { return ok_ && rest_.empty(); }
  std::uint8_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace strand::base
