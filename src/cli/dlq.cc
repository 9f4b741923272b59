#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/store.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"

// dlq ls, show, redrive, drop

namespace strand::cli {

namespace {

constexpr std::size_t page_items = 1000;
// Of bodies in one redrive to another queue, well below the limit of a transaction.
constexpr std::size_t move_bytes_max = std::size_t{4} << 20U;

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

// Hands over page by page, in order of ids, those there are when it comes to them.
Result<void> each_page(Store& store, const std::string& queue,
                       const std::function<Result<void>(const std::vector<DeadLetter>&)>& take) {
  DeadLettersQuery query{.queue = queue, .limit = page_items};
  while (true) {
    const auto page = store.dead_letters(query);
    if (!page) return std::unexpected(page.error());
    if (auto taken = take(page->items); !taken) return taken;
    if (!page->more || page->items.empty()) return {};
    query.after = page->items.back().id;
  }
}

Exit run_ls(const DlqOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  std::vector<std::vector<std::string>> rows = {{"ID", "KEY", "ATTEMPTS", "DEAD AT", "REASON"}};
  const auto listed = each_page(**store, options.queue, [&](const std::vector<DeadLetter>& page) {
    for (const DeadLetter& letter : page) {
      if (output.json()) {
        output.object(to_json(letter));
      } else {
        rows.push_back({fmt::to_string(number(letter.id)), base::printable(letter.key.value_or("")),
                        fmt::to_string(letter.attempts), format_time(letter.dead_at),
                        base::printable(letter.reason)});
      }
    }
    return Result<void>{};
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
  const MessageId id = options.ids.front();
  DeadLettersQuery query{.queue = options.queue, .limit = 1};
  if (number(id) > 0) query.after = MessageId{number(id) - 1};
  const auto page = (*store)->dead_letters(query);
  if (!page) return fail(page.error());
  if (page->items.empty() || page->items.front().id != id) {
    return fail(fmt::format("queue '{}' has no dead letter {}", base::printable(options.queue),
                            number(id)));
  }
  if (output.json()) {
    output.object(to_json(page->items.front()));
  } else {
    output.text(describe(page->items.front()));
  }
  return Exit::done;
}

// --- Redrive and drop: those that are named, or all, a page in a transaction ---

using MakeOperation = std::function<Administration(std::vector<MessageId>)>;

Result<void> apply_to(Store& store, std::vector<MessageId> ids, const MakeOperation& make,
                      std::uint64_t& count) {
  if (ids.empty()) return {};
  Transaction transaction;
  transaction.admin = make(std::move(ids));
  const auto receipt = store.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  count += receipt->affected;
  return {};
}

Result<void> apply_to_all(Store& store, const std::string& queue, const MakeOperation& make,
                          std::uint64_t& count) {
  return each_page(store, queue, [&](const std::vector<DeadLetter>& page) -> Result<void> {
    std::vector<MessageId> ids;
    std::size_t bytes = 0;
    for (const DeadLetter& letter : page) {
      if (bytes + letter.body.size() > move_bytes_max) {
        if (auto done = apply_to(store, std::exchange(ids, {}), make, count); !done) return done;
        bytes = 0;
      }
      ids.push_back(letter.id);
      bytes += letter.body.size();
    }
    return apply_to(store, std::move(ids), make, count);
  });
}

Exit run_many(const DlqOptions& options, const MakeOperation& make, std::string_view name,
              Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  std::uint64_t count = 0;
  const auto done = options.all ? apply_to_all(**store, options.queue, make, count)
                                : apply_to(**store, options.ids, make, count);
  if (!done) {
    return fail(count == 0
                    ? done.error().message
                    : fmt::format("{} ({} {} before it)", done.error().message, count, name));
  }
  if (output.json()) {
    output.object({{"queue", options.queue}, {name, count}});
  } else {
    output.text(fmt::format("{} {}\n", count, name));
  }
  return Exit::done;
}

std::optional<Exit> check_which(const DlqOptions& options) {
  if (options.all == options.ids.empty()) return std::nullopt;
  return wrong_usage("name the dead letters by their ids, or say --all for all of them");
}

Exit run_redrive(const DlqOptions& options, Output& output) {
  if (const auto wrong = check_which(options)) return *wrong;
  const MakeOperation make = [&](std::vector<MessageId> ids) {
    return Redrive{.queue = options.queue, .ids = std::move(ids), .to = options.to};
  };
  return run_many(options, make, "redriven", output);
}

Exit run_drop(const DlqOptions& options, Output& output) {
  if (const auto wrong = check_which(options)) return *wrong;
  if (options.all) {
    const auto refused = confirm(options.yes, fmt::format("drop all dead letters of queue '{}'",
                                                          base::printable(options.queue)));
    if (refused) return *refused;
  }
  const MakeOperation make = [&](std::vector<MessageId> ids) {
    return DropDead{.queue = options.queue, .ids = std::move(ids)};
  };
  return run_many(options, make, "dropped", output);
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
