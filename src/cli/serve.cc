#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/server_settings.h"
#include "server/config.h"
#include "server/log.h"
#include "server/server.h"

// serve

namespace strand::cli {

namespace {

struct ServeOptions {
  Format format = Format::text;  // unused: what a server says is its log
  server::ConfigSources sources = {};
  bool print_config = false;
};

void declare(CLI::App& app, ServeOptions& options) {
  add_server_settings(app, options.sources);
  add_flag(app, "--print-config", options.print_config,
           "Prints what file, environment and options come to, and ends");
}

// Signals that a server takes, blocked in all its threads and taken by one. Made before there are
// others.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP})
      ::sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int wait() const {
    int signal = 0;
    while (::sigwait(&set_, &signal) != 0) {
    }
    return signal;
  }
  // None: nothing came within that time.
  [[nodiscard]] std::optional<int> wait_for(std::chrono::milliseconds time) const {
    const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? std::optional(signal) : std::nullopt;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

// For a person who has just started one.
void greet(const server::Server& server) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::string text = "\n";
  if (server.http_port() != 0) {
    text += fmt::format("  look at it    http://127.0.0.1:{}/\n", server.http_port());
  }
  if (server.grpc_port() != 0) {
    const std::string store =
        server.grpc_port() == 7481
            ? ""
            : fmt::format(" --store strand://127.0.0.1:{}", server.grpc_port());
    text += fmt::format(
        "  send          strand send orders 'hello' --key customer-7{0}\n"
        "  receive       strand receive orders --ack{0}\n"
        "  who waits     strand queue ls{0}\n",
        store);
  }
  text += "  stop          Ctrl-C\n\n";
  std::fputs(text.c_str(), stderr);
}

// Ends the server politely; a second signal ends the program at once.
void drain(server::Server& server, const Signals& signals, server::Log& log) {
  std::future<void> drained = std::async(std::launch::async, [&] { server.drain(); });
  while (drained.wait_for(std::chrono::milliseconds{0}) != std::future_status::ready) {
    const auto signal = signals.wait_for(std::chrono::milliseconds{20});
    if (signal && *signal != SIGHUP) {
      log.warning("server.hurried", "a second signal: what is under way is cut off");
      std::_Exit(static_cast<int>(Exit::failed));
    }
  }
}

Exit run(const ServeOptions& options, Output& /*output*/) {
  server::ConfigSources sources = options.sources;
  sources.environment = server::process_environment();
  const auto config = server::load_config(sources);
  if (!config) return wrong_usage(config.error().message);
  if (options.print_config) {
    std::fputs(server::print(*config).c_str(), stdout);
    return Exit::done;
  }
  const Signals signals;
  server::Log log({.format = config->log.format, .level = config->log.level});
  auto server = server::Server::start(*config, STRAND_VERSION, log);
  if (!server) {
    log.error("server.failed", server.error().message);
    return Exit::failed;
  }
  greet(**server);
  while (true) {
    if (signals.wait() == SIGHUP) {
      std::ignore = (*server)->reload();
      continue;
    }
    drain(**server, signals, log);
    return Exit::done;
  }
}

}  // namespace

void add_serve_commands(Family program) {
  const Description description = {
      .name = "serve",
      .what = "Makes a store a service: gRPC for clients, HTTP for those who look after it.",
      .example =
          "  strand serve\n"
          "  strand serve --store sqlite:orders.db --log-format json\n"
          "  strand serve --config strand.toml --print-config"};
  auto options = std::make_shared<ServeOptions>();
  CLI::App& app = add_described(program, description);
  declare(app, *options);
  app.callback([&chosen = program.chosen, options] {
    chosen = [options] { return run_command(run, *options); };
  });
}

}  // namespace strand::cli
