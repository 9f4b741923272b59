#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "postgres/server.h"

struct rd_kafka_s;

namespace strand::kafka {

struct BrokerOptions {
  // As in server.properties; they win over those that the tests need.
  std::map<std::string, std::string> settings = {};
};

// A message as it lies in a topic.
struct Stored {
  std::string key = {};
  std::optional<std::string> value = {};  // none: a tombstone
  std::map<std::string, std::string> headers = {};
  std::int32_t partition = 0;
  std::int64_t offset = 0;
};

// A real Kafka broker, which belongs to a test: one node that is its own controller, in a folder of
// its own, on free ports of 127.0.0.1. It does not outlive this process.
//
// Threads: one at a time. The thread that starts the broker must live as long as it, because the
//          kernel stops the broker when that thread ends.
// Failure: throws std::runtime_error with what the broker said.
class TestBroker {
 public:
  // Why there can be none on this machine; nothing if there can.
  static std::optional<std::string> missing();

  // Started, and answering.
  explicit TestBroker(BrokerOptions options = {});
  TestBroker(const TestBroker&) = delete;
  TestBroker& operator=(const TestBroker&) = delete;
  ~TestBroker();

  // On the same ports, with the same data.
  void start();
  // Lets it finish what it does, and close its files (SIGTERM).
  void stop();
  // It vanishes at once (SIGKILL). What it confirmed is with the kernel, so it is there again after
  // a start.
  void kill();
  // It stands still, with its connections open (SIGSTOP, SIGCONT).
  void pause() const;
  void resume() const;
  [[nodiscard]] bool running() const { return pid_ > 0; }

  // For bootstrap.servers.
  [[nodiscard]] std::string address() const;

  void create_topic(const std::string& name, int partitions = 1,
                    const std::map<std::string, std::string>& settings = {}) const;
  // A new, empty topic. Its name.
  std::string fresh_topic(int partitions = 1);
  // Sends messages in this order, each to its partition, and waits until they are confirmed.
  void send(const std::string& topic, const std::vector<Stored>& messages) const;
  // All that a topic holds now, each partition in its order. What transactions left open or undid
  // is not among it.
  [[nodiscard]] std::vector<Stored> messages(const std::string& topic) const;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // What the broker has said.
  [[nodiscard]] std::string log() const;

 private:
  void write_settings() const;
  void start_on_free_ports();
  void wait_until_ready();
  [[nodiscard]] bool ready(rd_kafka_s* client) const;
  void reap();
  [[nodiscard]] std::filesystem::path data() const { return folder_.path() / "data"; }

  BrokerOptions options_;
  postgres::ServerFolder folder_;
  std::string cluster_id_;
  int port_ = 0;
  int controller_port_ = 0;
  pid_t pid_ = -1;
  int topics_ = 0;
};

// The broker that the tests of one program share, started at its first use.
TestBroker& shared_broker();

}  // namespace strand::kafka
