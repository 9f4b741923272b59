// The outbox relay on a PostgreSQL and a Kafka broker of its own: `strand bench relay`, and nothing
// to set up. PostgreSQL syncs to the disk of the temporary folder; Kafka, which does not sync what
// it confirms, lies in memory where the machine allows it.
//
//   ./dev bench relay [ARGUMENTS OF strand bench relay]

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kafka/broker.h"
#include "postgres/server.h"

namespace {

int run(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  using strand::kafka::TestBroker;
  using strand::postgres::TestServer;
  for (const auto& reason : {TestServer::missing(), TestBroker::missing()}) {
    if (!reason) continue;
    fmt::print(stderr, "bench_relay: {}\n", *reason);
    return 1;
  }
  try {
    // As one would run it: what is committed is synced.
    TestServer server({.durable = true,
                       .settings = {{"synchronous_commit", "on"},
                                    {"shared_buffers", "256MB"},
                                    {"max_wal_size", "2GB"},
                                    {"max_connections", "100"}}});
    const TestBroker broker;
    const std::string program = STRAND_BINARY_DIR "/strand";
    std::vector<std::string> command{
        program, "bench", "relay", "--store", server.fresh_database(), "--kafka", broker.address()};
    command.insert(command.end(), argv + 1, argv + argc);
    return run(command);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_relay: {}\n", error.what());
    return 1;
  }
}
