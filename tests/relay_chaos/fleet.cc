#include "relay_chaos/fleet.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/daemon.h"

namespace strand::relay_chaos {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* program = STRAND_BINARY_DIR "/strand";
// They are ours, and end with us whatever happens.
constexpr postgres::SpawnOptions as_ours{.as_account = false, .end_signal = SIGKILL};

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool has_socket(pid_t process, const std::string& name) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process), gone)) {
    if (fs::read_symlink(entry.path(), gone) == name) return true;
  }
  return false;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Fleet::Fleet(postgres::TestServer& server, kafka::TestBroker& broker, FleetOptions options)
    : server_(server),
      broker_(broker),
      options_(std::move(options)),
      folder_(fs::temp_directory_path()),
      url_(server.fresh_database()),
      topic_(broker.fresh_topic(4)) {
  std::ofstream(config()) << fmt::format(
      "[database]\nurl = \"{}\"\n\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n\n"
      "[relay]\nstrategy = \"{}\"\nworkers = {}\nlease = \"{}ms\"\n{}\n\n"
      "[tables.outbox]\ntopic = \"{}\"\n",
      url_, broker_.address(), options_.strategy, options_.workers, options_.lease.count(),
      options_.relay, topic_);
  run({"relay", "init", "--apply"});
  for (int i = 0; i < options_.processes; ++i)
    relays_.push_back({.number = i});
}

fs::path Fleet::trace_of(const Relay& relay) const {
  return folder_.path() / (relay.name + ".trace");
}

Fleet::~Fleet() {
  for (const Relay& relay : relays_) {
    if (relay.pid <= 0) continue;
    ::kill(relay.pid, SIGKILL);
    wait_for(relay.pid);
  }
}

void Fleet::start() {
  for (Relay& relay : relays_)
    start(relay);
}

void Fleet::start(Relay& relay) {
  relay.name = fmt::format("p{}.{}", relay.number, relay.run++);
  relay.started_us = now_us();
  relay.pid = postgres::spawn({program, "relay", "run", "--config", config(), "--process",
                               relay.name, "--trace", trace_of(relay)},
                              folder_.path() / "relays.log", as_ours);
}

void Fleet::stop() {
  for (Relay& relay : relays_) {
    if (relay.paused) resume(relay);
    ::kill(relay.pid, SIGTERM);
  }
  for (Relay& relay : relays_) {
    const int exit = wait_for(std::exchange(relay.pid, -1));
    if (exit != 0) {
      throw std::runtime_error(
          fmt::format("{} ended with {} when it was told to finish: {}", relay.name, exit, log()));
    }
  }
}

Fleet::Relay* Fleet::pick(sim::Random& random) {
  std::vector<Relay*> awake;
  for (Relay& relay : relays_)
    if (!relay.paused) awake.push_back(&relay);
  return awake.empty() ? nullptr : random.pick(awake);
}

void Fleet::kill_one(sim::Random& random) {
  Relay* relay = pick(random);
  if (relay == nullptr) return;
  // It may be in the middle of anything until the signal; from then on it does nothing.
  ::kill(relay->pid, SIGKILL);
  wait_for(relay->pid);
  const std::int64_t at = now_us();
  faults_.push_back({.process = relay->name, .from_us = at, .until_us = at, .fatal = true});
  start(*relay);
}

void Fleet::pause_one(sim::Random& random) {
  Relay* relay = pick(random);
  if (relay == nullptr) return;
  relay->fault = faults_.size();
  faults_.push_back({.process = relay->name, .from_us = now_us(), .until_us = now_us()});
  ::kill(relay->pid, SIGSTOP);
  relay->paused = true;
  relay->resume_at =
      Clock::now() + options_.lease + std::chrono::milliseconds(random.between(300, 900));
}

void Fleet::resume(Relay& relay) {
  ::kill(relay.pid, SIGCONT);
  // What it does next, it does not know better.
  faults_[relay.fault].until_us = now_us();
  relay.paused = false;
}

