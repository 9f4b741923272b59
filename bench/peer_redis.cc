#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "child.h"
#include "peer_socket.h"
#include "peers_made.h"

// Redis Streams with a consumer group, every write in the append-only file and synced before its
// answer (appendfsync always). A message that is acknowledged is deleted as well: otherwise it
// would stay.

namespace strand::bench {

namespace {

// A command as Redis reads it.
void append_command(std::string& bytes, const std::vector<std::string_view>& words) {
  bytes += fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    bytes += fmt::format("${}\r\n", word.size());
    bytes += word;
    bytes += "\r\n";
  }
}

class RedisConnection {
 public:
  explicit RedisConnection(int port) : socket_("redis", port) {}

  void write(std::string_view commands) { socket_.write(commands); }

  // Of a reply that may be a list, or a list of lists: the strings in it.
  void read_strings(std::vector<std::string>& strings) {
    const std::string line(socket_.read_line());
    switch (line.front()) {
      case '$':
        if (const int bytes = number(line); bytes >= 0) {
          strings.emplace_back(socket_.read(static_cast<std::size_t>(bytes)));
          socket_.read(2);
        }
        return;
      case '*':
        for (int i = number(line); i > 0; --i)
          read_strings(strings);
        return;
      default:
        give_up("redis answers " + line);
    }
  }

  int read_integer() {
    const std::string_view line = socket_.read_line();
    if (line.front() != ':') give_up(fmt::format("redis answers {}", line));
    return number(line);
  }

  void read_ok() {
    const std::string_view line = socket_.read_line();
    if (line != "+OK") give_up(fmt::format("redis answers {}", line));
  }

 private:
  static int number(std::string_view line) {
    int value = 0;
    const auto result = std::from_chars(line.data() + 1, line.data() + line.size(), value);
    if (result.ec != std::errc{}) give_up(fmt::format("redis answers {}", line));
    return value;
  }

  PeerSocket socket_;
};

class RedisClient final : public QueueClient {
 public:
  RedisClient(int port, std::string stream, std::string consumer)
      : redis_(port), stream_(std::move(stream)), consumer_(std::move(consumer)) {
    append_command(addition_, {"XADD", stream_, "*", "b", std::string(body_bytes, 'x')});
  }

  void send(std::size_t count) override {
    while (commands_.size() < count * addition_.size())
      commands_ += addition_;
    redis_.write(std::string_view(commands_).substr(0, count * addition_.size()));
    ids_.clear();
    for (std::size_t i = 0; i < count; ++i)
      redis_.read_strings(ids_);
    if (ids_.size() != count) give_up("redis did not add all messages");
  }

  std::size_t receive(std::size_t count) override {
    std::string command;
    append_command(command, {"XREADGROUP", "GROUP", "g", consumer_, "COUNT", std::to_string(count),
                             "STREAMS", stream_, ">"});
    redis_.write(command);
    // The name of the stream, then for each message its id, and its field with its value.
    std::vector<std::string> reply;
    redis_.read_strings(reply);
    if (reply.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return 0;
    }
    std::vector<std::string_view> acknowledgement{"XACK", stream_, "g"};
    std::vector<std::string_view> deletion{"XDEL", stream_};
    for (std::size_t i = 1; i + 2 < reply.size(); i += 3) {
      if (reply[i + 2].size() != body_bytes) give_up("redis returned another body");
      acknowledgement.push_back(reply[i]);
      deletion.push_back(reply[i]);
    }
    command.clear();
    append_command(command, acknowledgement);
    append_command(command, deletion);
    redis_.write(command);
    const auto got = static_cast<int>(deletion.size() - 2);
    if (redis_.read_integer() != got || redis_.read_integer() != got)
      give_up("redis did not acknowledge all messages");
    return static_cast<std::size_t>(got);
  }

 private:
  RedisConnection redis_;
  std::string stream_;
  std::string consumer_;
  std::string addition_;  // one XADD
  std::string commands_;  // as many of them as were needed so far
  std::vector<std::string> ids_;
};

class Redis final : public Contender {
 public:
  Redis()
      : port_(free_port()),
        child_({program_of_package("redis-server", "redis-server"), "--port", std::to_string(port_),
                "--bind", "127.0.0.1", "--dir", folder_.path(), "--save", "", "--appendonly", "yes",
                "--appendfsync", "always"},
               folder_.path() + "/log") {
    child_.wait_until([&] { return listens(port_); }, "redis-server");
  }

  [[nodiscard]] std::string name() const override { return "Redis Streams"; }

  void begin_round() override {
    RedisConnection redis(port_);
    stream_ = fmt::format("bench-{}", ++rounds_);
    std::string commands;
    append_command(commands, {"FLUSHALL"});
    append_command(commands, {"XGROUP", "CREATE", stream_, "g", "0", "MKSTREAM"});
    redis.write(commands);
    redis.read_ok();
    redis.read_ok();
  }

  [[nodiscard]] std::unique_ptr<QueueClient> connect() override {
    return std::make_unique<RedisClient>(port_, stream_, fmt::format("c-{}", ++clients_));
  }

 private:
  Folder folder_;
  int port_;
  Child child_;
  std::string stream_;
  int rounds_ = 0;
  int clients_ = 0;
};

}  // namespace

std::unique_ptr<Contender> redis_streams() { return std::make_unique<Redis>(); }

}  // namespace strand::bench
