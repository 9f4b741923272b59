#include "relay/check.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "pq/connection.h"
#include "pq/pooler.h"
#include "relay/init_sql.h"
#include "relay/outbox.h"
#include "relay/sink.h"
#include "relay/source.h"

namespace strand::relay {
namespace {

using postgres::Connection;
using postgres::Group;
using postgres::Params;
using postgres::Rows;
using postgres::Statement;

constexpr std::string_view run_init = "run strand relay init --apply, or the SQL that it prints";
constexpr Duration kafka_timeout = std::chrono::seconds{10};

class Check {
 public:
  Check(Connection& connection, const Config& config)
      : connection_(connection), config_(config), own_(config.own_schema) {}

  Result<void> own_tables() {
    for (const std::string* table :
         {&own_.epochs, &own_.workers, &own_.claims, &own_.shards, &own_.trouble}) {
      const auto there = ask("SELECT to_regclass($1) IS NOT NULL", Params().text(*table));
      if (!there) return std::unexpected(there.error());
      if (there->boolean(0, 0)) {
        if (auto done = own_privileges(*table); !done) return done;
      } else {
        add("", "own_table", fmt::format("there is no {}", *table), run_init);
      }
    }
    return {};
  }

  Result<void> table(const TableSettings& settings) {
    const auto outbox = Outbox::describe(connection_, settings, own_);
    if (!outbox) {
      if (outbox.error().code == Errc::unavailable) return std::unexpected(outbox.error());
      // The message has its own advice.
      add(settings.name, outbox.error().code == Errc::not_found ? "table" : "column",
          outbox.error().message, "");
      return {};
    }
    if (auto done = privileges(*outbox); !done) return done;
    if (auto done = indexes(*outbox); !done) return done;
    if (auto done = triggers(*outbox); !done) return done;
    return columns(*outbox);
  }

  Result<void> topics() {
    const auto there = kafka_topics(config_.kafka, kafka_timeout);
    if (!there) {
      add("", "kafka", there.error().message, "");
      return {};
    }
    for (const TableSettings& settings : config_.tables) {
      // What is in a template, or in a column, is known by the rows only.
      if (settings.topic.find("${") == std::string::npos && settings.columns.topic.empty()) {
        look_for_topic(settings, *there, settings.topic);
      }
      if (auto done = topics_of_rows(settings, *there); !done) return done;
    }
    return {};
  }

  std::vector<Finding> take() { return std::move(findings_); }
  void add(std::string table, std::string kind, std::string what, std::string_view advice) {
    findings_.push_back({std::move(table), std::move(kind), std::move(what), std::string(advice)});
  }

 private:
  Result<Rows> ask(std::string sql, Params params = {}) {
    auto answer =
        connection_.run(Group{Statement{.sql = std::move(sql), .params = std::move(params)}});
    if (!answer) return std::unexpected(error_of(answer.error(), "checking"));
    return std::move(answer->front());
  }

  Result<void> own_privileges(const std::string& table) {
    const bool sequence = table == own_.epochs;
    for (const char* privilege : {"SELECT", "INSERT", "UPDATE", "DELETE"}) {
      if (sequence && std::string_view(privilege) != "UPDATE") continue;
      const auto may =
          ask(fmt::format("SELECT has_{}_privilege($1, $2)", sequence ? "sequence" : "table"),
              Params().text(table).text(privilege));
      if (!may) return std::unexpected(may.error());
      if (may->boolean(0, 0)) continue;
      add("", "privilege", fmt::format("this user may not {} on {}", privilege, table),
          fmt::format("GRANT {} ON {} TO this user", privilege, table));
    }
    return {};
  }

