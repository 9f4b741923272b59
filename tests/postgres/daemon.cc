#include "postgres/daemon.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strand::postgres {

namespace fs = std::filesystem;

namespace {

// Only what may be called between fork and exec.
[[noreturn]] void become(const Account& account, const char* const* command, int output,
                         pid_t parent, SpawnOptions options) {
  if (options.as_account && account.change &&
      (::setgroups(0, nullptr) != 0 || ::setgid(account.group) != 0 ||
       ::setuid(account.user) != 0)) {
    ::_exit(126);
  }
  // After the change of user, which would clear it. The parent may have ended before.
  ::prctl(PR_SET_PDEATHSIG, options.end_signal);
  if (::getppid() != parent) {
    ::_exit(126);
  }
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  constexpr std::array<const char*, 3> environment{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", nullptr};
  ::execve(command[0], const_cast<char* const*>(command),
           const_cast<char* const*>(environment.data()));
  ::_exit(127);
}

}  // namespace

std::optional<Account> account() {
  if (::geteuid() != 0) {
    return Account{.user = ::geteuid(), .group = ::getegid()};
  }
  const passwd* entry = ::getpwnam("postgres");
  if (entry == nullptr) {
    return std::nullopt;
  }
  return Account{.change = true, .user = entry->pw_uid, .group = entry->pw_gid};
}

pid_t spawn(const std::vector<std::string>& command, const fs::path& log, SpawnOptions options) {
  std::vector<const char*> words;
  for (const std::string& word : command) {
    words.push_back(word.c_str());
  }
  words.push_back(nullptr);
  const Account who = account().value();
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(who, words.data(), output, parent, options);
  }
  ::close(output);
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  return child;
}

void own(const fs::path& path) {
  const Account who = account().value();
  if (who.change && ::chown(path.c_str(), who.user, who.group) != 0) {
    throw std::system_error(errno, std::generic_category(), "chown " + path.string());
  }
}

int free_port() {
  std::random_device random;
  for (int i = 0; i < 1000; ++i) {
    const int port = 20'000 + static_cast<int>(random() % 10'000);
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool free = ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(probe);
    if (free) {
      return port;
    }
  }
  throw std::runtime_error("no port of 127.0.0.1 is free");
}

std::string whole_file(const fs::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace strand::postgres
