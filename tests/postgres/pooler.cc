#include "postgres/pooler.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/daemon.h"
#include "pq/connection.h"

namespace strand::postgres {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* program = "/usr/sbin/pgbouncer";

std::string password_of(const std::string& url) {
  const std::size_t colon = url.find(':', url.find("//"));
  return url.substr(colon + 1, url.find('@') - colon - 1);
}

void write_for_server(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  own(path);
}

}  // namespace

std::optional<std::string> TestPooler::missing() {
  if (::access(program, X_OK) == 0) return std::nullopt;
  return fmt::format("there is no {}; install the Debian package pgbouncer", program);
}

TestPooler::TestPooler(const TestServer& server, std::string_view mode)
    : folder_(fs::temp_directory_path()), port_(free_port()) {
  const fs::path settings = folder_.path() / "pgbouncer.ini";
  write_for_server(settings,
                   fmt::format("[databases]\n* = host=127.0.0.1 port={} user=strand password={}\n"
                               "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n"
                               "unix_socket_dir =\nauth_type = any\npool_mode = {}\n"
                               "ignore_startup_parameters = extra_float_digits\n",
                               server.port(), password_of(server.url()), port_, mode));
  pid_ = spawn({program, settings}, folder_.path() / "log");
  wait_until_ready();
}

TestPooler::~TestPooler() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void TestPooler::wait_until_ready() const {
  for (int i = 0; i < 500; ++i) {
    if (Connection::open(through("postgres://strand@127.0.0.1:1/postgres"), 1s)) return;
    std::this_thread::sleep_for(20ms);
  }
  throw std::runtime_error("pgbouncer does not answer: " + whole_file(folder_.path() / "log"));
}

std::string TestPooler::through(const std::string& url) const {
  const std::size_t port = url.rfind(':', url.rfind('/')) + 1;
  return url.substr(0, port) + std::to_string(port_) + url.substr(url.find('/', port));
}

}  // namespace strand::postgres
