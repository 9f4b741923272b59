#include "kafka/broker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kafka/client.h"
#include "postgres/daemon.h"

namespace strand::kafka {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* java = "/usr/bin/java";
constexpr std::string_view version = "3.9.1";
constexpr int call_ms = 10'000;
const fs::path source_folder = fs::path(STRAND_SOURCE_DIR) / "tests" / "kafka";

// Where fetch.py puts it.
fs::path home() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  const char* user = std::getenv("HOME");             // NOLINT(concurrency-mt-unsafe)
  const fs::path folder = cache != nullptr && *cache != '\0'
                              ? fs::path(cache)
                              : fs::path(user != nullptr ? user : "/") / ".cache";
  return folder / "strand" / fmt::format("kafka-{}", version);
}

fs::path parent_folder() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK | X_OK) == 0 ? memory : fs::temp_directory_path();
}

// Kafka wants 16 bytes in 22 characters.
std::string random_cluster_id() {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string id(21, 'A');
  std::ranges::generate(id, [&] { return letters[random() % letters.size()]; });
  return id + "A";  // the last one has two bits only
}

std::runtime_error failed(std::string_view what, rd_kafka_resp_err_t error) {
  return std::runtime_error(fmt::format("{}: {}", what, rd_kafka_err2str(error)));
}

std::map<std::string, std::string> headers_of(const rd_kafka_message_t& message) {
  std::map<std::string, std::string> found;
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return found;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    found[name] = std::string(static_cast<const char*>(value), size);
  }
  return found;
}

Stored stored(const rd_kafka_message_t& message) {
  Stored one{
      .headers = headers_of(message), .partition = message.partition, .offset = message.offset};
  if (message.key != nullptr) {
    one.key.assign(static_cast<const char*>(message.key), message.key_len);
  }
  if (message.payload != nullptr) {
    one.value.emplace(static_cast<const char*>(message.payload), message.len);
  }
  return one;
}

std::vector<std::int32_t> partitions_of(rd_kafka_t* client, const std::string& topic) {
  rd_kafka_topic_t* handle = rd_kafka_topic_new(client, topic.c_str(), nullptr);
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, handle, &raw, call_ms);
  rd_kafka_topic_destroy(handle);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw failed("metadata of " + topic, error);
  const Owned<const rd_kafka_metadata_t> metadata(raw);
  if (metadata->topic_cnt != 1 || metadata->topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error("there is no topic " + topic);
  }
  std::vector<std::int32_t> found;
  for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
    found.push_back(metadata->topics[0].partitions[i].id);
  }
  return found;
}

}  // namespace

std::optional<std::string> TestBroker::missing() {
  if (::access(java, X_OK) != 0) {
    return fmt::format("there is no {}; install the Debian package openjdk-17-jre-headless", java);
  }
  if (!fs::exists(home() / "jars.sha256")) {
    return fmt::format(
        "there is no Kafka broker in {}; tests/kafka/fetch.py fetches it, which needs "
        "the network",
        home().native());
  }
  return std::nullopt;
}

TestBroker::TestBroker(BrokerOptions options)
    : options_(std::move(options)), folder_(parent_folder()), cluster_id_(random_cluster_id()) {
  fs::create_directory(data());
  // What `kafka-storage format` would write, without a second JVM.
  std::ofstream(data() / "meta.properties")
      << fmt::format("version=1\ncluster.id={}\nnode.id=1\n", cluster_id_);
  start_on_free_ports();
}

TestBroker::~TestBroker() {
  if (running()) kill();
}

void TestBroker::write_settings() const {
  std::map<std::string, std::string> settings{
      {"process.roles", "broker,controller"},
      {"node.id", "1"},
      {"controller.quorum.voters", fmt::format("1@127.0.0.1:{}", controller_port_)},
      {"listeners",
       fmt::format("PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}", port_, controller_port_)},
      {"controller.listener.names", "CONTROLLER"},
      {"log.dirs", data()},
      {"auto.create.topics.enable", "false"},
      {"offsets.topic.num.partitions", "1"},
      {"offsets.topic.replication.factor", "1"},
      {"transaction.state.log.num.partitions", "1"},
      {"transaction.state.log.replication.factor", "1"},
      {"transaction.state.log.min.isr", "1"},
      {"group.initial.rebalance.delay.ms", "0"},
      // Small: tests share the machine.
      {"num.network.threads", "2"},
      {"num.io.threads", "2"},
      {"background.threads", "1"},
      {"log.cleaner.enable", "false"},
      {"log.index.size.max.bytes", "1048576"},
      // A broker that was killed may come back when its session has ended: soon.
      {"broker.heartbeat.interval.ms", "100"},
      {"broker.session.timeout.ms", "600"},
      {"controlled.shutdown.enable", "false"},
  };
  for (const auto& [name, value] : options_.settings)
    settings[name] = value;
  std::ofstream file(folder_.path() / "server.properties", std::ios::trunc);
  for (const auto& [name, value] : settings)
    file << name << "=" << value << "\n";
}

void TestBroker::start_on_free_ports() {
  for (int i = 0;; ++i) {
    port_ = postgres::free_port();
    controller_port_ = postgres::free_port();
    write_settings();
    try {
      start();
      return;
    } catch (const std::runtime_error&) {
      if (log().find("Address already in use") == std::string::npos || i == 4) throw;
    }
  }
}

