#include "cli/bench/routing_worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/workflow_worker.h>

#include "base/text.h"
#include "cli/bench/listening.h"

namespace strand::cli {

namespace {

using disk::File;

// A process that says nothing for so long never will.
constexpr std::chrono::seconds patience{30};

std::unexpected<Error> trouble(std::string_view what) {
  return failure(Errc::io_error, fmt::format("a worker process {}", what));
}

struct Pipe {
  File read{-1};
  File write{-1};
};

// Closed in the processes that are started later: they would keep it open.
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return failure(Errc::io_error, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  return Pipe{.read = File(ends[0]), .write = File(ends[1])};
}

std::vector<std::string> command_of(const RoutingWorkerOptions& options) {
  return {"strand",
          "bench",
          "routing-worker",
          "--owner",
          options.owner,
          "--strategy",
          std::string(name_of(options.strategy)),
          "--idle-timeout",
          format_duration(options.idle_timeout),
          "--turn-lease",
          format_duration(options.turn_lease),
          "--heartbeat",
          format_duration(options.heartbeat),
          "--grace",
          format_duration(options.grace)};
}

}  // namespace

std::string_view name_of(Routing strategy) {
  const auto* const found =
      std::ranges::find(routing_names, strategy, &decltype(routing_names)::value_type::second);
  return found->first;
}

Result<Routing> parse_routing(std::string_view name) {
  for (const auto& [known, strategy] : routing_names) {
    if (name == known) return strategy;
  }
  return failure(
      Errc::invalid_argument,
      fmt::format("'{}' is none of none, automatic, affinity, cache_aware and consistent_hash",
                  base::printable(name)));
}

// --- The process ---

Result<void> run_routing_worker(const RoutingWorkerOptions& options) {
  std::string line;
  if (!std::getline(std::cin, line)) {
    return failure(Errc::invalid_argument, "the URL of a store is missing on standard input");
  }
  const auto store = open(line);
  if (!store) return std::unexpected(store.error());
  WorkflowWorkerOptions working;
  working.workflows = {listening()};
  working.owner = options.owner;
  working.turn_lease = options.turn_lease;
  working.cache.idle_timeout = options.idle_timeout;
  working.cache.max_instances = 10'000;
  working.routing.strategy = options.strategy;
  working.routing.heartbeat = options.heartbeat;
  working.routing.grace = options.grace;
  const auto worker = WorkflowWorker::start(**store, std::move(working));
  if (!worker) return std::unexpected(worker.error());
  std::cout << "ready" << std::endl;
  while (std::getline(std::cin, line)) {
    const boost::json::object counts{
        {"hits", count_of(**worker, "strand_orchestration_cache_hits_total")},
        {"misses", count_of(**worker, "strand_orchestration_cache_misses_total")},
        {"lanes_moved", count_of(**worker, "strand_routing_lanes_moved_total")}};
    std::cout << counts << std::endl;
  }
  return {};
}

// --- Its other end ---

Result<RoutingWorker> RoutingWorker::start(const std::string& url,
                                           const RoutingWorkerOptions& options) {
  auto in = make_pipe();
  auto out = make_pipe();
  if (!in) return std::unexpected(in.error());
  if (!out) return std::unexpected(out.error());
  std::vector<std::string> words = command_of(options);
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in->read.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out->write.fd(), STDOUT_FILENO);
  pid_t id = -1;
  const int failed = posix_spawn(&id, "/proc/self/exe", &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return failure(Errc::io_error,
                   fmt::format("cannot start a worker process: {}", std::strerror(failed)));
  }
  RoutingWorker worker(id, std::move(in->write), std::move(out->read));
  if (auto said = worker.write_line(url); !said) return std::unexpected(said.error());
  return worker;
}

RoutingWorker::~RoutingWorker() { kill(); }

Result<void> RoutingWorker::write_line(std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  if (::write(in_.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return trouble("does not listen");
  }
  return {};
}

Result<std::string> RoutingWorker::read_line() {
  while (true) {
    if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{.fd = out_.fd(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, std::chrono::milliseconds(patience).count());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return trouble("does not answer");
    std::array<char, 4096> part{};
    const ssize_t count = ::read(out_.fd(), part.data(), part.size());
    if (count <= 0) return trouble("has ended before its time");
    text_.append(part.data(), static_cast<std::size_t>(count));
  }
}

Result<void> RoutingWorker::wait_until_ready() {
  const auto line = read_line();
  if (!line) return std::unexpected(line.error());
  if (*line != "ready") return trouble(fmt::format("said '{}'", base::printable(*line)));
  return {};
}

Result<RoutingCounts> RoutingWorker::counts() {
  if (auto asked = write_line("counts"); !asked) return std::unexpected(asked.error());
  const auto line = read_line();
  if (!line) return std::unexpected(line.error());
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(*line, error);
  if (error || !value.is_object()) return trouble("has answered with something that is no JSON");
  const auto number = [&](std::string_view name) {
    return value.as_object().at(name).to_number<std::uint64_t>();
  };
  return RoutingCounts{
      .hits = number("hits"), .misses = number("misses"), .lanes_moved = number("lanes_moved")};
}

void RoutingWorker::kill() {
  if (id_ < 0) return;
  ::kill(id_, SIGKILL);
  ::waitpid(std::exchange(id_, -1), nullptr, 0);
}

Result<void> RoutingWorker::stop() {
  if (id_ < 0) return {};
  in_ = File(-1);
  int status = 0;
  ::waitpid(std::exchange(id_, -1), &status, 0);
  if (status != 0) return trouble(fmt::format("has ended with status {}", status));
  return {};
}

}  // namespace strand::cli
