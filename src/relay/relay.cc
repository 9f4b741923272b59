#include "relay/relay.h"

#include <array>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/alarm.h"
#include "pq/connection.h"
#include "pq/listener.h"
#include "pq/pooler.h"
#include "relay/worker.h"

namespace strand::relay {

using postgres::Connection;
using postgres::Group;
using postgres::Statement;

namespace {

constexpr Duration housekeeping_every = std::chrono::seconds{10};
constexpr std::size_t forget_rows_max = 1000;

std::string host_name() {
  constexpr std::size_t name_max = 256;
  std::array<char, name_max> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string fresh_process_name() {
  return fmt::format("{}:{}:{:08x}", host_name(), ::getpid(), std::random_device{}());
}

Result<void> check_own_tables(Connection& connection, const OwnTables& own) {
  for (const std::string* table :
       {&own.epochs, &own.workers, &own.claims, &own.shards, &own.trouble}) {
    Statement statement{.sql = "SELECT to_regclass($1) IS NOT NULL"};
    statement.params.text(*table);
    const auto answer = connection.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "looking for " + *table));
    if (!answer->front().boolean(0, 0)) {
      return failure(Errc::not_found, fmt::format("there is no {}: run strand relay init", *table));
    }
  }
  return {};
}

}  // namespace

struct Relay::Shared {
  Config config;
  RelayOptions options;
  std::unique_ptr<Trace> trace;
  postgres::StopSignal hurry;
  std::mutex log_mutex;

  void log(std::string_view line) {
    const std::lock_guard lock(log_mutex);
    options.log(line);
  }
};

// The workers of one table, what wakes them, and what is done beside them.
class Relay::Table {
 public:
  Table(Shared& shared, Outbox outbox)
      : shared_(shared),
        outbox_(std::move(outbox)),
        crew_{.outbox = outbox_,
              .conninfo = shared.config.conninfo,
              .wakeups = wakeups_,
              .counters = counters_,
              .trace = shared.trace.get(),
              .hurry = shared.hurry,
              .log = [&shared](std::string_view line) { shared.log(line); }} {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    stop();
    join();
  }

  Result<void> start() {
    const TableSettings& settings = outbox_.settings();
    std::vector<std::unique_ptr<Sink>> sinks;
    for (std::uint32_t i = 0; i < settings.workers; ++i) {
      auto sink = make_sink();
      if (!sink) return std::unexpected(sink.error());
      sinks.push_back(std::move(*sink));
    }
    for (std::uint32_t i = 0; i < settings.workers; ++i) {
      const Owner owner{.process = shared_.options.process,
                        .host = host_name(),
                        .pid = static_cast<std::int32_t>(::getpid()),
                        .worker = i};
      workers_.push_back(std::make_unique<Worker>(crew_, owner, std::move(sinks[i])));
      threads_.emplace_back([worker = workers_.back().get()] { worker->run(); });
    }
    housekeeper_ = std::thread([this] { keep_house(); });
    if (settings.notify) {
      const auto wake = [this] {
        outbox_.settings().strategy == Strategy::shards ? wakeups_.all() : wakeups_.one();
      };
      listener_.emplace(
          postgres::ListenerOptions{.conninfo = shared_.config.conninfo,
                                    .channel = settings.channel},
          [wake](std::string_view) { wake(); }, [this] { wakeups_.all(); });
    }
    return {};
  }

  void stop() {
    wakeups_.stop();
    alarm_.stop();
  }

  void join() {
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
    if (housekeeper_.joinable()) housekeeper_.join();
    listener_.reset();
  }

