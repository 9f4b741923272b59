#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <strand/dead_letters.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"

// dlq ls, show, redrive, drop

namespace strand::cli {

namespace {

struct DlqOptions : Common {
  std::string queue = {};
  std::vector<MessageId> ids = {};
  bool all = false;
  bool yes = false;
  std::optional<std::string> to = {};
};

void declare_queue(CLI::App& app, DlqOptions& options) {
  add_text(app, "QUEUE", options.queue, "", "The queue").required();
}

void declare_one(CLI::App& app, DlqOptions& options) {
  declare_queue(app, options);
  add_value(app, "ID", "", "The message", [&options](std::string_view text) -> Result<void> {
    const auto id = parse_id(text);
    if (!id) return std::unexpected(id.error());
    options.ids = {*id};
    return {};
  }).required();
}

void declare_many(CLI::App& app, DlqOptions& options) {
  declare_queue(app, options);
  add_ids(app, options.ids, "The messages");
  add_flag(app, "--all", options.all, "All dead letters of the queue");
}

void declare_redrive(CLI::App& app, DlqOptions& options) {
  declare_many(app, options);
  add_text(app, "--to", options.to, "QUEUE", "To another queue, as new messages");
}

void declare_drop(CLI::App& app, DlqOptions& options) {
  declare_many(app, options);
  add_flag(app, "--yes", options.yes, "Do not ask before dropping all");
}

Exit run_ls(const DlqOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  std::vector<std::vector<std::string>> rows = {{"ID", "KEY", "ATTEMPTS", "DEAD AT", "REASON"}};
  const auto listed = DeadLetters(**store, options.queue).each([&](const DeadLetter& letter) {
    if (output.json()) {
      output.object(to_json(letter));
    } else {
      rows.push_back({fmt::to_string(number(letter.id)), base::printable(letter.key.value_or("")),
                      fmt::to_string(letter.attempts), format_time(letter.dead_at),
                      base::printable(letter.reason)});
    }
    return true;
  });
  if (!listed) return fail(listed.error());
  if (!output.json()) output.text(table(rows));
  return Exit::done;
}

std::string describe(const DeadLetter& letter) {
  using base::escaped;
  std::vector<std::vector<std::string>> rows = {{"id", fmt::to_string(number(letter.id))},
                                                {"queue", letter.queue}};
  if (letter.key) rows.push_back({"key", escaped(*letter.key)});
  if (!letter.label.empty()) rows.push_back({"label", letter.label});
  if (letter.name) rows.push_back({"name", escaped(*letter.name)});
  if (letter.topic) rows.push_back({"topic", *letter.topic});
  rows.push_back({"enqueued", format_time(letter.enqueued_at)});
  rows.push_back(
      {"dead", fmt::format("{}  {}", format_time(letter.dead_at), escaped(letter.reason))});
  rows.push_back({"deliveries", fmt::to_string(letter.deliveries)});
  rows.push_back({"attempts", fmt::to_string(letter.attempts)});
  for (const Failure& failure : letter.failures)
    rows.push_back(
        {"failed", fmt::format("{}  {}", format_time(failure.at), escaped(failure.reason))});
  for (const Header& header : letter.headers)
    rows.push_back({"header", fmt::format("{}: {}", escaped(header.name), escaped(header.value))});
  rows.push_back({"body", escaped(letter.body)});
  return table(rows);
}

Exit run_show(const DlqOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const auto letter = DeadLetters(**store, options.queue).get(options.ids.front());
  if (!letter) return fail(letter.error());
  if (output.json()) {
    output.object(to_json(*letter));
  } else {
    output.text(describe(*letter));
  }
  return Exit::done;
}

// --- Redrive and drop: those that are named, or all ---

Exit report(const DlqOptions& options, const Result<std::uint64_t>& count, std::string_view done,
            Output& output) {
  if (!count) return fail(count.error());
  if (output.json()) {
    output.object({{"queue", options.queue}, {done, *count}});
  } else {
    output.text(fmt::format("{} {}\n", *count, done));
  }
  return Exit::done;
}

std::optional<Exit> check_which(const DlqOptions& options) {
  if (options.all == options.ids.empty()) return std::nullopt;
  return wrong_usage("name the dead letters by their ids, or say --all for all of them");
}

Exit run_redrive(const DlqOptions& options, Output& output) {
  if (const auto wrong = check_which(options)) return *wrong;
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  DeadLetters letters(**store, options.queue);
  const auto count =
      options.all ? letters.redrive_all(options.to) : letters.redrive(options.ids, options.to);
  return report(options, count, "redriven", output);
}

Exit run_drop(const DlqOptions& options, Output& output) {
  if (const auto wrong = check_which(options)) return *wrong;
  if (options.all) {
    const auto refused = confirm(options.yes, fmt::format("drop all dead letters of queue '{}'",
                                                          base::printable(options.queue)));
    if (refused) return *refused;
  }
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  DeadLetters letters(**store, options.queue);
  return report(options, options.all ? letters.drop_all() : letters.drop(options.ids), "dropped",
                output);
}

}  // namespace

void add_dlq_commands(Family program) {
  const Family dlq = add_family(program, "dlq", "Looks at dead letters, and ends them.");
  add_command<DlqOptions>(dlq,
                          {.name = "ls",
                           .what = "Lists the dead letters of a queue.",
                           .example = "  strand dlq ls orders"},
                          declare_queue, run_ls);
  add_command<DlqOptions>(dlq,
                          {.name = "show",
                           .what = "Shows a dead letter with all its failures.",
                           .example = "  strand dlq show orders 17"},
                          declare_one, run_show);
  add_command<DlqOptions>(dlq,
                          {.name = "redrive",
                           .what = "Gives dead letters back to their lanes.",
                           .example = "  strand dlq redrive orders 17 18\n"
                                      "  strand dlq redrive orders --all --to orders-again"},
                          declare_redrive, run_redrive);
  add_command<DlqOptions>(dlq,
                          {.name = "drop",
                           .what = "Drops dead letters.",
                           .example = "  strand dlq drop orders --all --yes"},
                          declare_drop, run_drop);
}

}  // namespace strand::cli