  Result<void> privileges(const Outbox& outbox) {
    const TableSettings& settings = outbox.settings();
    std::vector<std::string> needed = {"SELECT"};
    if (settings.style != Style::remove) needed.emplace_back("UPDATE");
    if (settings.style == Style::remove || settings.retention) needed.emplace_back("DELETE");
    for (const std::string& privilege : needed) {
      // To update, the columns that are written will do.
      std::string sql = "SELECT has_table_privilege($1, $2)";
      if (privilege == "UPDATE") {
        sql += fmt::format(" OR has_column_privilege($1, {}, $2)",
                           literal(settings.style == Style::status ? settings.columns.status
                                                                   : settings.sent_at_column()));
      }
      const auto may = ask(sql, Params().text(outbox.table()).text(privilege));
      if (!may) return std::unexpected(may.error());
      if (may->boolean(0, 0)) continue;
      add(settings.name, "privilege",
          fmt::format("this user may not {} on {}", privilege, settings.full_name()),
          fmt::format("GRANT {} ON {} TO this user", privilege, outbox.table()));
    }
    return {};
  }

  // An index will do if it begins with these columns and has rows that wait, whatever its name.
  Result<void> indexes(const Outbox& outbox) {
    const TableSettings& settings = outbox.settings();
    const auto there =
        ask("SELECT coalesce(pg_get_indexdef(i.indexrelid, 1, true), ''), "
            "coalesce(pg_get_indexdef(i.indexrelid, 2, true), ''), "
            "coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indisunique AND i.indnkeyatts = 1 "
            "FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisvalid",
            Params().text(outbox.table()));
    if (!there) return std::unexpected(there.error());
    const bool partial = settings.style != Style::remove;
    const auto has = [&](const std::string& first, const std::string& second,
                         bool must_be_partial) {
      for (std::size_t i = 0; i < there->size(); ++i) {
        const bool fits = unquoted(there->bytes(i, 0)) == first &&
                          (second.empty() || unquoted(there->bytes(i, 1)) == second);
        if (fits && there->bytes(i, 2).empty() != must_be_partial) return true;
      }
      return false;
    };
    const std::string& order = settings.order_column();
    const auto want = [&](const std::string& first, const std::string& second,
                          std::string_view for_what) {
      if (has(first, second, partial)) return;
      add(settings.name, "index",
          fmt::format("{} has no index on ({}{}{}){} for {}", settings.full_name(), first,
                      second.empty() ? "" : ", ", second,
                      partial ? " WHERE " + outbox.waiting() : "", for_what),
          run_init);
    };
    want(order, "", "the oldest waiting rows: claims get slower with each row that was sent");
    want(settings.columns.key, order, "the waiting rows of an entity");
    const bool unique = has_unique(*there, settings.columns.id);
    if (!unique) {
      add(settings.name, "index",
          fmt::format("{}.{} is not unique by itself", settings.full_name(), settings.columns.id),
          "make it the primary key: a mark must meet one row");
    }
    if (settings.strategy == Strategy::shards) return shard_index(outbox);
    return {};
  }

  static std::string unquoted(std::string_view name) {
    if (name.size() > 1 && name.front() == '"') name = name.substr(1, name.size() - 2);
    return std::string(name);
  }

  static bool has_unique(const Rows& indexes, const std::string& column) {
    for (std::size_t i = 0; i < indexes.size(); ++i)
      if (indexes.boolean(i, 3) && unquoted(indexes.bytes(i, 0)) == column) return true;
    return false;
  }

  // The server writes expressions its own way; the number of shards is what people change.
  Result<void> shard_index(const Outbox& outbox) {
    const TableSettings& settings = outbox.settings();
    const auto there = ask(
        fmt::format("SELECT count(*) FROM pg_index i WHERE i.indrelid = to_regclass($1) AND "
                    "i.indisvalid AND i.indkey[0] = 0 AND pg_get_indexdef(i.indexrelid, 1, true) ~ "
                    "'% \\(?{}\\)?(::bigint)?\\)*$'",
                    settings.shards),
        Params().text(outbox.table()));
    if (!there) return std::unexpected(there.error());
    if (there->int8(0, 0) > 0) return {};
    add(settings.name, "index",
        fmt::format("{} has no index on ({}, {}) for the waiting rows of a shard",
                    settings.full_name(), shard_expression(settings), settings.order_column()),
        run_init);
    return {};
  }