  Result<bool> empty() {
    auto connection = Connection::open(shared_.config.conninfo);
    if (!connection) return std::unexpected(connection.error());
    Statement statement{
        .sql =
            fmt::format("SELECT NOT EXISTS (SELECT FROM {} WHERE {} AND NOT EXISTS (SELECT FROM "
                        "{} x WHERE x.relay = $1 AND x.entity = {}::text))",
                        outbox_.table(), outbox_.waiting(), outbox_.own().trouble, outbox_.key())};
    statement.params.text(outbox_.settings().full_name());
    const auto answer = (*connection)->run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "looking for rows"));
    return answer->front().boolean(0, 0);
  }

  [[nodiscard]] std::vector<Metric> metrics() const {
    return counters_.metrics(outbox_.settings().name);
  }

 private:
  Result<std::unique_ptr<Sink>> make_sink() {
    if (shared_.options.sink == SinkKind::standard_output) return make_stdout_sink();
    return make_kafka_sink(outbox_.settings(), shared_.config.kafka, "strand-relay");
  }

  // Deletes rows that were sent long ago, and workers that are long gone.
  void keep_house() {
    while (alarm_.sleep(housekeeping_every)) {
      auto connection = Connection::open(shared_.config.conninfo, std::chrono::seconds{10},
                                         shared_.hurry.descriptor());
      if (!connection) continue;
      std::ignore = (*connection)->script(session_script());
      Source source(outbox_, **connection);
      while (!wakeups_.stopped()) {
        const auto forgotten = source.forget_sent(forget_rows_max);
        if (!forgotten) shared_.log(forgotten.error().message);
        if (!forgotten || *forgotten < forget_rows_max) break;
      }
      std::ignore =
          (*connection)
              ->script(fmt::format("DELETE FROM {} WHERE until < now() - interval '1 day'",
                                   outbox_.own().workers));
    }
  }

  Shared& shared_;
  Outbox outbox_;
  Wakeups wakeups_;
  Counters counters_;
  base::Alarm alarm_;
  Crew crew_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  std::thread housekeeper_;
  std::optional<postgres::Listener> listener_;
};

Relay::Relay(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Relay::~Relay() { stop(); }

Result<std::unique_ptr<Relay>> Relay::start(Config config, RelayOptions options) {
  auto shared = std::make_unique<Shared>();
  shared->config = std::move(config);
  shared->options = std::move(options);
  if (shared->options.process.empty()) shared->options.process = fresh_process_name();
  if (!shared->options.trace_file.empty()) {
    auto trace = Trace::open(shared->options.trace_file, shared->options.process);
    if (!trace) return std::unexpected(trace.error());
    shared->trace = std::move(*trace);
  }
  auto connection = Connection::open(shared->config.conninfo);
  if (!connection) return std::unexpected(connection.error());
  if (auto direct = postgres::check_pooler(**connection, shared->config.conninfo); !direct) {
    return std::unexpected(direct.error());
  }
  const OwnTables own(shared->config.own_schema);
  if (auto there = check_own_tables(**connection, own); !there) {
    return std::unexpected(there.error());
  }
  std::unique_ptr<Relay> relay(new Relay(std::move(shared)));
  for (const TableSettings& settings : relay->shared_->config.tables) {
    auto outbox = Outbox::describe(**connection, settings, own);
    if (!outbox) return std::unexpected(outbox.error());
    relay->tables_.push_back(std::make_unique<Table>(*relay->shared_, std::move(*outbox)));
    if (auto started = relay->tables_.back()->start(); !started) {
      return std::unexpected(started.error());
    }
  }
  return relay;
}

void Relay::stop() {
  for (const auto& table : tables_)
    table->stop();
  // Behind it, so that who cannot connect because of it knows why.
  shared_->hurry.give();
  for (const auto& table : tables_)
    table->join();
}

Result<bool> Relay::empty() {
  for (const auto& table : tables_) {
    const auto empty = table->empty();
    if (!empty || !*empty) return empty;
  }
  return true;
}

std::vector<Metric> Relay::metrics() const {
  std::vector<Metric> metrics;
  for (const auto& table : tables_)
    for (Metric& metric : table->metrics())
      metrics.push_back(std::move(metric));
  return metrics;
}

const std::string& Relay::process() const { return shared_->options.process; }

Result<void> dry_run(const Config& config, const std::function<void(std::string_view)>& print) {
  auto connection = Connection::open(config.conninfo);
  if (!connection) return std::unexpected(connection.error());
  const OwnTables own(config.own_schema);
  if (auto there = check_own_tables(**connection, own); !there) return there;
  for (const TableSettings& settings : config.tables) {
    const auto outbox = Outbox::describe(**connection, settings, own);
    if (!outbox) return std::unexpected(outbox.error());
    const auto rows = Source(*outbox, **connection).peek();
    if (!rows) return std::unexpected(rows.error());
    for (const Row& row : *rows) {
      const auto message = make_message(settings, row);
      print(message ? to_json_line(*message)
                    : to_json_line(make_dead_letter(settings, row, message.error().message)));
    }
  }
  return {};
}

}  // namespace strand::relay
