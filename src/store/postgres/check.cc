#include "store/postgres/check.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <tuple>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "store/postgres/answers.h"
#include "store/postgres/schema.h"
#include "store/postgres/sql.h"

namespace strand::postgres {

namespace {

constexpr std::size_t identifier_bytes_max = 63;

std::string findings_sql() {
  return "with " + sql::check_lanes() + sql::check() +
         "select kind, what, repairable, count from ("
         "select kind, what, repairable, "
         "count(*) over (partition by kind, repairable) as count, "
         "row_number() over (partition by kind, repairable order by what) as n from found) f "
         "where n <= " +
         std::to_string(findings_max) + " order by kind, repairable, n";
}

constexpr std::string_view totals_sql =
    "select (select count(*) from messages), (select count(*) from dead), "
    "(select count(*) from queues), "
    "(select count(*) from lanes) + (select count(*) from tallies) + (select count(*) from bodies) "
    "+ (select count(*) from topics) + (select count(*) from retained) + "
    "(select count(*) from dedup) + (select count(*) from clients) + "
    "(select count(*) from receipts) + (select count(*) from requests) + "
    "(select count(*) from instances) + (select count(*) from executions) + "
    "(select count(*) from events) + (select count(*) from records)";

// A session of the store, but with plans for reading everything: whole tables, each once.
Result<void> settle_in(Connection& connection, const Location& location) {
  const auto done = connection.script(session_script(location) +
                                      "set enable_seqscan = on; set plan_cache_mode = auto;");
  if (!done) return std::unexpected(error_of(done.error(), "the setup of the session"));
  return {};
}

std::uint64_t number(const Rows& rows, std::size_t row, std::size_t column) {
  return static_cast<std::uint64_t>(rows.int8(row, column));
}

CheckReport read_report(const Rows& found, const Rows& totals) {
  CheckReport report;
  bool repairable_before = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Finding finding{.kind = std::string(found.bytes(i, 0)),
                    .what = std::string(found.bytes(i, 1)),
                    .repairable = found.boolean(i, 2)};
    const bool same_kind = !report.counts.empty() && report.counts.back().first == finding.kind;
    if (!same_kind || repairable_before != finding.repairable) {
      const std::uint64_t count = number(found, i, 3);
      if (!same_kind) report.counts.emplace_back(finding.kind, 0);
      report.counts.back().second += count;
      report.found += count;
      if (finding.repairable) report.repairable += count;
    }
    repairable_before = finding.repairable;
    report.findings.push_back(std::move(finding));
  }
  report.messages = number(totals, 0, 0);
  report.dead_letters = number(totals, 0, 1);
  report.queues = number(totals, 0, 2);
  report.rows = report.messages + report.dead_letters + report.queues + number(totals, 0, 3);
  return report;
}

// NAME_backup_TIME, with so much of the name as fits.
std::string copy_name(const Location& location) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string suffix = fmt::format("_backup_{:%Y%m%d%H%M%S}", now);
  return location.schema.substr(0, identifier_bytes_max - suffix.size()) + suffix;
}

std::string copy_sql(const Location& location, const std::string& copy) {
  std::string text = fmt::format("create schema \"{}\";\n", copy);
  for (const char* table :
       {"migrations", "store",    "queues",    "tallies",    "lanes",    "messages", "ready",
        "bundles",    "dead",     "bodies",    "topics",     "retained", "dedup",    "clients",
        "receipts",   "requests", "instances", "executions", "events",   "records"}) {
    text += fmt::format(
        "lock table \"{0}\".{2} in access exclusive mode;\n"
        "create table \"{1}\".{2} as table \"{0}\".{2};\n",
        location.schema, copy, table);
  }
  text += fmt::format(
      "create table \"{1}\".sequences as select 'numbers' as name, last_value from \"{0}\".numbers "
      "union all select 'epochs', last_value from \"{0}\".epochs;\n",
      location.schema, copy);
  return text;
}

std::string repair_sql() {
  return sql::repair() + "create temporary table lane_truth on commit drop as with " +
         sql::check_lanes() + "select * from truth;\n" + sql::repair_lanes();
}

}  // namespace

Result<CheckReport> check(Connection& connection, const Location& location) {
  if (const auto info = read_store(connection, location); !info) {
    return std::unexpected(info.error());
  }
  if (auto ready = settle_in(connection, location); !ready) return std::unexpected(ready.error());
  Group group;
  group.push_back(Statement{.sql = findings_sql()});
  group.push_back(Statement{.sql = std::string(totals_sql)});
  const auto answer = connection.run(group);
  if (!answer) return std::unexpected(error_of(answer.error(), "the check of the store"));
  return read_report(answer->at(0), answer->at(1));
}

Result<RepairReport> repair(Connection& connection, const Location& location) {
  if (auto checked = check_server(connection, location); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto ready = settle_in(connection, location); !ready) return std::unexpected(ready.error());
  // The lock that every process holds which has the store open: see take_part() in due.sql.
  const std::string lock = "hashtextextended('strand open ' || current_schema(), 0)";
  const auto alone =
      connection.run(Group{Statement{.sql = fmt::format("select pg_try_advisory_lock({})", lock)}});
  if (!alone) return std::unexpected(error_of(alone.error(), "the lock of the store"));
  if (!alone->front().boolean(0, 0)) {
    return failure(Errc::in_use,
                   fmt::format("the store in schema {} is in use: end all processes that have it "
                               "open, and repair it then",
                               location.schema));
  }
  RepairReport report{.copy = copy_name(location)};
  const auto done = connection.script(copy_sql(location, report.copy) + repair_sql());
  std::ignore =
      connection.run(Group{Statement{.sql = fmt::format("select pg_advisory_unlock({})", lock)}});
  if (!done) {
    return std::unexpected(
        error_of(done.error(), "the repair, which was undone with the copy it began with"));
  }
  return report;
}

}  // namespace strand::postgres
