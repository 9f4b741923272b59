#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace strand::postgres {

class Connection;

// A folder that is removed with all that is in it; by a later test, if this process is killed.
class ServerFolder {
 public:
  explicit ServerFolder(const std::filesystem::path& parent);
  ServerFolder(const ServerFolder&) = delete;
  ServerFolder& operator=(const ServerFolder&) = delete;
  ~ServerFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // held as long as we live
};

struct ServerOptions {
  // On a disk, and synced. Otherwise in memory where the machine allows it.
  bool durable = false;
  // Where its folder is made, which the user that it runs as must be able to enter. Empty: where
  // temporary files lie, or in memory.
  std::filesystem::path parent = {};
  // As in postgresql.conf; they win over those that the tests need.
  std::map<std::string, std::string> settings = {};
};

// A real PostgreSQL, which belongs to a test: in a folder of its own, on a free port of 127.0.0.1
// and on a socket in that folder. It asks for a password, and does not outlive this process.
//
// Threads: one at a time. The thread that starts the server must live as long as it, because the
//          kernel stops the server when that thread ends.
// Failure: throws std::runtime_error with what the server said.
class TestServer {
 public:
  enum class Stop : std::uint8_t {
    fast,       // ends connections, writes a checkpoint
    immediate,  // ends connections, recovers at the next start
  };

  // Why there can be none on this machine; nothing if there can.
  static std::optional<std::string> missing();

  // Started, and taking connections.
  explicit TestServer(ServerOptions options = {});
  // A copy of `primary` that follows it by streaming; read-only until it is promoted.
  static std::unique_ptr<TestServer> standby_of(TestServer& primary, ServerOptions options = {});
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer();

  void start();
  void stop(Stop how);
  // The server and all of its processes vanish at once (SIGKILL).
  void kill();
  void restart(Stop how = Stop::fast);
  [[nodiscard]] bool running() const { return pid_ > 0; }

  // A new, empty database that belongs to the user `strand`, who may do nothing beyond it. Its URL.
  std::string fresh_database();
  // For that user, over TCP.
  [[nodiscard]] std::string url(std::string_view database = "postgres") const;
  // For the superuser.
  [[nodiscard]] std::string admin_url(std::string_view database = "postgres") const;

  // Runs a script as superuser.
  void sql(const std::string& script, std::string_view database = "postgres");
  // Asks as superuser, again and again, until there is a row.
  void wait_until(const std::string& query);
  // The standby becomes a server of its own, and takes writes when this returns.
  void promote();

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // What the server has said.
  [[nodiscard]] std::string log() const;

 private:
  TestServer(ServerOptions options, TestServer* primary);

  [[nodiscard]] std::unique_ptr<Connection> admin(std::string_view database = "postgres") const;
  void initialise();
  void copy(TestServer& primary);
  void write_settings();
  void start_on_free_port();
  void wait_until_ready();
  [[nodiscard]] bool ready() const;
  void reap();
  [[nodiscard]] std::filesystem::path data() const { return folder_.path() / "data"; }

  ServerOptions options_;
  ServerFolder folder_;
  std::string password_;
  int port_ = 0;
  pid_t pid_ = -1;
  int databases_ = 0;
};

// A primary, and a standby that has every commit before its client is told.
class TestPair {
 public:
  explicit TestPair(const ServerOptions& options = {});

  TestServer& primary() { return *primary_; }
  TestServer& standby() { return *standby_; }

  // As those of the primary, but of both servers: whichever takes writes.
  std::string fresh_database();

  // Kills the primary, and has the standby take over.
  void fail_over();

 private:
  std::unique_ptr<TestServer> primary_;
  std::unique_ptr<TestServer> standby_;
};

// The server that the tests of one program share, started at its first use.
TestServer& shared_server();

}  // namespace strand::postgres
