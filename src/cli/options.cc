#include "cli/options.h"

#include <iostream>

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"

namespace strand::cli {

namespace {

constexpr const char* common_group = "Options of every command";

Result<void> read_format(Format& format, std::string_view text) {
  if (text == "json") {
    format = Format::json;
  } else if (text == "text") {
    format = Format::text;
  } else {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is neither text nor json", base::printable(text)));
  }
  return {};
}

Result<void> read_durability(Durability& durability, std::string_view text) {
  if (text == "sync") {
    durability = Durability::sync;
  } else if (text == "async") {
    durability = Durability::async;
  } else {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is neither sync nor async", base::printable(text)));
  }
  return {};
}

// What complaints about a value start with: the long name of an option, or the name of an argument.
std::string prefix_of(const std::string& name) {
  if (name.find('=') != std::string::npos) return "";  // the value names itself
  const std::size_t dashes = name.find("--");
  return name.substr(dashes == std::string::npos ? 0 : dashes) + ": ";
}

CLI::callback_t each_value(const std::string& name, TakeValue value) {
  return [prefix = prefix_of(name), value = std::move(value)](const CLI::results_t& results) {
    for (const std::string& text : results) {
      if (auto taken = value(text); !taken) {
        throw CLI::ValidationError(prefix + taken.error().message);
      }
    }
    return true;
  };
}

}  // namespace

Family add_family(Family parent, const std::string& name, const std::string& what) {
  CLI::App& app = *parent.app.add_subcommand(name, what)->group("Commands");
  app.require_subcommand(1);
  return {.app = app, .chosen = parent.chosen};
}

CLI::App& add_described(Family family, const Description& description) {
  CLI::App& app = *family.app.add_subcommand(description.name, description.what)->group("Commands");
  app.footer("Example:\n" + description.example);
  return app;
}

void add_output(CLI::App& app, Format& format) {
  add_value(app, "-o,--output", "text|json", "text for people, json for programs",
            [&format](std::string_view text) { return read_format(format, text); })
      .group(common_group);
}

void add_common(CLI::App& app, Common& options) {
  add_text(app, "--store", options.store, "URL",
           fmt::format("The store; STRAND_STORE if not given, or else {}", default_store))
      .envname("STRAND_STORE")
      ->group(common_group);
  add_output(app, options.format);
}

CLI::Option& add_value(CLI::App& app, const std::string& name, const std::string& type,
                       const std::string& what, TakeValue value) {
  return *app.add_option(name, each_value(name, std::move(value)), what)
              ->type_name(type)
              ->expected(1)
              ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

CLI::Option& add_values(CLI::App& app, const std::string& name, const std::string& type,
                        const std::string& what, TakeValue value) {
  CLI::Option& option = *app.add_option(name, each_value(name, std::move(value)), what)
                             ->type_name(type)
                             ->expected(1, CLI::detail::expected_max_vector_size)
                             ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // `--header a=b BODY`: an option takes one value each time, or it would swallow the arguments.
  option.allow_extra_args(!name.starts_with('-'));
  return option;
}

CLI::Option& add_text(CLI::App& app, const std::string& name, std::string& target,
                      const std::string& type, const std::string& what) {
  return add_value(app, name, type, what, [&target](std::string_view text) -> Result<void> {
    target = text;
    return {};
  });
}

CLI::Option& add_text(CLI::App& app, const std::string& name, std::optional<std::string>& target,
                      const std::string& type, const std::string& what) {
  return add_value(app, name, type, what, [&target](std::string_view text) -> Result<void> {
    target = text;
    return {};
  });
}

CLI::Option& add_duration(CLI::App& app, const std::string& name, std::optional<Duration>& target,
                          const std::string& what) {
  return add_value(app, name, "D", what, [&target](std::string_view text) -> Result<void> {
    const auto duration = parse_duration(text);
    if (!duration) return std::unexpected(duration.error());
    target = *duration;
    return {};
  });
}

CLI::Option& add_moment(CLI::App& app, const std::string& name, Moment& target,
                        const std::string& what) {
  return add_value(app, name, "TIME|D|beginning", what,
                   [&target](std::string_view text) -> Result<void> {
                     const auto moment = parse_moment(text);
                     if (!moment) return std::unexpected(moment.error());
                     target = *moment;
                     return {};
                   });
}

CLI::Option& add_ids(CLI::App& app, std::vector<MessageId>& target, const std::string& what) {
  return add_values(app, "ID", "", what, [&target](std::string_view text) -> Result<void> {
    const auto id = parse_id(text);
    if (!id) return std::unexpected(id.error());
    target.push_back(*id);
    return {};
  });
}

CLI::Option& add_flag(CLI::App& app, const std::string& name, bool& target,
                      const std::string& what) {
  return *app.add_flag(name, target, what)->disable_flag_override();
}

void add_durability(CLI::App& app, Durability& target) {
  add_value(app, "--durability", "sync|async",
            "sync (default) survives power loss, async the end of the process only",
            [&target](std::string_view text) { return read_durability(target, text); });
}

Result<std::unique_ptr<Store>> open_store(const Common& options, IfMissing if_missing) {
  OpenOptions open_options;
  open_options.create = if_missing == IfMissing::create;
  // gRPC would write lines of its own to stderr, such as on a certificate that it does not trust:
  // the error says it. Who looks for faults sets the variable.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe): there is one thread yet
  auto store = open(options.store, std::move(open_options));
  if (store) return store;
  Error error = std::move(store).error();
  const bool unusable = error.code == Errc::unsupported || error.code == Errc::invalid_argument;
  error.message = fmt::format("cannot open the store {}: {}{}", base::printable(options.store),
                              error.message, unusable ? "; name one with --store URL" : "");
  return std::unexpected(std::move(error));
}

std::optional<Exit> confirm(bool yes, std::string_view what) {
  if (yes) return std::nullopt;
  if (::isatty(STDIN_FILENO) == 0) {
    return wrong_usage(fmt::format("to {}, say --yes: there is no terminal to ask on", what));
  }
  fmt::print(stderr, "strand: {}? [y/N] ", what);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return std::nullopt;
  return fail("nothing was changed");
}

}  // namespace strand::cli
