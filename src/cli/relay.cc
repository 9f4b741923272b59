#include "cli/relay.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/nearest.h"
#include "cli/commands.h"
#include "pq/connection.h"
#include "relay/init_sql.h"

// relay init; and what the commands of the relay share

namespace strand::cli {

void declare_relay_common(CLI::App& app, RelayCommon& options) {
  add_text(app, "--config", options.config, "FILE",
           "The relay's configuration; else the environment says, with STRAND_RELAY_CONFIG");
  add_values(app, "--table", "NAME", "Only this table of the configuration; may be repeated",
             [&options](std::string_view text) -> Result<void> {
               options.tables.emplace_back(text);
               return {};
             });
}

Result<relay::Config> load_relay_config(const RelayCommon& options) {
  std::string path = options.config;
  if (path.empty()) {
    const char* named = std::getenv("STRAND_RELAY_CONFIG");  // NOLINT(concurrency-mt-unsafe)
    if (named != nullptr) path = named;
  }
  if (path.empty()) {
    return failure(Errc::invalid_argument,
                   "there is no configuration: name it with --config, or with STRAND_RELAY_CONFIG "
                   "in the environment");
  }
  auto config = relay::read_config(path);
  if (!config || options.tables.empty()) return config;
  std::vector<std::string> known;
  for (const relay::TableSettings& table : config->tables)
    known.push_back(table.name);
  for (const std::string& name : options.tables) {
    if (std::ranges::find(known, name) == known.end()) {
      return failure(Errc::not_found, fmt::format("{} has no table {}{}", path, name,
                                                  base::suggestion(name, known)));
    }
  }
  std::erase_if(config->tables, [&](const relay::TableSettings& table) {
    return std::ranges::find(options.tables, table.name) == options.tables.end();
  });
  return config;
}

namespace {

struct InitOptions : RelayCommon {
  bool apply = false;
  bool no_table = false;
};

void declare_init(CLI::App& app, InitOptions& options) {
  declare_relay_common(app, options);
  add_flag(app, "--apply", options.apply, "Run the SQL instead of printing it");
  add_flag(app, "--no-table", options.no_table,
           "Without the outbox tables themselves: they are there");
}

std::string init_sql(const relay::Config& config, bool with_tables) {
  std::string sql = "-- The relay's own tables.\n";
  sql += relay::own_tables_sql(relay::OwnTables(config.own_schema));
  for (const relay::TableSettings& table : config.tables) {
    sql += fmt::format("\n-- {}\n", table.name);
    if (with_tables) sql += relay::outbox_sql(table);
    sql += relay::indexes_sql(table);
    sql += relay::triggers_sql(table);
  }
  return sql;
}

Exit run_init(const InitOptions& options, Output& output) {
  const auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  const std::string sql = init_sql(*config, !options.no_table);
  if (options.apply) {
    const auto connection = postgres::Connection::open(config->conninfo);
    if (!connection) return fail(connection.error());
    const std::string quiet = "SET client_min_messages = warning;\n" + sql;
    if (const auto done = (*connection)->script(quiet); !done) {
      return fail(relay::error_of(done.error(), "running the SQL"));
    }
  }
  if (output.json()) {
    output.object({{"sql", sql}, {"applied", options.apply}});
  } else if (!options.apply) {
    output.text(sql);
  }
  return Exit::done;
}

}  // namespace

void add_relay_commands(Family program) {
  const Family family =
      add_family(program, "relay", "Moves rows from outbox tables in PostgreSQL to Kafka.");
  add_command<InitOptions>(
      family,
      {.name = "init",
       .what = "Prints the SQL for outbox tables, their indexes and triggers, and the relay's own "
               "tables.",
       .example = "  strand relay init --config relay.toml | psql shop\n"
                  "  strand relay init --config relay.toml --apply"},
      declare_init, run_init);
  add_relay_run(family);
  add_relay_look(family);
  add_relay_verify(family);
}

}  // namespace strand::cli
