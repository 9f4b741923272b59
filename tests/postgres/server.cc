#include "postgres/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/daemon.h"
#include "pq/connection.h"

namespace strand::postgres {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::string_view folder_prefix = "strand-postgres-";
const fs::path programs = "/usr/lib/postgresql/15/bin";

fs::path parent_folder(const ServerOptions& options) {
  if (!options.parent.empty()) return options.parent;
  const fs::path memory = "/dev/shm";
  const bool usable = !options.durable && ::access(memory.c_str(), W_OK | X_OK) == 0;
  return usable ? memory : fs::temp_directory_path();
}

std::string random_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

void run_tool(const std::vector<std::string>& command, const fs::path& log) {
  const pid_t tool = spawn(command, log);
  int status = 0;
  while (::waitpid(tool, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    throw std::runtime_error(
        fmt::format("{} failed (status {}): {}", command.front(), status, whole_file(log)));
  }
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    // "PID (NAME) STATE PARENT ..."; the name may contain anything.
    const std::string stat = whole_file(entry.path() / "stat");
    const std::size_t end = stat.rfind(')');
    if (end != std::string::npos && end + 4 < stat.size() &&
        std::atoi(stat.c_str() + end + 4) == parent) {
      children.push_back(std::atoi(name.c_str()));
    }
  }
  return children;
}

bool is_running(pid_t process) {
  const std::string stat = whole_file(fmt::format("/proc/{}/stat", process));
  const std::size_t end = stat.rfind(')');
  return end != std::string::npos && end + 2 < stat.size() && stat[end + 2] != 'Z';
}

// A server that was killed leaves its segment of shared memory to its next start; there is none.
void remove_shared_memory(const fs::path& data) {
  std::istringstream pid_file(whole_file(data / "postmaster.pid"));
  std::string line;
  for (int i = 0; i < 6; ++i) {
    std::getline(pid_file, line);
  }
  unsigned long key = 0;
  int segment = 0;
  if (pid_file >> key >> segment) {
    ::shmctl(segment, IPC_RMID, nullptr);
  }
}

// Others may put what looks like ours into a folder where everybody can write.
bool is_own_folder(const fs::path& path, const Account& who) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         (status.st_uid == ::geteuid() || status.st_uid == who.user);
}

void remove_left_behind(const fs::path& parent) {
  const Account who = account().value();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(folder_prefix) ||
        !is_own_folder(entry.path(), who)) {
      continue;
    }
    const int lock = ::open((entry.path() / "lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (lock < 0) {
      continue;
    }
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) {
      remove_shared_memory(entry.path() / "data");
      fs::remove_all(entry.path(), ignored);
    }
    ::close(lock);
  }
}

// A server that was never started, to be copied: to make one takes a second, to copy it a tenth.
// Each user has one a day, because what lies in such folders for long is removed file by file.
fs::path server_template() {
  const Account who = account().value();
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::string prefix = fmt::format("{}template-{}-", folder_prefix, who.user);
  const auto name_of = [&](std::chrono::sys_days day) {
    return prefix + std::to_string(day.time_since_epoch().count());
  };
  const fs::path wanted = fs::temp_directory_path() / name_of(today);
  if (is_own_folder(wanted, who)) {
    return wanted;
  }
  const ServerFolder workshop(fs::temp_directory_path());
  const fs::path made = workshop.path() / "template";
  fs::create_directory(made);
  fs::permissions(made, fs::perms::owner_all);
  own(made);
  const fs::path password = made / "password";
  std::ofstream(password) << random_word();
  own(password);
  fs::permissions(password, fs::perms::owner_read | fs::perms::owner_write);
  run_tool({programs / "initdb", "--pgdata=" + (made / "data").string(), "--no-sync",
            "--encoding=UTF8", "--locale=C.UTF-8", "--username=admin",
            "--pwfile=" + password.string(), "--auth=scram-sha-256", "--no-instructions"},
           workshop.path() / "tool.log");
  // Another process may have been quicker; then its template is as good.
  std::error_code taken;
  fs::rename(made, wanted, taken);
  if (!is_own_folder(wanted, who)) {
    throw std::runtime_error(wanted.string() + " is not ours; remove it");
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(), ignored)) {
    const std::string name = entry.path().filename();
    // Yesterday's may be in use around midnight.
    if (name.starts_with(prefix) && name != name_of(today) &&
        name != name_of(today - std::chrono::days(1)) && is_own_folder(entry.path(), who)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  return wanted;
}

}  // namespace

