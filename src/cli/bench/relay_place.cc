#include "cli/bench/relay_place.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "relay/outbox.h"

namespace strand::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t rows_at_once = 1000;
constexpr std::uint64_t sent_at_once = 250'000;
constexpr int partitions = 8;
constexpr int kafka_ms = 30'000;

struct Client {
  explicit Client(const std::string& servers) {
    std::array<char, 256> reason{};
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", servers.c_str(), reason.data(), reason.size());
    handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason.data(), reason.size());
    if (handle == nullptr) rd_kafka_conf_destroy(conf);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (handle != nullptr) rd_kafka_destroy(handle);
  }
  rd_kafka_t* handle = nullptr;
};

Result<void> create_topic(const std::string& servers, const std::string& name) {
  const Client client(servers);
  if (client.handle == nullptr) return failure(Errc::invalid_argument, "no client of Kafka");
  std::array<char, 256> reason{};
  rd_kafka_NewTopic_t* topic =
      rd_kafka_NewTopic_new(name.c_str(), partitions, -1, reason.data(), reason.size());
  rd_kafka_queue_t* queue = rd_kafka_queue_new(client.handle);
  rd_kafka_CreateTopics(client.handle, &topic, 1, nullptr, queue);
  rd_kafka_event_t* event = rd_kafka_queue_poll(queue, kafka_ms);
  Result<void> made = failure(Errc::unavailable, "Kafka does not answer at " + servers);
  if (event != nullptr && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    std::size_t count = 0;
    const auto* results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    const auto error = rd_kafka_topic_result_error(results[0]);
    made = error == RD_KAFKA_RESP_ERR_NO_ERROR
               ? Result<void>{}
               : failure(Errc::unavailable,
                         fmt::format("topic {}: {}", name, rd_kafka_err2str(error)));
  }
  if (event != nullptr) rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(queue);
  rd_kafka_NewTopic_destroy(topic);
  return made;
}

void delete_topics(const std::string& servers, const std::vector<std::string>& names) {
  const Client client(servers);
  if (client.handle == nullptr || names.empty()) return;
  std::vector<rd_kafka_DeleteTopic_t*> topics;
  for (const std::string& name : names)
    topics.push_back(rd_kafka_DeleteTopic_new(name.c_str()));
  rd_kafka_queue_t* queue = rd_kafka_queue_new(client.handle);
  rd_kafka_DeleteTopics(client.handle, topics.data(), topics.size(), nullptr, queue);
  if (rd_kafka_event_t* event = rd_kafka_queue_poll(queue, kafka_ms)) rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(queue);
  rd_kafka_DeleteTopic_destroy_array(topics.data(), topics.size());
}

Result<pid_t> spawn_self(const std::vector<std::string>& arguments) {
  std::vector<const char*> words{"strand"};
  for (const std::string& argument : arguments)
    words.push_back(argument.c_str());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // What it says of itself is not the benchmark's output.
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  const int error = ::posix_spawn(&process, "/proc/self/exe", &actions, nullptr,
                                  const_cast<char* const*>(words.data()), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return failure(Errc::io_error, fmt::format("cannot start this program again: {}",
                                               std::generic_category().message(error)));
  }
  return process;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

RelayPlace::RelayPlace(const RelayBenchOptions& options,
                       std::unique_ptr<postgres::Connection> connection, std::string_view suffix)
    : options_(options),
      connection_(std::move(connection)),
      schema_(fmt::format("strand_bench_{}{}", ::getpid(), suffix)) {}

Result<std::unique_ptr<RelayPlace>> RelayPlace::open(const RelayBenchOptions& options,
                                                     std::string_view suffix) {
  auto connection = postgres::Connection::open(options.database);
  if (!connection) return std::unexpected(connection.error());
  std::unique_ptr<RelayPlace> place(new RelayPlace(options, std::move(*connection), suffix));
  std::string name = fs::temp_directory_path() / "strand-bench-relay-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    return failure(Errc::io_error, "cannot make the folder " + name);
  }
  place->folder_ = name;
  return place;
}

