#include "child.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strand::bench {

void give_up(const std::string& what) {
  fmt::print(stderr, "bench: {}\n", what);
  std::exit(1);
}

Child::Child(const std::vector<std::string>& command, std::string output,
             const std::map<std::string, std::string>& environment)
    : pid_(-1), output_(std::move(output)) {
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) give_up("cannot start a process");
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  for (const auto& [name, value] : environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

Child::~Child() {
  ::kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

std::string Child::output() const {
  std::ifstream file(output_);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Child::wait_until(const std::function<bool()>& ready, const std::string& what) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{90};
  while (!ready()) {
    int status = 0;
    const bool gone = ::waitpid(pid_, &status, WNOHANG) == pid_;
    if (gone || std::chrono::steady_clock::now() > until) {
      give_up(fmt::format("{} does not come up:\n{}", what, output()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

Folder::Folder() {
  std::string name = (std::filesystem::current_path() / "strand-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) give_up("cannot make a folder here");
  // Some of the peers run as users of their own.
  std::filesystem::permissions(name, std::filesystem::perms::all);
  path_ = name;
}

Folder::~Folder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    give_up("no port is free");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

double rss_mb(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("VmRSS:")) continue;
    std::istringstream words(line.substr(6));
    double kb = 0;
    words >> kb;
    return kb / 1024;
  }
  return 0;
}

}  // namespace strand::bench
