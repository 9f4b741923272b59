#include "server_chaos/server_process.h"

#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

namespace strand::server_chaos {

using namespace std::chrono_literals;

namespace {

constexpr auto start_within = 30s;
constexpr auto end_within = 30s;

const std::string program = STRAND_BINARY_DIR "/strand";

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// From the line that says where clients connect.
std::optional<std::uint16_t> port_in(std::string_view log) {
  const std::size_t line = log.find(R"("event":"grpc.listening")");
  if (line == std::string_view::npos) return std::nullopt;
  constexpr std::string_view name = R"("port":)";
  const std::size_t at = log.find(name, line);
  if (at == std::string_view::npos || log.find('\n', at) == std::string_view::npos) {
    return std::nullopt;
  }
  std::uint16_t port = 0;
  std::from_chars(log.data() + at + name.size(), log.data() + log.size(), port);
  return port;
}

}  // namespace

ServerProcess::ServerProcess(std::filesystem::path folder) : folder_(std::move(folder)) { start(); }

std::filesystem::path ServerProcess::log() const {
  return folder_ / fmt::format("server.{}.log", starts_);
}

std::string ServerProcess::store() const { return "rocksdb:" + (folder_ / "store").native(); }

void ServerProcess::fail(const std::string& what) const {
  const std::string text = contents_of(log());
  constexpr std::size_t shown = 2000;
  throw std::runtime_error(fmt::format("the server, start {}: {}\n{}", starts_, what,
                                       text.substr(text.size() - std::min(text.size(), shown))));
}

void ServerProcess::start() {
  ++starts_;
  // The shell is replaced by the program, so that signals reach it.
  child_ = std::make_unique<crash::Child>(crash::Child::Words{
      "/bin/sh", "-c", R"(log=$1; shift; exec "$@" 2>"$log")", "sh", log(), program, "serve",
      "--store", store(), "--http", "", "--grpc", "127.0.0.1:0", "--log-format", "json"});
  for (const auto until = std::chrono::steady_clock::now() + start_within;;) {
    if (const auto port = port_in(contents_of(log()))) {
      port_ = *port;
      return;
    }
    if (std::chrono::steady_clock::now() > until) fail("does not listen");
    // Its standard output stays empty; the end of it is the end of the program.
    child_->line(std::chrono::steady_clock::now() + 2ms);
    if (child_->over()) fail("ended instead of listening");
  }
}

void ServerProcess::kill() {
  child_->signal(SIGKILL);
  const int status = child_->wait();
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    fail(fmt::format("had ended before it was killed, with status {}", status));
  }
}

void ServerProcess::drain() {
  child_->signal(SIGTERM);
  const auto until = std::chrono::steady_clock::now() + end_within;
  while (!child_->over() && std::chrono::steady_clock::now() < until)
    child_->line(until);
  if (!child_->over()) fail("does not end when it is asked to");
  if (const int status = child_->wait(); status != 0) {
    fail(fmt::format("was asked to end, and ended with status {}", status));
  }
}

void ServerProcess::pause(std::chrono::milliseconds length) {
  child_->signal(SIGSTOP);
  std::this_thread::sleep_for(length);
  child_->signal(SIGCONT);
}

std::string ServerProcess::check() const {
  crash::Child checking({"/bin/sh", "-c", R"(exec "$@" 2>&1)", "sh", program, "check", store()});
  std::string text;
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (const auto line = checking.line(until))
    text += *line + "\n";
  if (!checking.over()) return "strand check does not end";
  return checking.wait() == 0 ? "" : text;
}

}  // namespace strand::server_chaos