RelayPlace::~RelayPlace() {
  std::ignore =
      run_script(fmt::format("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {} "
                             "CASCADE",
                             schema_));
  delete_topics(options_.kafka, topics_);
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<void> RelayPlace::run_script(const std::string& sql) {
  if (auto done = connection_->script(sql); !done) {
    return std::unexpected(relay::error_of(done.error(), "setting up the benchmark"));
  }
  return {};
}

Result<void> RelayPlace::make_topic() {
  std::string name = fmt::format("{}-{}", schema_, topics_.size());
  auto made = create_topic(options_.kafka, name);
  if (made) topics_.push_back(std::move(name));
  return made;
}

void RelayPlace::write_config(std::string_view strategy) const {
  // A text of TOML in single quotes stands for itself.
  std::ofstream(config()) << fmt::format(
      "[database]\nurl = '{}'\nschema = '{}'\n\n[kafka]\n'bootstrap.servers' = '{}'\n\n"
      "[relay]\nstrategy = '{}'\nworkers = {}\n\n[tables.outbox]\ntable = '{}.outbox'\ntopic = "
      "'{}'\n",
      options_.database, schema_, options_.kafka, strategy, options_.workers, schema_, topic());
  fs::permissions(config(), fs::perms::owner_read | fs::perms::owner_write);
}

Result<void> RelayPlace::make_outbox(std::string_view strategy) {
  std::error_code ignored;
  fs::remove(trace(), ignored);
  if (auto made = make_topic(); !made) return made;
  if (auto made = run_script(fmt::format(
          "SET client_min_messages = warning; DROP SCHEMA IF EXISTS {0} CASCADE; CREATE SCHEMA {0}",
          schema_));
      !made) {
    return made;
  }
  write_config(strategy);
  return run_self({"relay", "init", "--config", config(), "--apply"});
}

Result<void> RelayPlace::fill(std::uint64_t rows) {
  // Entities of 1, 2, ... 10 rows; numbers that are spread, so that entities are mixed.
  for (std::uint64_t first = 0; first < rows; first += rows_at_once) {
    const auto filled = run_script(fmt::format(
        "INSERT INTO {0}.outbox (aggregatetype, aggregateid, type, payload) SELECT 'bench', "
        "'entity-{1}-' || (i / 55 * 10 + floor((sqrt(8 * (i % 55) + 1) - 1) / 2)), 'Happened', "
        "jsonb_build_object('row', i, 'text', repeat('x', 80)) "
        "FROM (SELECT i FROM generate_series(0, {2}) i ORDER BY hashint4(i)) mixed",
        schema_, first, std::min(rows_at_once, rows - first) - 1));
    if (!filled) return filled;
  }
  return run_script(fmt::format("ANALYZE {}.outbox", schema_));
}

Result<void> RelayPlace::fill_sent(std::uint64_t rows) {
  if (auto off = run_script(fmt::format("ALTER TABLE {}.outbox DISABLE TRIGGER USER", schema_));
      !off) {
    return off;
  }
  for (std::uint64_t first = 0; first < rows; first += sent_at_once) {
    const auto filled = run_script(fmt::format(
        "INSERT INTO {0}.outbox (aggregatetype, aggregateid, type, payload, sent_at) SELECT "
        "'bench', 'entity-' || i / 5, 'Happened', jsonb_build_object('row', i), now() "
        "FROM generate_series({1}, {2}) i",
        schema_, first, std::min(first + sent_at_once, rows) - 1));
    if (!filled) return filled;
  }
  return run_script(fmt::format("ALTER TABLE {}.outbox ENABLE TRIGGER USER", schema_));
}

Result<bool> RelayPlace::anything_waits() {
  const auto rows = connection_->run(postgres::Group{
      {.sql = fmt::format("SELECT 1 FROM {}.outbox WHERE sent_at IS NULL LIMIT 1", schema_)}});
  if (!rows) return std::unexpected(relay::error_of(rows.error(), "looking at the outbox"));
  return !rows->front().empty();
}

RelayProcesses::~RelayProcesses() {
  for (const pid_t process : running_) {
    ::kill(process, SIGKILL);
    wait_for(process);
  }
}

Result<void> RelayProcesses::start(const std::vector<std::string>& arguments) {
  const auto process = spawn_self(arguments);
  if (!process) return std::unexpected(process.error());
  running_.push_back(*process);
  return {};
}

Result<void> RelayProcesses::look() {
  for (const pid_t process : running_) {
    if (::waitpid(process, nullptr, WNOHANG) == 0) continue;
    std::erase(running_, process);
    return failure(Errc::unavailable, "strand relay run has ended by itself: see above");
  }
  return {};
}

void RelayProcesses::stop() {
  for (const pid_t process : running_)
    ::kill(process, SIGTERM);
  for (const pid_t process : std::exchange(running_, {}))
    wait_for(process);
}

Result<void> run_self(const std::vector<std::string>& arguments) {
  const auto process = spawn_self(arguments);
  if (!process) return std::unexpected(process.error());
  if (wait_for(*process) != 0) {
    return failure(Errc::unavailable,
                   fmt::format("strand {} failed: see above", fmt::join(arguments, " ")));
  }
  return {};
}

}  // namespace strand::cli
