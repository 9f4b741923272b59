#include <charconv>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "child.h"
#include "peer_socket.h"
#include "peers_made.h"

// beanstalkd with a binlog that it syncs after each command (-f 0). Its protocol knows no batches,
// but takes the next command before the last one is answered.

namespace strand::bench {

namespace {

class BeanstalkdClient final : public QueueClient {
 public:
  explicit BeanstalkdClient(int port)
      : socket_("beanstalkd", port),
        put_(fmt::format("put 0 0 120 {}\r\n{}\r\n", body_bytes, std::string(body_bytes, 'x'))) {}

  void send(std::size_t count) override {
    std::string commands;
    for (std::size_t i = 0; i < count; ++i)
      commands += put_;
    socket_.write(commands);
    for (std::size_t i = 0; i < count; ++i)
      expect("INSERTED ");
  }

  std::size_t receive(std::size_t count) override {
    std::string commands;
    for (std::size_t i = 0; i < count; ++i)
      commands += "reserve-with-timeout 0\r\n";
    socket_.write(commands);
    commands.clear();
    std::size_t got = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view line = socket_.read_line();
      if (line == "TIMED_OUT") continue;
      // "RESERVED ID BYTES", and the body in a line of its own.
      const std::string ending = fmt::format(" {}", body_bytes);
      if (!line.starts_with("RESERVED ") || !line.ends_with(ending))
        give_up(fmt::format("beanstalkd answers {}", line));
      commands += fmt::format("delete {}\r\n", line.substr(9, line.size() - 9 - ending.size()));
      socket_.read(body_bytes + 2);
      ++got;
    }
    if (got == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    socket_.write(commands);
    for (std::size_t i = 0; i < got; ++i)
      expect("DELETED");
    return got;
  }

 private:
  void expect(std::string_view beginning) {
    const std::string_view line = socket_.read_line();
    if (!line.starts_with(beginning)) give_up(fmt::format("beanstalkd answers {}", line));
  }

  PeerSocket socket_;
  std::string put_;
};

class Beanstalkd final : public Contender {
 public:
  Beanstalkd() : program_(program_of_package("beanstalkd", "beanstalkd")) {}

  [[nodiscard]] std::string name() const override { return "beanstalkd"; }

  // A new process, because it cannot empty a queue but message by message.
  void begin_round() override { run_.emplace(program_); }

  [[nodiscard]] std::unique_ptr<QueueClient> connect() override {
    return std::make_unique<BeanstalkdClient>(run_->port);
  }

 private:
  struct Run {
    explicit Run(const std::string& program)
        : port(free_port()),
          child({program, "-l", "127.0.0.1", "-p", std::to_string(port), "-b", folder.path(), "-f",
                 "0", "-s", "104857600"},
                folder.path() + "/log") {
      child.wait_until([&] { return listens(port); }, "beanstalkd");
    }
    Folder folder;
    int port;
    Child child;
  };

  std::string program_;
  std::optional<Run> run_;
};

}  // namespace

std::unique_ptr<Contender> beanstalkd() { return std::make_unique<Beanstalkd>(); }

}  // namespace strand::bench