void TestBroker::start() {
  const fs::path at = home();
  // Without -Xshare:on the JVM does without the archive if it does not fit, and is slower.
  pid_ = postgres::spawn(
      {java, "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
       "-XX:SharedArchiveFile=" + (at / "kafka.jsa").string(),
       "-Dlog4j.configuration=file:" + (source_folder / "log4j.properties").string(), "-cp",
       (at / "jars").string() + "/*", "kafka.Kafka", folder_.path() / "server.properties"},
      folder_.path() / "broker.log", {.as_account = false, .end_signal = SIGKILL});
  wait_until_ready();
}

void TestBroker::wait_until_ready() {
  const auto deadline = std::chrono::steady_clock::now() + 90s;
  const auto client = make_client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", address()},
                                                      {"reconnect.backoff.ms", "20"},
                                                      {"reconnect.backoff.max.ms", "20"}});
  while (!ready(client.get())) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error("Kafka did not start: " + log());
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("Kafka does not get ready: " + log());
    }
  }
}

// It answers, and it is ours: at its port there might be another one.
bool TestBroker::ready(rd_kafka_t* client) const {
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(client, 0, nullptr, &raw, 100) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  const Owned<const rd_kafka_metadata_t> metadata(raw);
  char* id = rd_kafka_clusterid(client, call_ms);
  const bool ours = id != nullptr && cluster_id_ == id;
  rd_kafka_mem_free(client, id);
  return ours && metadata->broker_cnt == 1;
}

void TestBroker::stop() {
  ::kill(pid_, SIGTERM);
  reap();
}

void TestBroker::kill() {
  ::kill(pid_, SIGKILL);
  reap();
}

void TestBroker::pause() const { ::kill(pid_, SIGSTOP); }

void TestBroker::resume() const { ::kill(pid_, SIGCONT); }

void TestBroker::reap() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string TestBroker::address() const { return fmt::format("127.0.0.1:{}", port_); }

void TestBroker::create_topic(const std::string& name, int partitions,
                              const std::map<std::string, std::string>& settings) const {
  const auto client = make_client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", address()}});
  std::array<char, 512> reason{};
  const Owned<rd_kafka_NewTopic_t> topic(
      rd_kafka_NewTopic_new(name.c_str(), partitions, 1, reason.data(), reason.size()));
  if (topic == nullptr) throw std::runtime_error(reason.data());
  for (const auto& [key, value] : settings) {
    rd_kafka_NewTopic_set_config(topic.get(), key.c_str(), value.c_str());
  }
  const Owned<rd_kafka_queue_t> queue(rd_kafka_queue_new(client.get()));
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  rd_kafka_CreateTopics(client.get(), topics, 1, nullptr, queue.get());
  const Owned<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), 60'000));
  if (event == nullptr) throw std::runtime_error("Kafka did not make the topic " + name);
  if (const auto error = rd_kafka_event_error(event.get())) throw failed("topic " + name, error);
  std::size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  if (const auto error = rd_kafka_topic_result_error(results[0])) {
    throw failed("topic " + name, error);
  }
}

std::string TestBroker::fresh_topic(int partitions) {
  std::string name = fmt::format("topic-{}", ++topics_);
  create_topic(name, partitions);
  return name;
}

void TestBroker::send(const std::string& topic, const std::vector<Stored>& messages) const {
  const auto client = make_client(
      RD_KAFKA_PRODUCER, {{"bootstrap.servers", address()}, {"enable.idempotence", "true"}});
  for (const Stored& one : messages)
    produce(client.get(), topic, one.partition, one.key, one.value, one.headers);
  if (const auto error = rd_kafka_flush(client.get(), 60'000)) throw failed(topic, error);
}

std::vector<Stored> TestBroker::messages(const std::string& topic) const {
  const auto client = make_client(RD_KAFKA_CONSUMER, {{"bootstrap.servers", address()},
                                                      {"group.id", "strand-tests"},
                                                      {"enable.auto.commit", "false"},
                                                      {"enable.partition.eof", "true"},
                                                      {"auto.offset.reset", "error"},
                                                      {"fetch.wait.max.ms", "10"}});
  rd_kafka_poll_set_consumer(client.get());
  const std::vector<std::int32_t> partitions = partitions_of(client.get(), topic);
  const Owned<rd_kafka_topic_partition_list_t> wanted(
      rd_kafka_topic_partition_list_new(static_cast<int>(partitions.size())));
  for (const std::int32_t partition : partitions) {
    rd_kafka_topic_partition_list_add(wanted.get(), topic.c_str(), partition)->offset =
        RD_KAFKA_OFFSET_BEGINNING;
  }
  if (const auto error = rd_kafka_assign(client.get(), wanted.get())) throw failed(topic, error);
  std::vector<Stored> found;
  for (std::size_t at_end = 0; at_end < partitions.size();) {
    const Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(client.get(), call_ms));
    if (message == nullptr) throw std::runtime_error("Kafka does not show what is in " + topic);
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      ++at_end;
    } else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      throw failed(topic, message->err);
    } else {
      found.push_back(stored(*message));
    }
  }
  return found;
}

std::string TestBroker::log() const { return postgres::whole_file(folder_.path() / "broker.log"); }

TestBroker& shared_broker() {
  static TestBroker broker;
  return broker;
}

}  // namespace strand::kafka
