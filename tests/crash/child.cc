#include "crash/child.h"

#include <csignal>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strand::crash {

using namespace std::chrono_literals;

Child::Child(Words command) {
  int to[2] = {-1, -1};
  int from[2] = {-1, -1};
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
  std::vector<char*> arguments;
  for (std::string& word : command)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(to[0], STDIN_FILENO);
    ::dup2(from[1], STDOUT_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  in_ = to[1];
  out_ = from[0];
}

Child::~Child() {
  if (pid_ > 0) {
    signal(SIGKILL);
    wait();
  }
  ::close(in_);
  ::close(out_);
}

std::optional<std::string> Child::line(std::chrono::steady_clock::time_point until) {
  while (true) {
    if (const std::size_t end = text_.find('\n', read_); end != std::string::npos) {
      std::string result = text_.substr(read_, end - read_);
      read_ = end + 1;
      return result;
    }
    text_.erase(0, read_);
    read_ = 0;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd waiting = {.fd = out_, .events = POLLIN, .revents = 0};
    if (left <= 0ms || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
      return std::nullopt;
    }
    char buffer[65'536];
    const ssize_t count = ::read(out_, buffer, sizeof buffer);
    if (count <= 0) {
      over_ = true;
      return std::nullopt;
    }
    text_.append(buffer, static_cast<std::size_t>(count));
  }
}

void Child::say(std::string_view text) const {
  if (::write(in_, text.data(), text.size()) < 0) std::abort();
}

void Child::signal(int number) const { ::kill(pid_, number); }

int Child::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace strand::crash
