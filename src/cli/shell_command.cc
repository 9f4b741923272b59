#include "cli/shell_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/limits.h>

#include "store/disk/place.h"

namespace strand::cli {

namespace {

using disk::File;
using std::chrono::steady_clock;

// What is kept of stderr: a reason is shown to people.
constexpr std::size_t err_bytes_max = 4000;
// What is kept of stdout, if it is returned: more than a store takes for a body.
constexpr std::size_t out_bytes_max = Limits{}.transaction_bytes_max;
constexpr std::chrono::seconds patience{5};

Error trouble(std::string_view doing) {
  return {Errc::io_error, fmt::format("cannot {}: {}", doing, std::strerror(errno))};
}

struct Pipe {
  File read{-1};
  File write{-1};
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  // Closed in other children that are started meanwhile: they would keep it open.
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::unexpected(trouble("make a pipe"));
  return Pipe{.read = File(ends[0]), .write = File(ends[1])};
}

// The environment of the program with some names set.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& more) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      if (!more.contains(std::string(text.substr(0, text.find('='))))) texts_.emplace_back(text);
    }
    for (const auto& [name, value] : more)
      texts_.push_back(fmt::format("{}={}", name, value));
    for (std::string& text : texts_)
      pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char** pointers() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

struct Child {
  pid_t id = -1;
  File in{-1};     // its stdin
  File out{-1};    // its stdout, if that is returned
  File err{-1};    // its stderr
  File ended{-1};  // readable when it has ended
};

Result<Child> start(const ShellCommand& command) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  if (!in || !out || !err) return std::unexpected(trouble("make a pipe"));

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in->read.fd(), STDIN_FILENO);
  if (command.output != CommandOutput::ours) {
    const bool returned = command.output == CommandOutput::returned;
    posix_spawn_file_actions_adddup2(&files, returned ? out->write.fd() : STDERR_FILENO,
                                     STDOUT_FILENO);
  }
  posix_spawn_file_actions_adddup2(&files, err->write.fd(), STDERR_FILENO);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C is for us: what runs may finish.
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);

  std::array<std::string, 3> words = {"sh", "-c", command.command};
  const std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(),
                                          nullptr};
  Environment variables(command.environment);
  Child child;
  const int failed = posix_spawn(&child.id, "/bin/sh", &files, &attributes, arguments.data(),
                                 variables.pointers());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    errno = failed;
    return std::unexpected(trouble("start /bin/sh"));
  }
  child.in = std::move(in->write);
  if (command.output == CommandOutput::returned) child.out = std::move(out->read);
  child.err = std::move(err->read);
  child.ended = File(static_cast<int>(::syscall(SYS_pidfd_open, child.id, 0)));
  ::fcntl(child.in.fd(), F_SETFL, O_NONBLOCK);
  ::fcntl(child.err.fd(), F_SETFL, O_NONBLOCK);
  if (child.out.fd() >= 0) ::fcntl(child.out.fd(), F_SETFL, O_NONBLOCK);
  return child;
}

// Hands on what has come, and closes the pipe at its end.
void read_from(File& pipe, const std::function<void(std::string_view)>& take) {
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t count = ::read(pipe.fd(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      pipe = File(-1);
      return;
    }
    take({part.data(), static_cast<std::size_t>(count)});
  }
}

// Shows what has come from stderr, and keeps the end of it.
void read_err(Child& child, std::string& kept) {
  read_from(child.err, [&](std::string_view part) {
    static_cast<void>(::write(STDERR_FILENO, part.data(), part.size()));
    kept.append(part);
    if (kept.size() > err_bytes_max) kept.erase(0, kept.size() - err_bytes_max);
  });
}

void read_out(Child& child, CommandEnd& end) {
  read_from(child.out, [&](std::string_view part) {
    const std::size_t room = out_bytes_max - end.out.size();
    end.out_cut = end.out_cut || part.size() > room;
    end.out.append(part.substr(0, room));
  });
}

void write_in(Child& child, std::string_view& input) {
  while (!input.empty()) {
    const ssize_t count = ::write(child.in.fd(), input.data(), input.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;  // it does not want to read all of it
    input.remove_prefix(static_cast<std::size_t>(count));
  }
  child.in = File(-1);
}

int wait_for_end(pid_t id) {
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_ms(const std::optional<steady_clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - steady_clock::now());
  // What is longer than poll can say is waited for again.
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

}  // namespace

Result<CommandEnd> run_shell(const ShellCommand& command, const std::stop_token& stop) {
  const File told(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const std::stop_callback on_stop(stop, [&] { static_cast<void>(::eventfd_write(told.fd(), 1)); });
  auto child = start(command);
  if (!child) return std::unexpected(std::move(child).error());

  CommandEnd end;
  std::string_view input = command.input;
  // Told to stop then; once it is, killed then.
  std::optional<steady_clock::time_point> deadline;
  if (command.time) deadline = steady_clock::now() + *command.time;
  while (true) {
    std::array<pollfd, 5> polled = {
        {{.fd = child->ended.fd(), .events = POLLIN, .revents = 0},
         {.fd = child->err.fd(), .events = POLLIN, .revents = 0},
         {.fd = child->out.fd(), .events = POLLIN, .revents = 0},
         {.fd = child->in.fd(), .events = POLLOUT, .revents = 0},
         {.fd = end.stopped ? -1 : told.fd(), .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(polled.data(), polled.size(), wait_ms(deadline));
    if (ready < 0 && errno != EINTR) break;
    if (polled[1].revents != 0) read_err(*child, end.err);
    if (polled[2].revents != 0) read_out(*child, end);
    if (polled[3].revents != 0) write_in(*child, input);
    if (polled[0].revents != 0) break;
    const bool over = deadline && steady_clock::now() >= *deadline;
    if (polled[4].revents != 0 || (over && !end.stopped)) {
      end.stopped = true;
      end.too_long = polled[4].revents == 0;
      ::kill(-child->id, SIGTERM);
      deadline = steady_clock::now() + patience;
    } else if (over) {
      ::kill(-child->id, SIGKILL);
      deadline.reset();
    }
  }
  if (child->err.fd() >= 0) read_err(*child, end.err);
  if (child->out.fd() >= 0) read_out(*child, end);
  end.exit = wait_for_end(child->id);
  return end;
}

}  // namespace strand::cli