ServerFolder::ServerFolder(const fs::path& parent) {
  remove_left_behind(parent);
  std::string name = parent / (std::string(folder_prefix) + "XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  }
  path_ = name;
  // Locked before it has its name: under that name, a lock that is free is that of a dead process.
  const fs::path unnamed = path_ / "new-lock";
  lock_ = ::open(unnamed.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw std::system_error(errno, std::generic_category(), "lock " + unnamed.string());
  }
  fs::rename(unnamed, path_ / "lock");
  own(path_);
}

ServerFolder::~ServerFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

std::optional<std::string> TestServer::missing() {
  for (const char* name : {"initdb", "postgres", "pg_basebackup"}) {
    if (::access((programs / name).c_str(), X_OK) != 0) {
      return fmt::format("there is no {}; install the Debian package postgresql-15",
                         (programs / name).string());
    }
  }
  if (!account()) {
    return "PostgreSQL does not run as root, and there is no user postgres";
  }
  return std::nullopt;
}

TestServer::TestServer(ServerOptions options) : TestServer(std::move(options), nullptr) {}

std::unique_ptr<TestServer> TestServer::standby_of(TestServer& primary, ServerOptions options) {
  return std::unique_ptr<TestServer>(new TestServer(std::move(options), &primary));
}

TestServer::TestServer(ServerOptions options, TestServer* primary)
    : options_(std::move(options)), folder_(parent_folder(options_)), port_(free_port()) {
  if (primary != nullptr) {
    copy(*primary);
  } else {
    initialise();
  }
  start_on_free_port();
  if (primary == nullptr) {
    sql(fmt::format("CREATE ROLE strand LOGIN PASSWORD '{}'", password_));
  }
}

TestServer::~TestServer() {
  if (running()) {
    kill();
  }
  remove_shared_memory(data());
}

void TestServer::initialise() {
  const fs::path made = server_template();
  password_ = whole_file(made / "password");
  run_tool({"/bin/cp", "--archive", "--reflink=auto", made / "data", data()},
           folder_.path() / "tool.log");
  write_settings();
}

void TestServer::copy(TestServer& primary) {
  password_ = primary.password_;
  const std::string address =
      fmt::format("host=127.0.0.1 port={} user=admin password={} application_name=standby",
                  primary.port_, password_);
  run_tool({programs / "pg_basebackup", "--pgdata=" + data().string(), "--no-sync",
            "--checkpoint=fast", "--wal-method=stream", "--dbname=" + address},
           folder_.path() / "tool.log");
  const fs::path mark = data() / "standby.signal";
  std::ofstream(mark).close();
  own(mark);
  options_.settings.emplace("primary_conninfo", address);
  write_settings();
}

void TestServer::write_settings() {
  const std::string durable = options_.durable ? "on" : "off";
  std::map<std::string, std::string> settings{
      {"port", std::to_string(port_)},
      {"listen_addresses", "127.0.0.1"},
      {"unix_socket_directories", folder_.path()},
      {"fsync", durable},
      {"full_page_writes", durable},
      {"shared_buffers", "32MB"},
      {"max_wal_size", "256MB"},
      {"jit", "off"},
      // In the folder, so that nothing stays behind after a kill.
      {"dynamic_shared_memory_type", "mmap"},
  };
  for (const auto& [name, value] : options_.settings) {
    settings[name] = value;
  }
  // Of several lines for one setting the last one counts.
  std::ofstream file(data() / "postgresql.conf", std::ios::app);
  for (const auto& [name, value] : settings) {
    file << fmt::format("{} = '{}'\n", name, value);
  }
}

void TestServer::start_on_free_port() {
  for (int i = 0; i < 5; ++i) {
    try {
      start();
      return;
    } catch (const std::runtime_error&) {
      if (log().find("Address already in use") == std::string::npos || i == 4) {
        throw;
      }
    }
    port_ = free_port();
    write_settings();
  }
}

void TestServer::start() {
  pid_ = spawn({programs / "postgres", "-D", data()}, folder_.path() / "server.log");
  wait_until_ready();
}

void TestServer::wait_until_ready() {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!ready()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error("PostgreSQL did not start: " + log());
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("PostgreSQL does not get ready: " + log());
    }
    std::this_thread::sleep_for(5ms);
  }
}

