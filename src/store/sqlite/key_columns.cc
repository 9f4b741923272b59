#include "store/sqlite/key_columns.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/bytes.h"

namespace strand::sqlite {

namespace {

constexpr std::int64_t integer_max = std::numeric_limits<std::int64_t>::max();

// Takes a big-endian number of `width` bytes. One that is cut off is filled with zeros, which makes
// it the lowest of those that start with what is there.
std::uint64_t take_number(std::string_view& rest, std::size_t width, bool& exact) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value = value << 8U | (i < rest.size() ? static_cast<std::uint8_t>(rest[i]) : 0U);
  }
  if (rest.size() < width) exact = false;
  rest.remove_prefix(std::min(width, rest.size()));
  return value;
}

// Takes what ByteWriter::sortable has written: NUL is followed by FF, the end is 00 01.
std::string take_ended(std::string_view& rest, bool& exact) {
  std::string value;
  const auto cut = [&] {
    exact = false;
    rest = {};
    return value;
  };
  while (true) {
    if (rest.empty()) return cut();
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c != '\0') {
      value.push_back(c);
      continue;
    }
    // "ab 00" and "ab 00 00" lie before all that can follow "ab", so "ab" itself is the lowest.
    if (rest.empty() || rest.front() == '\0') return cut();
    const auto next = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    if (next == 0x01U) return value;
    value.push_back('\0');
    // Behind the end of "ab", before "ab 00 ff": the lowest there is "ab" and a NUL.
    if (next != 0xffU) return cut();
  }
}

std::uint64_t parse_digits(Row& row, int base, std::size_t width) {
  const std::string_view text = row.text();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.size() != width || error != std::errc{} || end != text.data() + text.size()) row.fail();
  return value;
}

}  // namespace

KeyFields key_fields(std::span<const KeyColumn> columns, std::string_view bytes) {
  KeyFields key;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    KeyFields::Field& field = key.fields[i];
    switch (columns[i].part) {
      case KeyPart::queue:
        field.integer = static_cast<std::int64_t>(take_number(bytes, 4, key.exact));
        break;
      case KeyPart::id: {
        const std::uint64_t id = take_number(bytes, 8, key.exact);
        // No row has the highest integer, so that it can stand for all that are higher still.
        if (id >= static_cast<std::uint64_t>(integer_max)) key.exact = false;
        field.integer =
            static_cast<std::int64_t>(std::min(id, static_cast<std::uint64_t>(integer_max)));
        break;
      }
      case KeyPart::client:
        field.bytes = fmt::format("{:016x}", take_number(bytes, 8, key.exact));
        break;
      case KeyPart::number:
        field.bytes = fmt::format("{:020}", take_number(bytes, 8, key.exact));
        break;
      case KeyPart::text:
      case KeyPart::blob:
        field.bytes = bytes;
        bytes = {};
        break;
      case KeyPart::ended_text:
      case KeyPart::ended_blob:
        field.bytes = take_ended(bytes, key.exact);
        break;
    }
  }
  key.too_long = !bytes.empty();
  key.exact = key.exact && !key.too_long;
  return key;
}

void bind_key(std::span<const KeyColumn> columns, const KeyFields& key, Binder& out) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    switch (columns[i].part) {
      case KeyPart::queue:
      case KeyPart::id:
        out.integer(key.fields[i].integer);
        break;
      case KeyPart::client:
      case KeyPart::number:
      case KeyPart::text:
      case KeyPart::ended_text:
        out.text(key.fields[i].bytes);
        break;
      case KeyPart::blob:
      case KeyPart::ended_blob:
        out.blob(key.fields[i].bytes);
        break;
    }
  }
}

void read_key(std::span<const KeyColumn> columns, Row& row, std::string& key) {
  key.clear();
  base::ByteWriter out(key);
  for (const KeyColumn& column : columns) {
    switch (column.part) {
      case KeyPart::queue:
        out.fixed32(row.number32());
        break;
      case KeyPart::id:
        out.fixed64(row.number());
        break;
      case KeyPart::client:
        out.fixed64(parse_digits(row, 16, 16));
        break;
      case KeyPart::number:
        out.fixed64(parse_digits(row, 10, 20));
        break;
      case KeyPart::text:
        out.raw(row.text());
        break;
      case KeyPart::blob:
        out.raw(row.blob());
        break;
      case KeyPart::ended_text:
        out.sortable(row.text());
        break;
      case KeyPart::ended_blob:
        out.sortable(row.blob());
        break;
    }
  }
}

}  // namespace strand::sqlite
