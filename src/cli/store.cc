#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/commands.h"
#include "pq/connection.h"
#include "store/open.h"
#include "store/postgres/location.h"
#include "store/postgres/places.h"
#include "store/postgres/schema.h"
#include "store/url.h"

// store: what stores are made of

namespace strand::cli {

namespace {

struct MigrateOptions : Common {
  std::string url = {};
  bool dry_run = false;
};

void declare_migrate(CLI::App& app, MigrateOptions& options) {
  add_text(app, "URL", options.url, "", "The store, in PostgreSQL").required();
  add_flag(app, "--dry-run", options.dry_run, "Prints the SQL that is pending, and runs nothing");
}

// Stores of other kinds bring themselves up to date whenever they are opened.
Result<postgres::Location> location_of(const std::string& url) {
  const auto parsed = store::parse_url(url);
  if (!parsed) return std::unexpected(parsed.error());
  if (parsed->scheme != store::Url::Scheme::postgres) {
    return failure(
        Errc::unsupported,
        fmt::format("{} is no store in PostgreSQL, and needs no migration: it is brought "
                    "up to date when it is opened",
                    base::printable(url)));
  }
  return postgres::parse_location(parsed->rest);
}

postgres::Identity new_identity() {
  const engine::Identity made = store::new_identity();
  return {.store = made.store, .secret = {made.secret[0], made.secret[1]}};
}

Exit print_pending(postgres::Connection& connection, const postgres::Location& location,
                   Output& output) {
  const auto pending = postgres::pending_sql(connection, location, new_identity());
  if (!pending) return fail(pending.error());
  if (output.json()) {
    output.object({{"schema", location.schema}, {"pending", !pending->empty()}, {"sql", *pending}});
  } else if (pending->empty()) {
    fmt::print(stderr, "the store in schema {} is up to date\n", location.schema);
  } else {
    output.text(*pending);
  }
  return Exit::done;
}

void print_report(const postgres::MigrationReport& report, const postgres::Location& location,
                  Output& output) {
  if (output.json()) {
    boost::json::array applied;
    for (const std::string& name : report.applied)
      applied.emplace_back(name);
    output.object({{"schema", location.schema},
                   {"before", report.before},
                   {"after", report.after},
                   {"applied", std::move(applied)}});
  } else if (report.applied.empty()) {
    fmt::print(stderr, "the store in schema {} is up to date\n", location.schema);
  } else {
    output.text(fmt::format("the store in schema {} went from version {} to {}: {}\n",
                            location.schema, report.before, report.after,
                            fmt::join(report.applied, ", ")));
  }
}

Exit run_migrate(const MigrateOptions& options, Output& output) {
  const auto location = location_of(options.url);
  if (!location) return fail(location.error());
  const auto connection = postgres::Connection::open(location->conninfo);
  if (!connection) return fail(connection.error());
  if (auto fit = postgres::check_server(**connection, *location); !fit) return fail(fit.error());
  if (options.dry_run) return print_pending(**connection, *location, output);
  const auto report = postgres::migrate(**connection, *location, false, new_identity());
  if (!report) return fail(report.error());
  print_report(*report, *location, output);
  return Exit::done;
}

}  // namespace

void add_store_commands(Family program) {
  const Family store = add_family(program, "store", "The tables of stores in PostgreSQL.");
  add_command<MigrateOptions>(
      store,
      {.name = "migrate",
       .what = "Makes the tables and functions of a store, or brings them up to date.",
       .example = "  strand store migrate postgres://strand@db.example.com/app\n"
                  "  strand store migrate 'postgres://strand@db.example.com/app?schema=orders' "
                  "--dry-run | less"},
      declare_migrate, run_migrate);
}

}  // namespace strand::cli
