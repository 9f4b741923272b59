#include <chrono>
#include <exception>
#include <filesystem>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <libpq-fe.h>

#include "child.h"
#include "peers_made.h"
#include "postgres/server.h"
#include "pq/wire.h"

// A table of PostgreSQL as a queue: what is sent is inserted by one statement, what is taken is
// deleted by one, past rows that others hold (SKIP LOCKED). Each is a transaction of its own, which
// is synced before its answer.

namespace strand::bench {

namespace {

using postgres::ResultHandle;

class PostgresConnection {
 public:
  explicit PostgresConnection(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
  }

  void run(const std::string& sql) {
    checked(PQexec(connection_.get(), sql.c_str()), PGRES_COMMAND_OK);
  }
  void prepare(const std::string& name, const std::string& sql) {
    checked(PQprepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr), PGRES_COMMAND_OK);
  }
  // With a parameter, or none; both ways in binary.
  ResultHandle run_prepared(const std::string& name, const std::string* parameter,
                            ExecStatusType wanted) {
    const char* value = parameter != nullptr ? parameter->data() : nullptr;
    const int length = parameter != nullptr ? static_cast<int>(parameter->size()) : 0;
    const int binary = 1;
    return checked(PQexecPrepared(connection_.get(), name.c_str(), parameter != nullptr ? 1 : 0,
                                  &value, &length, &binary, binary),
                   wanted);
  }

 private:
  ResultHandle checked(PGresult* result, ExecStatusType wanted) {
    ResultHandle handle(result);
    if (PQresultStatus(result) != wanted) fail();
    return handle;
  }
  [[noreturn]] void fail() {
    give_up(fmt::format("postgres: {}", PQerrorMessage(connection_.get())));
  }

  postgres::Handle connection_;
};

void append_number(std::string& bytes, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(number >> shift);
}

// As PostgreSQL reads a bytea[] in binary: dimensions, flags, the type of its elements, its length
// and first index, then each element behind its length.
std::string array_of_bodies(std::size_t count) {
  constexpr std::size_t bytea_type = 17;
  std::string bytes;
  for (const std::size_t number :
       {std::size_t{1}, std::size_t{0}, bytea_type, count, std::size_t{1}})
    append_number(bytes, number);
  for (std::size_t i = 0; i < count; ++i) {
    append_number(bytes, body_bytes);
    bytes.append(body_bytes, 'x');
  }
  return bytes;
}

class PostgresClient final : public QueueClient {
 public:
  PostgresClient(const std::string& url, std::string table)
      : postgres_(url), table_(std::move(table)) {
    // The table has no statistics yet: without this, the planner may read all of it.
    postgres_.run("SET enable_seqscan = off");
    postgres_.prepare("one", fmt::format("INSERT INTO {} (body) VALUES ($1::bytea)", table_));
    postgres_.prepare("many",
                      fmt::format("INSERT INTO {} (body) SELECT unnest($1::bytea[])", table_));
  }

  void send(std::size_t count) override {
    if (count != sends_)
      parameter_ = count == 1 ? std::string(body_bytes, 'x') : array_of_bodies(count);
    sends_ = count;
    const ResultHandle result =
        postgres_.run_prepared(count == 1 ? "one" : "many", &parameter_, PGRES_COMMAND_OK);
    if (PQcmdTuples(result.get()) != std::to_string(count))
      give_up("postgres did not insert all messages");
  }

  std::size_t receive(std::size_t count) override {
    if (count != takes_) {
      take_ = fmt::format("take-{}", count);
      postgres_.prepare(
          take_, fmt::format("DELETE FROM {0} WHERE id = ANY(ARRAY(SELECT id FROM {0} ORDER BY id "
                             "LIMIT {1} FOR UPDATE SKIP LOCKED)) RETURNING body",
                             table_, count));
    }
    takes_ = count;
    const ResultHandle result = postgres_.run_prepared(take_, nullptr, PGRES_TUPLES_OK);
    const int got = PQntuples(result.get());
    for (int i = 0; i < got; ++i) {
      if (PQgetlength(result.get(), i, 0) != body_bytes) give_up("postgres returned another body");
    }
    if (got == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return static_cast<std::size_t>(got);
  }

 private:
  PostgresConnection postgres_;
  std::string table_;
  std::size_t sends_ = 0;  // that parameter_ is made for
  std::string parameter_;
  std::size_t takes_ = 0;  // that take_ is prepared for
  std::string take_;
};

postgres::ServerOptions server_options() {
  return {.durable = true,
          .parent = std::filesystem::current_path(),
          .settings = {{"synchronous_commit", "on"},
                       {"shared_buffers", "256MB"},
                       {"max_wal_size", "2GB"},
                       {"max_connections", "100"}}};
}

class Postgres final : public Contender {
 public:
  Postgres() : server_(server_options()), url_(server_.fresh_database()) {}

  [[nodiscard]] std::string name() const override { return "PostgreSQL"; }

  void begin_round() override {
    PostgresConnection postgres(url_);
    if (!table_.empty()) postgres.run("DROP TABLE " + table_);
    table_ = fmt::format("bench_{}", ++rounds_);
    postgres.run(
        fmt::format("CREATE TABLE {} (id bigserial PRIMARY KEY, body bytea NOT NULL)", table_));
  }

  [[nodiscard]] std::unique_ptr<QueueClient> connect() override {
    return std::make_unique<PostgresClient>(url_, table_);
  }

 private:
  postgres::TestServer server_;
  std::string url_;
  std::string table_;
  int rounds_ = 0;
};

}  // namespace

std::unique_ptr<Contender> postgres_table() {
  try {
    return std::make_unique<Postgres>();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

}  // namespace strand::bench
