#include "server/systemd.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/doc_tables.h"
#include "unit/fresh_folder.h"

namespace strand::server {
namespace {

using testing::HasSubstr;

// The service manager's end.
class Manager {
 public:
  // A name that begins with '@' is an abstract one.
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    bound_ = ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(socket_);
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  [[nodiscard]] bool bound() const { return bound_; }
  [[nodiscard]] std::string heard() const {
    std::array<char, 1000> buffer{};
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return count < 0 ? "(nothing)" : std::string(buffer.data(), static_cast<std::size_t>(count));
  }

 private:
  int socket_;
  bool bound_ = false;
};

TEST(Systemd, The_manager_hears_that_the_server_is_ready) {
  const FreshFolder folder;
  const Manager manager(folder / "notify");
  ASSERT_TRUE(manager.bound());
  EXPECT_TRUE(notify("READY=1"));
  EXPECT_EQ(manager.heard(), "READY=1");
  EXPECT_TRUE(notify("STOPPING=1\nSTATUS=drains"));
  EXPECT_EQ(manager.heard(), "STOPPING=1\nSTATUS=drains");
}

TEST(Systemd, An_abstract_socket_is_found) {
  const Manager manager("@strand-test-" + std::to_string(::getpid()));
  ASSERT_TRUE(manager.bound());
  EXPECT_TRUE(notify_reloading());
  EXPECT_THAT(manager.heard(), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
}

TEST(Systemd, Without_a_manager_there_is_nobody_to_tell) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(notify("READY=1"));
}

TEST(Systemd, A_manager_that_cannot_be_reached_is_an_error) {
  ::setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  EXPECT_FALSE(notify("READY=1"));
  ::setenv("NOTIFY_SOCKET", "vsock:1:2", 1);
  EXPECT_EQ(notify("READY=1").error().code, Errc::unsupported);
  ::setenv("NOTIFY_SOCKET", ("/" + std::string(500, 'x')).c_str(), 1);
  EXPECT_EQ(notify("READY=1").error().code, Errc::unsupported);
  ::unsetenv("NOTIFY_SOCKET");
}

// --- The unit ---

TEST(Unit, Keeps_what_protects_the_machine) {
  const std::string unit = "\n" + test::text_of("packaging/strand.service");
  for (const char* line :
       {"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "User=strand", "StateDirectory=strand",
        "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes",
        "NoNewPrivileges=yes", "CapabilityBoundingSet=", "MemoryDenyWriteExecute=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces=yes",
        "SystemCallFilter=@system-service", "SystemCallFilter=~@privileged @resources",
        "SystemCallArchitectures=native", "UMask=0077", "LimitNOFILE=65536", "TimeoutStopSec=45"}) {
    EXPECT_THAT(unit, HasSubstr("\n" + std::string(line) + "\n"));
  }
}

struct Ran {
  int status = 0;
  std::string output;
};

Ran run(const std::string& command) {
  Ran result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), count);
  result.status = ::pclose(pipe);
  return result;
}

// Where systemd is not installed, the test above is all there is.
TEST(Unit, Is_one_that_systemd_takes_and_finds_safe) {
  if (run("command -v systemd-analyze").status != 0) {
    EXPECT_THAT(test::text_of("packaging/strand.service"), HasSubstr("[Install]"));
    return;
  }
  // The program need not be installed here.
  const FreshFolder folder;
  const std::string file = folder / "strand.service";
  std::ofstream(file) << std::regex_replace(test::text_of("packaging/strand.service"),
                                            std::regex("ExecStart=[^\n]*"), "ExecStart=/bin/true");
  const Ran verified = run("systemd-analyze verify --man=no " + file);
  EXPECT_EQ(verified.output, "");
  EXPECT_EQ(verified.status, 0);
  // 2.0 of 10 is what systemd calls OK; without a sandbox it is 9.6.
  const Ran judged =
      run("systemd-analyze security --no-pager --offline=yes --threshold=20 " + file);
  EXPECT_EQ(judged.status, 0) << judged.output;
}

}  // namespace
}  // namespace strand::server
