#include "store/sqlite/schema.h"

#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "store/sqlite/page_checksums.h"

namespace strand::sqlite {

namespace {

struct Made {
  std::string_view name;
  std::string_view sql;
};

// The comments stay in the file, where `.schema` shows them. Times and durations are milliseconds,
// times since 1970; columns of bytes that need not be text are BLOBs.
constexpr std::array made_tables = {
    Made{"meta", R"(CREATE TABLE meta (
  name TEXT PRIMARY KEY,  -- one row: 'strand'
  format INTEGER NOT NULL,
  store INTEGER NOT NULL,  -- drawn at random when the store was made
  secret BLOB NOT NULL,  -- seals the tokens of leases
  commit_number INTEGER NOT NULL,
  time INTEGER NOT NULL,  -- milliseconds since 1970, as all times here
  numbers_reserved INTEGER NOT NULL,
  next_queue INTEGER NOT NULL,
  lowest_message INTEGER NOT NULL
) WITHOUT ROWID)"},
    Made{"queue", R"(CREATE TABLE queue (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  paused INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,  -- 0: unlimited
  backoff TEXT,  -- JSON: [milliseconds,...]
  retry_policy TEXT NOT NULL,  -- block, skip
  on_exhausted TEXT NOT NULL,  -- dead, park
  ttl_ms INTEGER,
  on_expired TEXT NOT NULL,  -- drop, dead
  dedup_window_ms INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  starvation_after_ms INTEGER NOT NULL,
  max_length INTEGER NOT NULL,  -- 0: unlimited
  backoff_jitter_percent INTEGER NOT NULL,
  notice_queue TEXT,  -- told of dead letters
  notice_key BLOB
))"},
    Made{"counters", R"(CREATE TABLE counters (
  queue INTEGER PRIMARY KEY,
  accepted INTEGER NOT NULL,
  acked INTEGER NOT NULL,
  expired INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  moved INTEGER NOT NULL,
  purged INTEGER NOT NULL,
  dead INTEGER NOT NULL
))"},
    Made{"message", R"(CREATE TABLE message (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  key BLOB,
  priority INTEGER NOT NULL,  -- 0 urgent, 1 high, 2 normal, 3 low
  enqueued_at INTEGER NOT NULL,
  due INTEGER NOT NULL,
  expires_at INTEGER,
  name BLOB,
  label TEXT NOT NULL,
  max_attempts INTEGER,
  notice_queue TEXT,  -- told when the message ends without an ack
  notice_key BLOB,
  is_notice INTEGER NOT NULL,  -- tells of the end of another message
  topic TEXT,
  headers BLOB,  -- JSON: [["name","value"],...]; bytes if they are not UTF-8
  body BLOB,  -- unless it is in the table body
  body_bytes INTEGER NOT NULL,
  body_at INTEGER  -- body.id
))"},
    Made{"body", R"(CREATE TABLE body (
  id INTEGER PRIMARY KEY,
  body BLOB NOT NULL
))"},
    Made{"state", R"(CREATE TABLE state (  -- of messages that have been given back
  id INTEGER PRIMARY KEY,  -- message.id
  attempts INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,  -- without a lease that is in force
  not_before INTEGER,
  blocks INTEGER NOT NULL,
  park_reason BLOB,
  failures BLOB  -- JSON: [{"at":time,"reason":"..."},...]; bytes if they are not UTF-8
))"},
    Made{"lane", R"(CREATE TABLE lane (  -- lanes with more to say than their messages do
  queue INTEGER NOT NULL,
  key BLOB NOT NULL,
  label TEXT NOT NULL,
  park_reason BLOB,
  isolate_next INTEGER NOT NULL,
  hint_owner TEXT,
  hint_until INTEGER,
  hint_grace_ms INTEGER,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID)"},
    Made{"lease", R"(CREATE TABLE lease (
  epoch INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  key BLOB,
  expires_at INTEGER NOT NULL,
  cursor INTEGER NOT NULL,
  isolated INTEGER NOT NULL,
  graced INTEGER NOT NULL,
  request_client TEXT,
  request_number TEXT,
  messages TEXT  -- JSON: [id,...]; [id,cursor] if a pull brought it
))"},
    Made{"request", R"(CREATE TABLE request (
  client TEXT NOT NULL,  -- 16 hexadecimal digits
  number TEXT NOT NULL,  -- 20 decimal digits
  first INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  PRIMARY KEY (client, number)
) WITHOUT ROWID)"},
    Made{"dedup", R"(CREATE TABLE dedup (
  queue INTEGER NOT NULL,  -- 0: of a topic
  id BLOB NOT NULL,  -- of a topic: its name, x'0001', the dedup id
  first INTEGER NOT NULL,  -- the message that was first
  ends_at INTEGER NOT NULL,
  PRIMARY KEY (queue, id)
) WITHOUT ROWID)"},
    Made{"client", R"(CREATE TABLE client (
  client TEXT PRIMARY KEY,  -- 16 hexadecimal digits
  lowest_unanswered INTEGER NOT NULL,
  forget_at INTEGER NOT NULL
) WITHOUT ROWID)"},
    Made{"receipt", R"(CREATE TABLE receipt (
  client TEXT NOT NULL,
  number TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  forget_at INTEGER NOT NULL,
  receipt BLOB NOT NULL,  -- in the engine's encoding
  PRIMARY KEY (client, number)
) WITHOUT ROWID)"},
    Made{"dead", R"(CREATE TABLE dead (
  queue INTEGER NOT NULL,
  id INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  dead_at INTEGER NOT NULL,
  reason BLOB NOT NULL,
  failures BLOB,  -- as in state
  key BLOB,  -- from here on as in message
  priority INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  due INTEGER NOT NULL,
  expires_at INTEGER,
  name BLOB,
  label TEXT NOT NULL,
  max_attempts INTEGER,
  notice_queue TEXT,
  notice_key BLOB,
  is_notice INTEGER NOT NULL,  -- tells of the end of another message
  topic TEXT,
  headers BLOB,
  body BLOB,
  body_bytes INTEGER NOT NULL,
  body_at INTEGER,
  PRIMARY KEY (queue, id)
) WITHOUT ROWID)"},
    Made{"topic", R"(CREATE TABLE topic (
  topic TEXT PRIMARY KEY,
  retain_ms INTEGER NOT NULL
) WITHOUT ROWID)"},
    Made{"subscription", R"(CREATE TABLE subscription (
  queue INTEGER PRIMARY KEY,
  pattern TEXT NOT NULL
))"},
    Made{"retained", R"(CREATE TABLE retained (
  topic TEXT NOT NULL,
  id INTEGER NOT NULL,  -- of the publication, and of its body
  at INTEGER NOT NULL,
  key BLOB,
  priority INTEGER NOT NULL,
  ttl_ms INTEGER,
  headers BLOB,  -- as in message
  body_bytes INTEGER NOT NULL,
  PRIMARY KEY (topic, id)
) WITHOUT ROWID)"},
    Made{"instance", R"(CREATE TABLE instance (
  queue INTEGER NOT NULL,
  key BLOB NOT NULL,
  instance INTEGER NOT NULL,
  first_execution INTEGER NOT NULL,  -- those before were removed
  execution INTEGER NOT NULL,  -- the last one, of which the rest speaks
  length INTEGER NOT NULL,
  first_event INTEGER NOT NULL,  -- those before were trimmed
  label TEXT NOT NULL,
  outcome TEXT,  -- NULL: open
  opened_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID)"},
    Made{"open", R"(CREATE TABLE open (  -- instances whose last execution is open
  queue INTEGER NOT NULL,
  key BLOB NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID)"},
    Made{"execution", R"(CREATE TABLE execution (  -- those before the last
  instance INTEGER NOT NULL,
  number INTEGER NOT NULL,
  first_execution INTEGER NOT NULL,
  length INTEGER NOT NULL,
  first_event INTEGER NOT NULL,
  label TEXT NOT NULL,
  outcome TEXT,
  opened_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (instance, number)
) WITHOUT ROWID)"},
    Made{"event", R"(CREATE TABLE event (
  instance INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  number INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY (instance, execution, number)
) WITHOUT ROWID)"},
    Made{"record", R"(CREATE TABLE record (
  space BLOB NOT NULL,
  key BLOB NOT NULL,
  version INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (space, key)
) WITHOUT ROWID)"},
    Made{"pin", R"(CREATE TABLE pin (  -- dead letters that share a body
  body INTEGER NOT NULL,
  message INTEGER NOT NULL,
  PRIMARY KEY (body, message)
) WITHOUT ROWID)"},
    Made{"queue_name", R"(CREATE TABLE queue_name (
  name TEXT PRIMARY KEY,
  queue INTEGER NOT NULL
) WITHOUT ROWID)"},
    Made{"messages", R"(CREATE VIEW messages AS  -- those that live, for people
  SELECT m.id, q.name AS queue, CAST(m.key AS TEXT) AS key, m.priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', m.enqueued_at / 1000.0, 'unixepoch') AS enqueued_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', m.due / 1000.0, 'unixepoch') AS due,
    strftime('%Y-%m-%dT%H:%M:%fZ', m.expires_at / 1000.0, 'unixepoch') AS expires_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.not_before / 1000.0, 'unixepoch') AS not_before,
    coalesce(s.attempts, 0) AS attempts, s.failures, CAST(m.name AS TEXT) AS name, m.label,
    m.topic, m.headers, CAST(coalesce(m.body, b.body) AS TEXT) AS body
  FROM message m LEFT JOIN queue q ON q.id = m.queue LEFT JOIN state s ON s.id = m.id
    LEFT JOIN body b ON b.id = m.body_at)"},
    Made{"dead_letters", R"(CREATE VIEW dead_letters AS
  SELECT d.id, q.name AS queue, CAST(d.key AS TEXT) AS key,
    strftime('%Y-%m-%dT%H:%M:%fZ', d.dead_at / 1000.0, 'unixepoch') AS dead_at,
    CAST(d.reason AS TEXT) AS reason, d.attempts, d.deliveries, d.failures,
    strftime('%Y-%m-%dT%H:%M:%fZ', d.enqueued_at / 1000.0, 'unixepoch') AS enqueued_at,
    CAST(d.name AS TEXT) AS name, d.label, d.topic, d.headers,
    CAST(coalesce(d.body, b.body) AS TEXT) AS body
  FROM dead d LEFT JOIN queue q ON q.id = d.queue LEFT JOIN body b ON b.id = d.body_at)"},
    Made{"leases", R"(CREATE VIEW leases AS
  SELECT l.epoch, q.name AS queue, CAST(l.key AS TEXT) AS key,
    strftime('%Y-%m-%dT%H:%M:%fZ', l.expires_at / 1000.0, 'unixepoch') AS expires_at,
    l.isolated, coalesce(l.messages, '[]') AS messages
  FROM lease l LEFT JOIN queue q ON q.id = l.queue)"},
};

