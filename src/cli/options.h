#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <strand/store.h>

#include "cli/errors.h"
#include "cli/output.h"
#include "cli/values.h"

// How commands are declared: names, options, and the function that runs them. The parser only
// fills in options; nothing runs before the whole command line has been understood.

namespace strand::cli {

inline constexpr const char* default_store = "strand://127.0.0.1:7481";

// Options of every command.
struct Common {
  std::string store = default_store;
  Format format = Format::text;
};

// The command that the parser has found.
using Chosen = std::function<Exit()>;

// Where commands are added: the program itself, or a family of commands such as `queue`.
struct Family {
  CLI::App& app;
  Chosen& chosen;
};

struct Description {
  std::string name;
  std::string what;     // one sentence
  std::string example;  // lines, shown at the end of the help
};

Family add_family(Family parent, const std::string& name, const std::string& what);

CLI::App& add_described(Family family, const Description& description);
void add_common(CLI::App& app, Common& options);
// -o alone, for commands that have nothing to do with a store.
void add_output(CLI::App& app, Format& format);

// Runs a command, and sees to it that its output arrives.
template <class Options>
Exit run_command(Exit (*run)(const Options&, Output&), const Options& options) {
  Output output(options.format);
  const Exit exit = run(options, output);
  if (!output.flush() && exit == Exit::done) return Exit::failed;
  return exit;
}

// Options is a struct of its own that starts with Common; `declare` binds its members.
template <class Options>
void add_command(Family family, const Description& description,
                 void (*declare)(CLI::App&, Options&), Exit (*run)(const Options&, Output&)) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_described(family, description);
  declare(app, *options);
  add_common(app, *options);
  app.callback([&chosen = family.chosen, options, run] {
    chosen = [options, run] { return run_command(run, *options); };
  });
}

// --- Options by kind. A value that is none of its kind is wrong usage. ---

// `value` takes over one text; its error says what is wrong with it.
using TakeValue = std::function<Result<void>(std::string_view)>;
CLI::Option& add_value(CLI::App& app, const std::string& name, const std::string& type,
                       const std::string& what, TakeValue value);
// The same for an option or argument that may be repeated.
CLI::Option& add_values(CLI::App& app, const std::string& name, const std::string& type,
                        const std::string& what, TakeValue value);

CLI::Option& add_text(CLI::App& app, const std::string& name, std::string& target,
                      const std::string& type, const std::string& what);
CLI::Option& add_text(CLI::App& app, const std::string& name, std::optional<std::string>& target,
                      const std::string& type, const std::string& what);
CLI::Option& add_duration(CLI::App& app, const std::string& name, std::optional<Duration>& target,
                          const std::string& what);
CLI::Option& add_moment(CLI::App& app, const std::string& name, Moment& target,
                        const std::string& what);
CLI::Option& add_ids(CLI::App& app, std::vector<MessageId>& target, const std::string& what);
CLI::Option& add_flag(CLI::App& app, const std::string& name, bool& target,
                      const std::string& what);
void add_durability(CLI::App& app, Durability& target);

// Into a T, or an optional one.
template <class T, class Target>
CLI::Option& add_number(CLI::App& app, const std::string& name, Target& target, T min,
                        const std::string& what) {
  return add_value(app, name, "N", what, [&target, min](std::string_view text) -> Result<void> {
    const auto number = parse_number<T>(text, min);
    if (!number) return std::unexpected(number.error());
    target = *number;
    return {};
  });
}

// --- What commands have in common when they run ---

// Commands that only look at, or take from, a store must not create one by a mistyped name.
enum class IfMissing { create, refuse };
Result<std::unique_ptr<Store>> open_store(const Common& options, IfMissing if_missing);

// For what cannot be undone: `what` completes "to …, say --yes". With --yes, or after a yes on the
// terminal: nothing, go on.
std::optional<Exit> confirm(bool yes, std::string_view what);

}  // namespace strand::cli
