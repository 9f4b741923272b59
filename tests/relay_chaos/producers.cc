#include "relay_chaos/producers.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace strand::relay_chaos {
namespace {

using namespace std::chrono_literals;

// Hot ones, so that transactions meet.
constexpr int entities = 150;

// chaos_number() runs at the end of a transaction: the lock of the counter is kept until the
// commit, so that numbers of one entity are in commit order, whatever the ids of the outbox are.
constexpr const char* record_sql = R"(
CREATE TABLE chaos_counters (entity text PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE chaos_rows (id text PRIMARY KEY, entity text NOT NULL, n bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE INDEX ON chaos_rows (xid);
CREATE FUNCTION chaos_number() RETURNS void LANGUAGE plpgsql AS $$
DECLARE one record; number bigint;
BEGIN
  FOR one IN SELECT id, entity FROM chaos_rows WHERE xid = pg_current_xact_id() ORDER BY entity, id::bigint LOOP
    INSERT INTO chaos_counters VALUES (one.entity, 1)
      ON CONFLICT (entity) DO UPDATE SET n = chaos_counters.n + 1 RETURNING n INTO number;
    UPDATE chaos_rows SET n = number WHERE id = one.id;
  END LOOP;
END $$;
)";

// $1 is the entity, $2 how many rows.
constexpr const char* insert_sql =
    "WITH made AS (INSERT INTO outbox (aggregatetype, aggregateid, type, payload) "
    "SELECT 'chaos', $1, 'Happened', jsonb_build_object('i', i) FROM generate_series(1, $2) i "
    "RETURNING id) INSERT INTO chaos_rows (id, entity) SELECT id::text, $1 FROM made";

}  // namespace

Producers::Producers(std::string url, std::uint64_t seed) : url_(std::move(url)), random_(seed) {
  if (const auto made = connect()->script(record_sql); !made) {
    throw std::runtime_error("the record of the producers: " + made.error().message);
  }
}

Producers::~Producers() { stop(); }

std::unique_ptr<postgres::Connection> Producers::connect() const {
  auto opened = postgres::Connection::open(url_ + "?application_name=chaos-producer");
  if (!opened) throw std::runtime_error(opened.error().message);
  return std::move(*opened);
}

postgres::Rows Producers::ask(const std::string& sql) const {
  auto result = connect()->run(postgres::Group{{sql, {}}});
  if (!result) throw std::runtime_error(sql + ": " + result.error().message);
  return std::move(result->front());
}

void Producers::insert_backlog(int rows) {
  postgres::Group group;
  for (int left = rows, i = 0; left > 0; ++i) {
    const auto count = static_cast<std::int32_t>(random_.between(1, 10));
    // Keys that come in no order.
    const std::string entity = fmt::format("{:06x}-{}", random_.below(1U << 24U), i);
    group.push_back({insert_sql, postgres::Params().text(entity).int4(count)});
    left -= count;
  }
  group.push_back({"SELECT chaos_number()", {}});
  if (const auto done = connect()->run(group); !done) {
    throw std::runtime_error("the backlog: " + done.error().message);
  }
}

void Producers::start(int threads, int rows_per_s) {
  stopping_ = false;
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, random = random_.fork(static_cast<std::uint64_t>(i)),
                           share = rows_per_s / threads] { run(random, share); });
  }
}

void Producers::stop() {
  stopping_ = true;
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

// A server that is away, a deadlock, a commit of unknown outcome: what counts is in the record,
// which is written in the same transaction.
void Producers::run(sim::Random random, int rows_per_s) {
  std::unique_ptr<postgres::Connection> connection;
  auto due = std::chrono::steady_clock::now();
  while (!stopping_) {
    if (!connection || !connection->usable()) {
      auto opened = postgres::Connection::open(url_ + "?application_name=chaos-producer");
      if (!opened) {
        std::this_thread::sleep_for(20ms);
        continue;
      }
      connection = std::move(*opened);
    }
    postgres::Group group;
    std::int64_t rows = 0;
    // In the order of their names: otherwise two transactions could wait for each other.
    std::int64_t entity = random.between(0, entities - 1);
    for (int parts = random.one_in(4) ? 2 : 1; parts > 0 && entity < entities; --parts) {
      const auto count = static_cast<std::int32_t>(random.between(1, 10));
      group.push_back(
          {insert_sql, postgres::Params().text(fmt::format("hot-{:04}", entity)).int4(count)});
      rows += count;
      entity += random.between(1, 20);
    }
    group.push_back({"SELECT pg_sleep($1::float8 / 1000)",
                     postgres::Params().int8(random.one_in(3) ? 0 : random.between(1, 30))});
    group.push_back({"SELECT chaos_number()", {}});
    std::ignore = connection->run(group);
    due += std::chrono::microseconds(rows * 1'000'000 / rows_per_s);
    std::this_thread::sleep_until(due);
    due = std::max(due, std::chrono::steady_clock::now() - 500ms);
  }
}

std::vector<relay::ExpectedRow> Producers::rows() {
  const postgres::Rows found =
      ask("SELECT r.id, r.entity, r.n, o.sent_at IS NOT NULL FROM chaos_rows r LEFT JOIN outbox o "
          "ON o.id = "
          "r.id::bigint ORDER BY r.entity, r.n");
  std::vector<relay::ExpectedRow> rows;
  for (std::size_t i = 0; i < found.size(); ++i) {
    rows.push_back({.id = std::string(found.bytes(i, 0)),
                    .entity = std::string(found.bytes(i, 1)),
                    .order = found.int8(i, 2),
                    .sent = found.boolean(i, 3)});
  }
  return rows;
}

std::uint64_t Producers::waiting() {
  return static_cast<std::uint64_t>(
      ask("SELECT count(*) FROM outbox WHERE sent_at IS NULL").int8(0, 0));
}

}  // namespace strand::relay_chaos
