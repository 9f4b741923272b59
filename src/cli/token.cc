#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "server/tokens.h"

// token new

namespace strand::cli {

namespace {

using server::Role;

struct NewOptions {
  Format format = Format::text;
  server::TokenEntry entry = {};
  std::optional<Duration> good_for = {};
  std::optional<std::string> file = {};
};

void add_grants(CLI::App& app, Role role, const std::string& what, NewOptions& options) {
  add_values(app, fmt::format("--{}", server::to_string(role)), "PATTERN", what,
             [&options, role](std::string_view pattern) -> Result<void> {
               if (auto good = server::check_pattern(pattern); !good) return good;
               options.entry.grants.push_back({.role = role, .pattern = std::string(pattern)});
               return {};
             });
}

void declare_new(CLI::App& app, NewOptions& options) {
  add_text(app, "NAME", options.entry.name, "", "Who has it, for logs").required();
  add_grants(app, Role::send, "May send to, and publish on, these; may be repeated", options);
  add_grants(app, Role::receive, "May receive from, and look into, these; may be repeated",
             options);
  add_grants(app, Role::admin, "May do everything with these; may be repeated", options);
  add_duration(app, "--expires", options.good_for, "It is good for so long, such as 90d");
  add_text(app, "--append", options.file, "FILE",
           "Also adds the entry to the server's file of tokens, made if there is none");
  add_output(app, options.format);
}

Exit run_new(const NewOptions& options, Output& output) {
  const std::string token = server::new_token();
  server::TokenEntry entry = options.entry;
  entry.digest = server::digest_of(token);
  if (options.good_for) entry.expires = system_clock()->wall() + *options.good_for;
  const std::string toml = server::to_toml(entry);
  // What a server would not read is not worth a token.
  if (const auto read = server::parse_tokens(toml, "NAME"); !read) {
    return wrong_usage(read.error().message);
  }
  if (options.file) {
    if (auto added = server::append_token(*options.file, entry); !added) return fail(added.error());
  }
  if (output.json()) {
    output.object({{"name", entry.name}, {"token", token}, {"entry", toml}});
    return Exit::done;
  }
  output.text(token + "\n");
  if (!options.file) fmt::print(stderr, "{}", toml);
  return Exit::done;
}

}  // namespace

void add_token_commands(Family program) {
  const Family token = add_family(program, "token", "Makes tokens for clients of a server.");
  auto options = std::make_shared<NewOptions>();
  CLI::App& app = add_described(
      token,
      {.name = "new",
       .what = "Makes a token and prints it, this once; its entry for the server goes to stderr.",
       .example = "  strand token new billing --send 'orders.*' --receive billing --append "
                  "tokens.toml"});
  declare_new(app, *options);
  app.callback([&chosen = token.chosen, options] {
    chosen = [options] { return run_command(run_new, *options); };
  });
}

}  // namespace strand::cli
