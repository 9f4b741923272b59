#pragma once

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

// How servers for tests are run: as a user that they accept, and not longer than this process.

namespace strand::postgres {

// PostgreSQL refuses to run as root: then it runs as the user that its package makes.
struct Account {
  bool change = false;
  uid_t user = 0;
  gid_t group = 0;
};
// Nothing if there is no such user.
std::optional<Account> account();

// Gives the file or folder to that user.
void own(const std::filesystem::path& path);

struct SpawnOptions {
  bool as_account = true;    // otherwise as who we are
  int end_signal = SIGQUIT;  // what the kernel ends it with
};

// Starts a program as that user; what it says goes to the end of `log`. The kernel ends it when the
// thread that calls this ends.
pid_t spawn(const std::vector<std::string>& command, const std::filesystem::path& log,
            SpawnOptions options = {});

// Free a moment ago; another process may take it before us, and then the server says so. Not one of
// those that the kernel gives to clients: it must still be free when the server is started again.
int free_port();

std::string whole_file(const std::filesystem::path& path);

}  // namespace strand::postgres