void Fleet::end_connection(sim::Random& random) {
  // Half of the time one in the middle of something, if there is one.
  const auto admin = postgres::Connection::open(server_.admin_url());
  if (!admin) throw std::runtime_error(admin.error().message);
  const auto found = (*admin)->run(
      postgres::Group{{"SELECT pid, client_port FROM pg_stat_activity WHERE usename = 'strand' AND "
                       "client_port IS NOT NULL AND application_name <> 'chaos-producer' "
                       "ORDER BY (state = 'active' AND $1) DESC, hashtextextended(pid::text, $2)",
                       postgres::Params()
                           .boolean(random.one_in(2))
                           .int8(static_cast<std::int64_t>(random.next() >> 1U))}});
  if (!found) throw std::runtime_error(found.error().message);
  for (std::size_t i = 0; i < found->front().size(); ++i) {
    const Relay* relay = owner_of(found->front().int4(i, 1));
    if (relay == nullptr) continue;
    const std::int64_t from = now_us();
    const auto ended = (*admin)->run(postgres::Group{
        {"SELECT pg_terminate_backend($1)", postgres::Params().int4(found->front().int4(i, 0))}});
    if (!ended) throw std::runtime_error(ended.error().message);
    faults_.push_back({.process = relay->name, .from_us = from, .until_us = now_us()});
    return;
  }
}

// Which process has this port of 127.0.0.1 at its end of a connection.
const Fleet::Relay* Fleet::owner_of(int port) const {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    // "NUMBER: LOCAL:PORT REMOTE:PORT STATE QUEUES TIMERS RETRANSMITS UID TIMEOUT INODE", in hex
    std::istringstream words(line);
    std::string word;
    std::string local;
    words >> word >> local;
    if (std::stoi(local.substr(local.find(':') + 1), nullptr, 16) != port) continue;
    for (int i = 0; i < 8; ++i)
      words >> word;
    for (const Relay& relay : relays_)
      if (has_socket(relay.pid, fmt::format("socket:[{}]", word))) return &relay;
  }
  return nullptr;
}

void Fleet::restart_postgres(postgres::TestServer::Stop how) {
  const std::int64_t from = now_us();
  server_.restart(how);
  everybody(from);
}

void Fleet::restart_kafka(bool kill) {
  if (kill) {
    broker_.kill();
  } else {
    broker_.stop();
  }
  broker_.start();
  // It takes no claim from anybody, so it excuses nothing in the traces.
  ++kafka_faults_;
}

void Fleet::everybody(std::int64_t from_us) {
  faults_.push_back({.from_us = from_us, .until_us = now_us()});
}

void Fleet::look_after() {
  for (Relay& relay : relays_) {
    if (relay.paused && Clock::now() >= relay.resume_at) resume(relay);
    int status = 0;
    if (relay.pid > 0 && ::waitpid(relay.pid, &status, WNOHANG) == relay.pid) {
      relay.pid = -1;
      // One that cannot look at its table when it starts says so, and ends: whoever runs it starts
      // it again.
      if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && was_disturbed_at_its_start(relay)) {
        start(relay);
        continue;
      }
      throw std::runtime_error(
          fmt::format("{} has ended by itself (status {}): {}", relay.name, status, log()));
    }
  }
}

// It has done nothing yet, and was hit.
bool Fleet::was_disturbed_at_its_start(const Relay& relay) const {
  std::error_code absent;
  const auto traced = fs::file_size(trace_of(relay), absent);
  return (absent || traced == 0) && std::ranges::any_of(faults_, [&](const Fault& fault) {
           return (fault.process.empty() || fault.process == relay.name) &&
                  fault.until_us >= relay.started_us;
         });
}

void Fleet::wait_until(const std::function<bool()>& done, std::chrono::seconds at_most,
                       const std::string& what) {
  const auto deadline = Clock::now() + at_most;
  while (!done()) {
    if (Clock::now() > deadline) {
      throw std::runtime_error(
          fmt::format("after {} s it is still not so that {}: {}", at_most.count(), what, log()));
    }
    look_after();
    std::this_thread::sleep_for(20ms);
  }
}

std::vector<Step> Fleet::steps() const {
  std::vector<Step> all;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path().extension() != ".trace") continue;
    auto steps = read_trace(entry.path());
    all.insert(all.end(), std::make_move_iterator(steps.begin()),
               std::make_move_iterator(steps.end()));
  }
  return all;
}

std::string Fleet::log() const {
  std::string text = postgres::whole_file(folder_.path() / "relays.log");
  constexpr std::size_t shown = 4000;
  return text.size() > shown ? text.substr(text.size() - shown) : text;
}

std::string Fleet::run(const std::vector<std::string>& words, int exit) const {
  const fs::path output = folder_.path() / "output";
  fs::remove(output);
  std::vector<std::string> command{program};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--config", config()});
  const int ended = wait_for(postgres::spawn(command, output, as_ours));
  std::string text = postgres::whole_file(output);
  if (ended != exit) {
    throw std::runtime_error(
        fmt::format("{} {} ended with {}: {}", words.at(0), words.at(1), ended, text));
  }
  return text;
}

}  // namespace strand::relay_chaos
