#include "store/postgres/schema.h"

#include <tuple>

#include <fmt/format.h>

#include "pq/pooler.h"
#include "store/postgres/answers.h"
#include "store/postgres/planted_sql.h"
#include "store/postgres/sql.h"

namespace strand::postgres {

namespace {

// The oldest server with everything that is used: transaction-level settings, ON CONFLICT, SKIP
// LOCKED, toast_tuple_target and MATERIALIZED.
constexpr int oldest_server = 120000;

Result<Rows> ask(Connection& connection, std::string sql, std::string_view what) {
  auto answer = connection.run(Group{Statement{.sql = std::move(sql)}});
  if (!answer) return std::unexpected(error_of(answer.error(), what));
  return std::move(answer->front());
}

Result<void> run(Connection& connection, const std::string& sql, std::string_view what) {
  auto done = connection.script(sql);
  if (!done) return std::unexpected(error_of(done.error(), what));
  return {};
}

std::string lock_name(const Location& location) {
  return fmt::format("hashtextextended('strand migration {}', 0)", location.schema);
}

// What the role of the connection may do in the database.
struct Rights {
  std::string role = {};
  std::string database = {};
  bool schema_exists = false;
  bool may_create_schema = false;
  bool may_use_schema = false;
  bool may_create_tables = false;
};

Result<Rights> rights_of(Connection& connection, const Location& location) {
  const auto row =
      ask(connection,
          fmt::format("select current_user::text, current_database()::text, n.oid is not null, "
                      "has_database_privilege(current_database(), 'CREATE'), "
                      "coalesce(has_schema_privilege(n.oid, 'USAGE'), false), "
                      "coalesce(has_schema_privilege(n.oid, 'CREATE'), false) "
                      "from (select 1) one left join pg_namespace n on n.nspname = '{}'",
                      location.schema),
          "looking at privileges");
  if (!row) return std::unexpected(row.error());
  return Rights{.role = std::string(row->bytes(0, 0)),
                .database = std::string(row->bytes(0, 1)),
                .schema_exists = row->boolean(0, 2),
                .may_create_schema = row->boolean(0, 3),
                .may_use_schema = row->boolean(0, 4),
                .may_create_tables = row->boolean(0, 5)};
}

// What has to be granted before the schema can be used.
Result<void> check_use(const Rights& rights, const Location& location) {
  if (!rights.schema_exists || rights.may_use_schema) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("the role {0} may not use the schema {1}: as its owner, run GRANT "
                             "USAGE ON SCHEMA \"{1}\" TO \"{0}\"; GRANT SELECT, INSERT, UPDATE, "
                             "DELETE ON ALL TABLES IN SCHEMA \"{1}\" TO \"{0}\"; GRANT USAGE, "
                             "SELECT ON ALL SEQUENCES IN SCHEMA \"{1}\" TO \"{0}\"",
                             rights.role, location.schema));
}

// The same for making the store.
Result<void> check_create(const Rights& rights, const Location& location) {
  if (!rights.schema_exists && !rights.may_create_schema) {
    return failure(
        Errc::invalid_argument,
        fmt::format("the role {0} may not make the schema {2} in database {1}: run GRANT CREATE "
                    "ON DATABASE \"{1}\" TO \"{0}\", or CREATE SCHEMA \"{2}\" AUTHORIZATION "
                    "\"{0}\"; or have another role run strand store migrate",
                    rights.role, rights.database, location.schema));
  }
  if (rights.schema_exists && !rights.may_create_tables) {
    return failure(
        Errc::invalid_argument,
        fmt::format("the role {0} may not make tables in the schema {1}: run GRANT CREATE ON "
                    "SCHEMA \"{1}\" TO \"{0}\", or have another role run strand store migrate",
                    rights.role, location.schema));
  }
  return {};
}

// 0 if there is no store.
Result<int> version_of(Connection& connection, const Location& location) {
  const auto rights = rights_of(connection, location);
  if (!rights) return std::unexpected(rights.error());
  if (auto usable = check_use(*rights, location); !usable) return std::unexpected(usable.error());
  const auto there =
      ask(connection,
          fmt::format("select to_regclass('\"{}\".migrations') is not null", location.schema),
          "looking for the store");
  if (!there) return std::unexpected(there.error());
  if (!there->boolean(0, 0)) return 0;
  const auto version =
      ask(connection,
          fmt::format("select coalesce(max(version), 0) from \"{}\".migrations", location.schema),
          "reading the version of the store");
  if (!version) return std::unexpected(version.error());
  return version->int4(0, 0);
}

std::string script_of(const Migration& migration, const Location& location) {
  return fmt::format(
      "set local search_path = \"{0}\", pg_temp;\nset local check_function_bodies = off;\n"
      "set local client_min_messages = warning;\n{1}\n"
      "insert into migrations (version, name) values ({2}, '{3}');\n",
      location.schema, migration.sql, migration.version, migration.name);
}

// CREATE SCHEMA IF NOT EXISTS wants the privilege to make one even if it is there.
std::string first_script(const Location& location) {
  return fmt::format(
      "do $$ begin if not exists (select 1 from pg_namespace where nspname = '{0}') then "
      "create schema \"{0}\"; end if; end $$;\n"
      "create table if not exists \"{0}\".migrations (version int primary key, name text not null, "
      "applied_at timestamptz not null default now());\n",
      location.schema);
}

Result<void> refuse_newer(int version, const Location& location) {
  const int known = migrations(false).back().version;
  if (version <= known) return {};
  return failure(
      Errc::unsupported,
      fmt::format("the store in schema {} has version {}, and this program knows those up "
                  "to {}: use a newer program",
                  location.schema, version, known));
}

std::string identity_sql(const Identity& identity, bool own_clock) {
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return fmt::format(
      "insert into store (id, secret, own_clock) values ({}, '{{{},{}}}', {}) "
      "on conflict do nothing;\n",
      number(identity.store), number(identity.secret[0]), number(identity.secret[1]), own_clock);
}

std::string whole_script(const Migration& step, const Location& location, const Identity& identity,
                         bool own_clock) {
  if (step.version > 1) return script_of(step, location);
  return first_script(location) + script_of(step, location) + identity_sql(identity, own_clock);
}

}  // namespace

