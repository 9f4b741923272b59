#pragma once

#include <map>
#include <string>
#include <string_view>

#include <strand/error.h>

#include "pq/connection.h"
#include "relay/config.h"

namespace strand::relay {

// As SQL writes them: "name", 'text'.
std::string identifier(std::string_view name);
std::string literal(std::string_view text);

// What the server said, for people; whether it helps to try again.
Error error_of(const postgres::Failure& failure, std::string_view what);

// The relay's own tables, quoted, with their schema.
struct OwnTables {
  explicit OwnTables(std::string_view schema);
  std::string schema;
  std::string epochs;
  std::string workers;
  std::string claims;
  std::string shards;
  std::string trouble;
};

// --- Of a table that may not exist yet ---

std::string table_name(const TableSettings& settings);  // quoted, with its schema
// The condition of rows that wait; "true" if all of them do.
std::string waiting_condition(const TableSettings& settings);
// The shard of a row: 0 to shards - 1, whatever the key.
std::string shard_expression(const TableSettings& settings);

// --- Of one that does ---

// A table as it is in the database, and the expressions by which statements speak of it.
class Outbox {
 public:
  // Failure: not_found (no such table, or no such column), invalid_argument (a column of a type
  //          that will not do).
  static Result<Outbox> describe(postgres::Connection& connection, const TableSettings& settings,
                                 const OwnTables& own);

  [[nodiscard]] const TableSettings& settings() const { return settings_; }
  [[nodiscard]] const OwnTables& own() const { return own_; }
  [[nodiscard]] const std::string& table() const { return table_; }
  [[nodiscard]] const std::string& waiting() const { return waiting_; }
  [[nodiscard]] const std::string& created_at() const { return created_at_; }  // or empty
  [[nodiscard]] std::string type_of(const std::string& column) const;
  [[nodiscard]] bool has(const std::string& column) const { return types_.contains(column); }

  // Columns, quoted.
  [[nodiscard]] std::string id() const { return identifier(settings_.columns.id); }
  [[nodiscard]] std::string key() const { return identifier(settings_.columns.key); }
  [[nodiscard]] std::string order() const { return identifier(settings_.order_column()); }

  // "key" is one of the texts in parameter n; uses an index on the column, whatever its type.
  [[nodiscard]] std::string key_in(int parameter) const;

 private:
  Outbox(TableSettings settings, OwnTables own);
  [[nodiscard]] Result<void> check_columns() const;

  TableSettings settings_;
  OwnTables own_;
  std::string table_;
  std::string waiting_;
  std::string created_at_;
  std::map<std::string, std::string> types_;  // by the name of the column
};

}  // namespace strand::relay
