// The rows of the SQLite backend: an entry comes back from its columns byte for byte, and whatever
// somebody has written into the columns is read as an entry or called damaged.
//
// The first byte of the input is the family, the second whether the rest is an entry (a byte with
// the length of its key, the key, the value) or the columns of a row.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fuzzer/FuzzedDataProvider.h>
#include <sqlite3.h>

#include "fuzz/entries.h"
#include "fuzz/target.h"
#include "store/engine/records.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/tables.h"

namespace strand::fuzz {

namespace {

using engine::Family;
using sqlite::Binder;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Table;

// One for all inputs, because making the tables takes long; its tables are empty between them.
Connection& database() {
  static Connection connection = [] {
    auto opened =
        Connection::open({.path = ":memory:", .vfs = {}}, Connection::Access::write, true);
    FUZZ_REQUIRE(opened && sqlite::create_schema(*opened), "a database in memory can be made");
    return *std::move(opened);
  }();
  return connection;
}

sqlite3_stmt* statement(Family family, Connection::Use use) {
  const auto prepared = database().statement(family, use);
  FUZZ_REQUIRE(prepared.has_value(), "the statements fit the tables");
  return *prepared;
}

struct Entry {
  std::string key;
  std::string value;
  friend bool operator==(const Entry&, const Entry&) = default;
};

// The row that the table has, read as a scan of the backend reads it; none if it is damaged.
std::optional<Entry> read_row(Family family) {
  const Table& table = sqlite::table_of(family);
  sqlite3_stmt* const scan = statement(family, Connection::Use::scan);
  Binder binder(scan);
  const auto from = sqlite::key_fields(table.key, {});  // must live until the step
  sqlite::bind_key(table.key, from, binder);
  std::optional<Entry> found;
  if (sqlite3_step(scan) == SQLITE_ROW) {
    Row row(scan);
    Entry entry;
    sqlite::read_key(table.key, row, entry.key);
    if (row.ok() && table.get(row, entry.key, entry.value)) found = std::move(entry);
  }
  sqlite3_reset(scan);
  return found;
}

// Whether the backend may be given the entry: the engine writes whole keys and what it can read,
// and says nothing twice that the columns of SQLite keep once.
bool is_proper(Family family, const Entry& entry) {
  const auto canonical = encoded_again(family, entry.value);
  if (!canonical || *canonical != entry.value) return false;
  if (!sqlite::key_fields(sqlite::table_of(family).key, entry.key).exact) return false;
  if (family == Family::dead) {
    const auto name = engine::decode_dead_key(entry.key);
    return name && engine::decode<engine::DeadEntry>(entry.value)->message.queue == name->first;
  }
  if (family == Family::execution) {
    const auto name = engine::decode_pair_key(entry.key);
    const auto record = engine::decode<engine::InstanceRecord>(entry.value);
    return name && record->number == name->first && record->last.number == name->second;
  }
  return true;
}

void write_entry(Family family, FuzzedDataProvider& input) {
  Entry entry;
  entry.key = input.ConsumeRandomLengthString(64);
  entry.value = input.ConsumeRemainingBytesAsString();
  if (!is_proper(family, entry)) return;
  const Table& table = sqlite::table_of(family);
  const auto fields = sqlite::key_fields(table.key, entry.key);
  Binder out(statement(family, Connection::Use::put));
  sqlite::bind_key(table.key, fields, out);
  FUZZ_REQUIRE(table.put(out, entry.key, entry.value) == SQLITE_OK, "an entry can be put");
  FUZZ_REQUIRE(read_row(family) == entry, "it comes back byte for byte");
}

void bind_anything(sqlite3_stmt* put, int column, FuzzedDataProvider& input) {
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      sqlite3_bind_null(put, column);
      return;
    case 1:
      sqlite3_bind_int64(put, column, input.ConsumeIntegral<std::int64_t>());
      return;
    case 2:
      sqlite3_bind_double(put, column, input.ConsumeFloatingPoint<double>());
      return;
    case 3: {
      const std::string text = input.ConsumeRandomLengthString(40);
      sqlite3_bind_text64(put, column, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      return;
    }
    default: {
      const std::string bytes = input.ConsumeRandomLengthString(40);
      sqlite3_bind_blob64(put, column, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
    }
  }
}

void write_columns(Family family, FuzzedDataProvider& input) {
  sqlite3_stmt* const put = statement(family, Connection::Use::put);
  for (int column = 1; column <= sqlite::table_of(family).columns; ++column)
    bind_anything(put, column, input);
  const int code = sqlite3_step(put);
  sqlite3_reset(put);
  if (code != SQLITE_DONE) return;  // the tables refuse some of it themselves
  const auto entry = read_row(family);
  if (!entry) return;
  // What is not called damaged can be written as it was read.
  if (!is_proper(family, *entry)) return;
  const Table& table = sqlite::table_of(family);
  const auto fields = sqlite::key_fields(table.key, entry->key);
  Binder out(put);
  sqlite::bind_key(table.key, fields, out);
  FUZZ_REQUIRE(table.put(out, entry->key, entry->value) == SQLITE_OK, "an entry can be put");
  FUZZ_REQUIRE(read_row(family) == *entry, "it comes back byte for byte");
}

void run(std::string_view bytes) {
  FuzzedDataProvider input(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const auto family =
      static_cast<Family>(input.ConsumeIntegralInRange<unsigned>(0, engine::family_count - 1));
  if (input.ConsumeBool()) {
    write_entry(family, input);
  } else {
    write_columns(family, input);
  }
  const std::string table(sqlite::table_of(family).name);
  FUZZ_REQUIRE(database().run("DELETE FROM \"" + table + "\""), "a table can be emptied");
}

const Target target("sqlite_rows", run, 4'000);

}  // namespace

}  // namespace strand::fuzz