  Result<void> triggers(const Outbox& outbox) {
    const TableSettings& settings = outbox.settings();
    const auto there = ask(
        "SELECT tgname::text, tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = to_regclass($1) AND "
        "NOT tgisinternal",
        Params().text(outbox.table()));
    if (!there) return std::unexpected(there.error());
    std::set<std::string> names;
    for (std::size_t i = 0; i < there->size(); ++i)
      if (there->boolean(i, 1)) names.emplace(there->bytes(i, 0));
    if (settings.commit_order == CommitOrder::lock && !names.contains(order_trigger(settings))) {
      add(settings.name, "trigger",
          fmt::format("{} has no trigger {}: rows of one entity can be sent in another order than "
                      "that of their commits",
                      settings.full_name(), order_trigger(settings)),
          fmt::format("{}; or say commit_order = \"watermark\", or \"none\" if the application "
                      "locks the entity itself",
                      run_init));
    }
    if (settings.notify && !names.contains(notify_trigger(settings))) {
      add(settings.name, "trigger",
          fmt::format("{} has no trigger {}: rows are found by polling only, every {}",
                      settings.full_name(), notify_trigger(settings),
                      format_duration(settings.poll)),
          fmt::format("{}; or say notify = false", run_init));
    }
    return {};
  }

  Result<void> columns(const Outbox& outbox) {
    const TableSettings& settings = outbox.settings();
    const auto nullable =
        ask("SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND NOT "
            "attnotnull "
            "AND attname::text = ANY($2)",
            Params()
                .text(outbox.table())
                .texts(std::vector<std::optional<std::string_view>>{
                    settings.columns.id, settings.order_column(), settings.columns.key}));
    if (!nullable) return std::unexpected(nullable.error());
    for (std::size_t i = 0; i < nullable->size(); ++i) {
      add(settings.name, "column",
          fmt::format("{}.{} may be NULL, and such a row is never sent", settings.full_name(),
                      nullable->bytes(i, 0)),
          "make it NOT NULL");
    }
    return {};
  }

  Result<void> topics_of_rows(const TableSettings& settings,
                              const std::map<std::string, std::int32_t>& there) {
    const auto outbox = Outbox::describe(connection_, settings, own_);
    if (!outbox) return {};  // said before
    const auto rows = Source(*outbox, connection_).peek();
    if (!rows) return {};  // the relay's own tables are missing: said before
    std::set<std::string> seen;
    for (const Row& row : *rows) {
      const auto message = make_message(settings, row);
      if (!message) {
        add(settings.name, "row",
            fmt::format("row {} cannot be sent: {}", row.id, message.error().message),
            "mend or delete it; on_poison says what becomes of it otherwise");
        break;
      }
      if (seen.insert(message->topic).second) look_for_topic(settings, there, message->topic);
    }
    return {};
  }

  void look_for_topic(const TableSettings& settings,
                      const std::map<std::string, std::int32_t>& there, const std::string& topic) {
    if (there.contains(topic) || !missing_.insert(topic).second) return;
    add(settings.name, "topic", fmt::format("there is no topic {}", topic),
        "create it, unless the brokers create topics by themselves");
  }

  Connection& connection_;
  const Config& config_;
  OwnTables own_;
  std::vector<Finding> findings_;
  std::set<std::string> missing_;
};

}  // namespace

Result<std::vector<Finding>> check(const Config& config, const CheckOptions& options) {
  const auto connection = Connection::open(config.conninfo);
  if (!connection) return std::unexpected(connection.error());
  Check check(**connection, config);
  if (auto direct = postgres::check_pooler(**connection, config.conninfo); !direct) {
    check.add("", "server", direct.error().message, "");
    return check.take();
  }
  if (auto done = check.own_tables(); !done) return std::unexpected(done.error());
  for (const TableSettings& table : config.tables)
    if (auto done = check.table(table); !done) return std::unexpected(done.error());
  if (options.kafka)
    if (auto done = check.topics(); !done) return std::unexpected(done.error());
  return check.take();
}

}  // namespace strand::relay