// All tables and views that the file has, with the SQL that made them.
Result<std::map<std::string, std::string>> found_schema(Connection& connection) {
  std::map<std::string, std::string> found;
  auto read =
      connection.query("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL", [&](Row& row) {
        std::string name(row.text());
        found.emplace(std::move(name), row.text());
      });
  if (!read) return std::unexpected(std::move(read).error());
  return found;
}

Result<std::int64_t> pragma(Connection& connection, std::string_view name) {
  std::int64_t value = 0;
  auto read =
      connection.query(fmt::format("PRAGMA {}", name), [&](Row& row) { value = row.integer(); });
  if (!read) return std::unexpected(std::move(read).error());
  return value;
}

}  // namespace

Result<Contents> look_inside(Connection& connection) {
  const std::string path = base::printable(connection.path().native());
  const auto application = pragma(connection, "application_id");
  if (!application) return std::unexpected(application.error());
  const auto version = pragma(connection, "user_version");
  if (!version) return std::unexpected(version.error());
  const auto found = found_schema(connection);
  if (!found) return std::unexpected(found.error());

  if (*application == 0 && *version == 0 && found->empty()) return Contents::nothing;
  if (*application != application_id) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is the SQLite database of another program; name another path, "
                               "nothing in it was changed",
                               path));
  }
  if (*version != format_version) {
    return failure(Errc::unsupported,
                   fmt::format("{} has format {}, and this version of Strand knows format {}: "
                               "use the version of Strand that wrote it, or a newer one",
                               path, *version, format_version));
  }
  int reserved = -1;
  sqlite3_file_control(connection.handle(), nullptr, SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  if (reserved != PageChecksums::reserved_bytes) {
    return failure(Errc::corrupt,
                   fmt::format("the header of {} does not say that its pages have checksums: "
                               "restore a backup of the store",
                               path));
  }
  for (const Made& made : made_tables) {
    const auto entry = found->find(std::string(made.name));
    if (entry != found->end() && entry->second == made.sql) continue;
    return failure(Errc::corrupt,
                   fmt::format("the table or view \"{}\" in {} {}: restore a backup of the store, "
                               "or run `strand check --repair` on a copy",
                               made.name, path,
                               entry == found->end() ? "is missing" : "is not as Strand made it"));
  }
  return Contents::store;
}

Result<void> create_schema(Connection& connection) {
  std::string sql = "BEGIN IMMEDIATE;";
  for (const Made& made : made_tables)
    sql.append(made.sql).append(";");
  sql += fmt::format("PRAGMA application_id={};PRAGMA user_version={};COMMIT", application_id,
                     format_version);
  auto made = connection.run(sql);
  if (!made) connection.roll_back();
  return made;
}

}  // namespace strand::sqlite