// As it says itself, in a file: at its port there might be another one.
bool TestServer::ready() const {
  std::istringstream pid_file(whole_file(data() / "postmaster.pid"));
  std::string pid;
  std::string status;
  std::getline(pid_file, pid);
  for (int i = 0; i < 7; ++i) {
    std::getline(pid_file, status);
  }
  return pid == std::to_string(pid_) && status.starts_with("ready");
}

void TestServer::stop(Stop how) {
  ::kill(pid_, how == Stop::fast ? SIGINT : SIGQUIT);
  reap();
}

void TestServer::kill() {
  // Stopped first, so that it starts no more processes while they are listed.
  ::kill(pid_, SIGSTOP);
  const std::vector<pid_t> children = children_of(pid_);
  ::kill(pid_, SIGKILL);
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
  }
  reap();
  // The next start is refused while one of them is there.
  while (std::ranges::any_of(children, is_running)) {
    std::this_thread::sleep_for(1ms);
  }
}

void TestServer::restart(Stop how) {
  stop(how);
  start();
}

void TestServer::reap() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string TestServer::url(std::string_view database) const {
  return fmt::format("postgres://strand:{}@127.0.0.1:{}/{}", password_, port_, database);
}

std::string TestServer::admin_url(std::string_view database) const {
  return fmt::format("postgres://admin:{}@127.0.0.1:{}/{}", password_, port_, database);
}

std::unique_ptr<Connection> TestServer::admin(std::string_view database) const {
  auto connection = Connection::open(admin_url(database) + "?target_session_attrs=any");
  if (!connection) {
    throw std::runtime_error(connection.error().message);
  }
  return std::move(*connection);
}

void TestServer::sql(const std::string& script, std::string_view database) {
  if (const auto done = admin(database)->script(script); !done) {
    throw std::runtime_error(fmt::format("{}: {}", script, done.error().message));
  }
}

void TestServer::wait_until(const std::string& query) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  const auto connection = admin();
  const Group group{{query, {}}};
  while (std::chrono::steady_clock::now() < deadline) {
    const GroupResult result = connection->run(group);
    if (!result) {
      throw std::runtime_error(fmt::format("{}: {}", query, result.error().message));
    }
    if (!result->front().empty()) {
      return;
    }
    std::this_thread::sleep_for(5ms);
  }
  throw std::runtime_error("no row came within a minute: " + query);
}

std::string TestServer::fresh_database() {
  const std::string name = fmt::format("strand_{}", ++databases_);
  sql(fmt::format("CREATE DATABASE {} OWNER strand TEMPLATE template0", name));
  return url(name);
}

void TestServer::promote() {
  sql("SELECT pg_promote(true, 60)");
  wait_until("SELECT 1 WHERE NOT pg_is_in_recovery()");
}

std::string TestServer::log() const { return whole_file(folder_.path() / "server.log"); }

TestPair::TestPair(const ServerOptions& options)
    : primary_(std::make_unique<TestServer>(options)),
      standby_(TestServer::standby_of(*primary_, options)) {
  // Only now: before there is a standby, no commit would come to an end.
  primary_->sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  primary_->sql("SELECT pg_reload_conf()");
  primary_->wait_until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
}

std::string TestPair::fresh_database() {
  const std::string at_primary = primary_->fresh_database();
  const std::size_t slash = at_primary.rfind('/');
  return fmt::format("{},127.0.0.1:{}{}", at_primary.substr(0, slash), standby_->port(),
                     at_primary.substr(slash));
}

void TestPair::fail_over() {
  primary_->kill();
  standby_->promote();
}

TestServer& shared_server() {
  static TestServer server;
  return server;
}

}  // namespace strand::postgres
