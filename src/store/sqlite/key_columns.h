#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "store/sqlite/row.h"

namespace strand::sqlite {

// How a part of an entry's key is kept in a column. Rows sort by these columns as the keys do.
enum class KeyPart : std::uint8_t {
  queue,       // 4 bytes: INTEGER
  id,          // 8 bytes: INTEGER, below 2^63 - 1 (the store counts them from 1)
  client,      // 8 bytes: TEXT, 16 hexadecimal digits (clients draw them at random)
  number,      // 8 bytes: TEXT, 20 decimal digits (clients choose them, and may go beyond 2^63)
  text,        // all that is left: TEXT
  blob,        // all that is left: BLOB
  ended_text,  // as ByteWriter::sortable writes it: TEXT
  ended_blob,  // as ByteWriter::sortable writes it: BLOB
};

struct KeyColumn {
  std::string_view name;
  KeyPart part;
};

inline constexpr std::size_t key_columns_max = 3;

// What the columns of one key hold.
struct KeyFields {
  struct Field {
    std::int64_t integer = 0;
    std::string bytes = {};
  };
  std::array<Field, key_columns_max> fields = {};
  bool exact = true;      // the bytes were a whole key, and these are its columns
  bool too_long = false;  // the bytes were a whole key, and more
};

// The columns of the key. If `bytes` is not a whole key, as a bound of a scan or a prefix may be:
// the columns of the lowest key that could stand at or behind `bytes` (for one that is too long:
// of the key that it begins with).
KeyFields key_fields(std::span<const KeyColumn> columns, std::string_view bytes);

// Gives the fields to a statement, one parameter for each column.
void bind_key(std::span<const KeyColumn> columns, const KeyFields& key, Binder& out);

// Writes the key of a row, whose first columns are its key.
void read_key(std::span<const KeyColumn> columns, Row& row, std::string& key);

}  // namespace strand::sqlite
