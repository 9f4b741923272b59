#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/commands.h"
#include "server/quick_locks.h"

// The program `strand`: finds the command, and runs it.

namespace strand::cli {

namespace {

// Deepest first: `strand queue ls` ends in the command `ls` of `queue`.
const CLI::App& deepest(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : deepest(*parsed.front());
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  const auto shown = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* command : app.get_subcommands(shown))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      names.push_back("--" + name);
  }
  return names;
}

// A word that nobody takes: mistyped, most likely.
Exit unknown_word(const CLI::App& app, const std::string& word) {
  const std::string name = full_name(app);
  const std::string shown = base::printable(word);
  if (word.starts_with('-')) {
    const std::string option = word.substr(0, word.find('='));
    return wrong_usage(fmt::format("{} has no option {}{} (see {} --help)", name, shown,
                                   suggestion(option, option_names(app)), name));
  }
  const auto names = command_names(app);
  if (!names.empty()) {
    return wrong_usage(fmt::format("{} has no command '{}'{} (there are {})", name, shown,
                                   suggestion(word, names), fmt::join(names, ", ")));
  }
  return wrong_usage(fmt::format("{} takes no argument '{}' (see {} --help)", name, shown, name));
}

Exit explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    // --help or --version
    return Exit{app.exit(error)};
  }
  const CLI::App& command = deepest(app);
  const auto unknown = app.remaining(true);
  if (!unknown.empty()) return unknown_word(command, unknown.front());
  const auto names = command_names(command);
  if (!names.empty()) {
    return wrong_usage(fmt::format("{} needs a command: {} (see {} --help)", full_name(command),
                                   fmt::join(names, ", "), full_name(command)));
  }
  return wrong_usage(fmt::format("{} (see {} --help)", error.what(), full_name(command)));
}

// `strand help queue ls` is `strand queue ls --help`. In reverse, as the parser takes it.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return {words.rbegin(), words.rend()};
}

Exit run(int argc, char** argv) {
  Chosen chosen;
  CLI::App app("Durable, ordered, per-key work: messages, lanes, leases.", "strand");
  app.set_version_flag("--version", "strand " STRAND_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("Positionals", "Arguments");
  app.get_formatter()->label("REQUIRED", "(required)");
  app.footer(
      "strand COMMAND --help tells more, with an example. A store is named by a URL such as\n"
      "rocksdb:PATH; say it with --store, or in the environment with STRAND_STORE.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing to receive.");
  server::use_quick_locks();
  const Family program{.app = app, .chosen = chosen};
  add_serve_commands(program);
  add_send_commands(program);
  add_receive_commands(program);
  add_settle_commands(program);
  add_consume_commands(program);
  add_queue_commands(program);
  add_dlq_commands(program);
  add_topic_commands(program);
  add_workflow_commands(program);
  add_saga_commands(program);
  add_store_commands(program);
  add_check_commands(program);
  add_token_commands(program);
  add_relay_commands(program);
  add_bench_commands(program);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return chosen();
}

}  // namespace

}  // namespace strand::cli

int main(int argc, char** argv) {
  // A reader that goes away is noticed when writing.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return static_cast<int>(strand::cli::run(argc, argv));
  } catch (const std::exception& error) {
    return static_cast<int>(strand::cli::fail(error.what()));
  }
}