std::vector<Migration> migrations(bool own_clock) {
  std::vector<Migration> steps;
  steps.push_back({.version = 1, .name = "tables and functions", .sql = plant(sql::first())});
  if (own_clock) steps.back().sql += sql::test_clock();
  return steps;
}

Result<MigrationReport> migrate(Connection& connection, const Location& location, bool own_clock,
                                const Identity& identity) {
  // Held by the session, because each step is a transaction of its own.
  const std::string lock = lock_name(location);
  if (auto locked = ask(connection, fmt::format("select pg_advisory_lock({})", lock),
                        "waiting for other migrations");
      !locked) {
    return std::unexpected(locked.error());
  }
  const auto steps = [&]() -> Result<MigrationReport> {
    MigrationReport report;
    const auto version = version_of(connection, location);
    if (!version) return std::unexpected(version.error());
    report.before = report.after = *version;
    if (auto checked = refuse_newer(*version, location); !checked) {
      return std::unexpected(checked.error());
    }
    for (const Migration& step : migrations(own_clock)) {
      if (step.version <= *version) continue;
      const auto rights = rights_of(connection, location);
      if (!rights) return std::unexpected(rights.error());
      if (auto allowed = check_create(*rights, location); !allowed) {
        return std::unexpected(allowed.error());
      }
      const std::string script = whole_script(step, location, identity, own_clock);
      if (auto done = run(connection, script, "the migration of the store"); !done) {
        return std::unexpected(done.error());
      }
      report.applied.push_back(step.name);
      report.after = step.version;
    }
    return report;
  };
  auto report = steps();
  std::ignore =
      ask(connection, fmt::format("select pg_advisory_unlock({})", lock), "letting go of the lock");
  return report;
}

