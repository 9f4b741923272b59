#include "cli/bench/postgres_baseline.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "pq/connection.h"
#include "store/postgres/answers.h"

namespace strand::cli {

namespace {

using postgres::Connection;
using postgres::Group;
using postgres::Statement;

using MaybeBytes = std::optional<std::string_view>;

Result<std::unique_ptr<Connection>> connect(const std::string& conninfo,
                                            const std::string& script) {
  auto connection = Connection::open(conninfo);
  if (!connection) return std::unexpected(connection.error());
  if (auto done = (*connection)->script(script); !done) {
    return std::unexpected(postgres::error_of(done.error(), "setting up the baseline"));
  }
  return connection;
}

}  // namespace

PostgresBaseline::PostgresBaseline(std::string conninfo)
    : conninfo_(std::move(conninfo)), schema_(fmt::format("strand_baseline_{}", ::getpid())) {}

Result<std::unique_ptr<PostgresBaseline>> PostgresBaseline::open(const std::string& conninfo) {
  std::unique_ptr<PostgresBaseline> baseline(new PostgresBaseline(conninfo));
  const auto made = connect(
      conninfo,
      fmt::format("create schema {0}; create table {0}.jobs (id bigserial primary key, status text "
                  "not null default 'new', body bytea not null, locked_at timestamptz); create "
                  "index on {0}.jobs (id) where status = 'new'; create table {0}.one (n int)",
                  baseline->schema_));
  if (!made) return std::unexpected(made.error());
  return baseline;
}

PostgresBaseline::~PostgresBaseline() {
  const auto dropped = connect(conninfo_, fmt::format("set client_min_messages = warning; drop "
                                                      "schema if exists {} cascade",
                                                      schema_));
  static_cast<void>(dropped);
}

Result<double> PostgresBaseline::commit_ms() {
  auto connection = connect(conninfo_, fmt::format("set search_path = {}", schema_));
  if (!connection) return std::unexpected(connection.error());
  std::vector<double> ms;
  for (int i = 0; i < 200; ++i) {
    const auto begin = Stopwatch::now();
    const auto done = (*connection)->run(Group{Statement{.sql = "insert into one values (1)"}});
    if (!done) return std::unexpected(postgres::error_of(done.error(), "the baseline"));
    ms.push_back(seconds_since(begin) * 1e3);
  }
  return median(ms);
}

Result<Counted> PostgresBaseline::cycle(const QueueBenchOptions& options, Duration duration) {
  const unsigned threads = options.producers + options.consumers;
  std::vector<std::unique_ptr<Connection>> connections;
  for (unsigned i = 0; i < threads; ++i) {
    auto made = connect(conninfo_, fmt::format("set search_path = {}", schema_));
    if (!made) return std::unexpected(made.error());
    connections.push_back(std::move(*made));
  }
  const std::string body(options.size_bytes, 'x');
  const std::vector<MaybeBytes> bodies(options.batch, MaybeBytes(body));
  const std::uint64_t ahead_max = std::uint64_t{20} * options.batch * threads;
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> acked = 0;
  const auto produce = [&](Connection& connection) -> Result<std::uint64_t> {
    if (sent - acked >= ahead_max) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return 0;
    }
    sent += options.batch;
    Statement insert{.sql = "insert into jobs (body) select unnest($1)"};
    insert.params.byteas(bodies);
    const auto done = connection.run(Group{std::move(insert)});
    if (!done) return std::unexpected(postgres::error_of(done.error(), "the baseline"));
    return 0;
  };
  const auto consume = [&](Connection& connection) -> Result<std::uint64_t> {
    Statement claim{
        .sql =
            "update jobs set status = 'processing', locked_at = now() where id in (select id "
            "from jobs where status = 'new' order by id limit $1 for update skip locked) "
            "returning id, body"};
    claim.params.int8(static_cast<std::int64_t>(options.batch));
    const auto claimed = connection.run(Group{std::move(claim)});
    if (!claimed) return std::unexpected(postgres::error_of(claimed.error(), "the baseline"));
    const postgres::Rows& rows = claimed->front();
    if (rows.empty()) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return 0;
    }
    std::vector<std::int64_t> ids;
    for (std::size_t row = 0; row < rows.size(); ++row)
      ids.push_back(rows.int8(row, 0));
    Statement ack{.sql = "delete from jobs where id = any ($1)"};
    ack.params.int8s(std::span<const std::int64_t>(ids));
    const auto done = connection.run(Group{std::move(ack)});
    if (!done) return std::unexpected(postgres::error_of(done.error(), "the baseline"));
    acked += ids.size();
    return ids.size();
  };
  return run_threads(threads, duration, [&](unsigned thread) {
    return thread < options.producers ? produce(*connections[thread])
                                      : consume(*connections[thread]);
  });
}

}  // namespace strand::cli
