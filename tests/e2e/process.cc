#include "e2e/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <regex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strand::e2e {

namespace {

using std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds{20};

constexpr std::array<std::string_view, 4> unwanted_variables = {
    "STRAND_STORE=", "STRAND_SERVE_", "STRAND_TOKEN_FILE=", "NOTIFY_SOCKET="};

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe: errno " << errno;
  return {.read = ends[0], .write = ends[1]};
}

Pipe make_input(Stdin kind) {
  if (kind == Stdin::pipe) return make_pipe();
  int ours = -1;
  int theirs = -1;
  if (::openpty(&ours, &theirs, nullptr, nullptr, nullptr) != 0) ADD_FAILURE() << "no terminal";
  ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(theirs, F_SETFD, FD_CLOEXEC);
  return {.read = theirs, .write = ours};
}

Pipe make_output(Stdout kind) {
  if (kind == Stdout::full_disk)
    return {.read = -1, .write = ::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  Pipe pipe = make_pipe();
  if (kind == Stdout::closed_pipe) ::close(std::exchange(pipe.read, -1));
  return pipe;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts)
    result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    // What the person at the keyboard, or the service manager, has set must not change what is
    // tested.
    const auto ours = [&](std::string_view name) { return text.starts_with(name); };
    if (!std::ranges::any_of(unwanted_variables, ours)) result.push_back(text);
  }
  for (const auto& [name, value] : more)
    result.emplace_back(name).append("=").append(value);
  return result;
}

// The signals that a process handles, as the kernel tells it.
std::uint64_t caught_signals(pid_t id) {
  std::ifstream status("/proc/" + std::to_string(id) + "/status");
  std::string word;
  while (status >> word) {
    if (word != "SigCgt:") continue;
    status >> word;
    return std::stoull(word, nullptr, 16);
  }
  return 0;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const ProcessOptions& options) {
  // Writing to a process that has ended must not end the tests.
  std::signal(SIGPIPE, SIG_IGN);
  const Pipe in = make_input(options.in);
  const Pipe out = make_output(options.out);
  const Pipe err = make_pipe();

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  // The program starts with signals as a shell would start it, not with ours ignored.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> words = command;
  std::vector<std::string> variables = environment_with(options.environment);
  const int error = ::posix_spawn(&id_, words.front().c_str(), &actions, &attributes,
                                  pointers(words).data(), pointers(variables).data());
  if (error != 0) ADD_FAILURE() << words.front() << " cannot be started: errno " << error;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);

  ::close(in.read);
  ::close(out.write);
  ::close(err.write);
  in_ = in.write;
  out_ = out.read;
  err_ = err.read;
}

Process::~Process() {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  for (const int descriptor : {in_, out_, err_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void Process::write(std::string_view text) {
  const auto deadline = steady_clock::now() + patience;
  while (!text.empty() && in_ >= 0) {
    if (!move(text, deadline)) FAIL() << "the process does not read its input";
  }
}

std::string Process::read_line() {
  const auto deadline = steady_clock::now() + patience;
  std::string_view nothing;
  while (true) {
    const std::size_t end = finished_.out.find('\n');
    if (end != std::string::npos) {
      std::string line = finished_.out.substr(0, end);
      finished_.out.erase(0, end + 1);
      return line;
    }
    if (out_ < 0 || !move(nothing, deadline)) {
      ADD_FAILURE() << "the process printed no line; it has " << finished_.out << finished_.err;
      return {};
    }
  }
}

std::string Process::read_errors_until(const std::string& pattern) {
  const std::regex wanted(pattern);
  const auto deadline = steady_clock::now() + patience;
  std::string_view nothing;
  while (!std::regex_search(finished_.err, wanted)) {
    if (err_ < 0 || !move(nothing, deadline)) {
      ADD_FAILURE() << "the process does not say " << pattern << "; it has said " << finished_.err;
      return {};
    }
  }
  return finished_.err;
}

void Process::signal(int number) const { ::kill(id_, number); }

void Process::wait_until_it_catches(int number) const {
  const auto deadline = steady_clock::now() + patience;
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(number) - 1U);
  while ((caught_signals(id_) & bit) == 0) {
    if (steady_clock::now() > deadline) FAIL() << "the process does not catch signal " << number;
    // There is nothing to wait on: the kernel does not tell when a handler is installed.
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
}

Finished Process::finish(std::string_view input) {
  write(input);
  close_input();
  return wait();
}

Finished Process::wait() {
  const auto deadline = steady_clock::now() + patience;
  std::string_view nothing;
  while (out_ >= 0 || err_ >= 0) {
    if (move(nothing, deadline)) continue;
    ADD_FAILURE() << "the process does not end; it has printed " << finished_.out << finished_.err;
    ::kill(id_, SIGKILL);
    break;
  }
  int status = 0;
  ::waitpid(std::exchange(id_, -1), &status, 0);
  finished_.exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return finished_;
}

bool Process::move(std::string_view& input, Deadline deadline) {
  std::array<pollfd, 3> polled = {
      {{.fd = input.empty() ? -1 : in_, .events = POLLOUT, .revents = 0},
       {.fd = out_, .events = POLLIN, .revents = 0},
       {.fd = err_, .events = POLLIN, .revents = 0}}};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
  if (left.count() <= 0) return false;
  ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
  if (polled[0].revents != 0) {
    // Pieces that fit the pipe once there is room for any, so that the write does not block.
    const ssize_t written = ::write(in_, input.data(), std::min<std::size_t>(input.size(), 4096));
    if (written < 0) close_input();
    input.remove_prefix(written < 0 ? input.size() : static_cast<std::size_t>(written));
  }
  if (polled[1].revents != 0) read_from(out_, finished_.out);
  if (polled[2].revents != 0) read_from(err_, finished_.err);
  return true;
}

void Process::read_from(int& descriptor, std::string& text) {
  std::array<char, std::size_t{64} << 10U> part{};
  const ssize_t count = ::read(descriptor, part.data(), part.size());
  if (count > 0) {
    text.append(part.data(), static_cast<std::size_t>(count));
  } else {
    ::close(std::exchange(descriptor, -1));
  }
}

void Process::close_input() {
  if (in_ >= 0) ::close(std::exchange(in_, -1));
}

}  // namespace strand::e2e
