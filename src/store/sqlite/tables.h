#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "store/engine/mutations.h"
#include "store/sqlite/key_columns.h"
#include "store/sqlite/row.h"

namespace strand::sqlite {

// Where the entries of a family are. A row has the columns of its key first, then those of its
// value, in the order of schema.cc.
struct Table {
  std::string_view name;
  int columns = 0;
  std::span<const KeyColumn> key;
  // Gives the value's columns to a statement whose key is bound, and runs it: the result of
  // Binder::step. A value that does not decode is a bug of whoever wrote it, and ends the process.
  int (*put)(Binder& out, std::string_view key, std::string_view value) = nullptr;
  // Writes the value of a row whose key has been read. False: the row has been damaged.
  bool (*get)(Row& row, std::string_view key, std::string& value) = nullptr;
};

const Table& table_of(engine::Family family);

// Copies a message to the dead letters: bury_sql with what Mutation::Kind::bury says. The result of
// Binder::step; nothing happens if there is no such message.
extern const std::string_view bury_sql;
int bury(Binder& out, const engine::Mutation& mutation);

}  // namespace strand::sqlite