Result<std::string> pending_sql(Connection& connection, const Location& location,
                                const Identity& identity) {
  const auto version = version_of(connection, location);
  if (!version) return std::unexpected(version.error());
  if (auto checked = refuse_newer(*version, location); !checked) {
    return std::unexpected(checked.error());
  }
  std::string all;
  for (const Migration& step : migrations(false)) {
    if (step.version <= *version) continue;
    all += "begin;\n" + whole_script(step, location, identity, false) + "commit;\n";
  }
  return all;
}

Result<StoreInfo> read_store(Connection& connection, const Location& location) {
  const auto version = version_of(connection, location);
  if (!version) return std::unexpected(version.error());
  if (*version == 0) {
    return failure(Errc::not_found,
                   fmt::format("there is no store in schema {} of this database: run strand store "
                               "migrate, or open it without migrate=off",
                               location.schema));
  }
  if (auto checked = refuse_newer(*version, location); !checked) {
    return std::unexpected(checked.error());
  }
  const int known = migrations(false).back().version;
  if (*version < known) {
    return failure(Errc::unsupported,
                   fmt::format("the store in schema {} has version {}, and this program needs {}: "
                               "run strand store migrate",
                               location.schema, *version, known));
  }
  const auto row =
      ask(connection,
          fmt::format("select id, secret, own_clock, time from \"{}\".store", location.schema),
          "reading the store");
  if (!row) return std::unexpected(row.error());
  if (row->empty()) {
    return failure(
        Errc::corrupt,
        fmt::format("the table {}.store is empty: restore it from a backup", location.schema));
  }
  const auto secret = row->int8s(0, 1);
  StoreInfo info;
  info.identity.store = static_cast<std::uint64_t>(row->int8(0, 0));
  if (secret.size() == 2) {
    info.identity.secret[0] = static_cast<std::uint64_t>(secret[0]);
    info.identity.secret[1] = static_cast<std::uint64_t>(secret[1]);
  }
  info.own_clock = row->boolean(0, 2);
  info.time = row->int8(0, 3);
  return info;
}

// Plans are made once and for all: a queue's table is empty at one moment and full at the next, and
// a plan that scans it would be remembered. So there is one kind only: loops over indexes.
// synchronous_commit off would make `sync` a lie.
std::string session_script(const Location& location) {
  return fmt::format(
      "set search_path = \"{}\", pg_temp;\n"
      "set default_transaction_isolation = 'read committed';\n"
      "set standard_conforming_strings = on;\n"
      "set plan_cache_mode = force_generic_plan;\n"
      "set enable_seqscan = off;\n"
      "set enable_bitmapscan = off;\n"
      "set enable_hashjoin = off;\n"
      "set enable_mergejoin = off;\n"
      "set enable_material = off;\n"
      "set jit = off;\n"
      "set client_min_messages = warning;\n"
      "do $$ begin if current_setting('synchronous_commit') = 'off' then "
      "set synchronous_commit = on; end if; end $$;\n",
      location.schema);
}

Result<void> check_server(Connection& connection, const Location& location) {
  const auto row = ask(connection,
                       "select current_setting('server_version_num')::int, "
                       "current_setting('server_encoding'), pg_is_in_recovery(), "
                       "current_setting('transaction_read_only') = 'on'",
                       "looking at the server");
  if (!row) return std::unexpected(row.error());
  if (row->int4(0, 0) < oldest_server) {
    return failure(Errc::unsupported,
                   fmt::format("the server is PostgreSQL {}, and Strand needs 12 or newer",
                               row->int4(0, 0) / 10000));
  }
  if (row->bytes(0, 1) != "UTF8") {
    return failure(Errc::invalid_argument,
                   fmt::format("the database has the encoding {}, and Strand needs UTF8: create it "
                               "with ENCODING 'UTF8'",
                               row->bytes(0, 1)));
  }
  if (row->boolean(0, 2) || row->boolean(0, 3)) {
    return failure(Errc::invalid_argument,
                   "the server is a read-only replica, or the session is read-only: name the "
                   "primary, or all hosts with target_session_attrs=read-write");
  }
  return check_pooler(connection, location.conninfo);
}

}  // namespace strand::postgres
