#include <algorithm>
#include <cstdint>
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
#include "cli/settings.h"

// queue ls, show, set, pause, resume, purge, rm

namespace strand::cli {

namespace {

struct QueueOptions : Common {
  std::string queue = {};
  std::vector<std::string> assignments = {};
  std::optional<std::string> key = {};
  std::optional<MessageId> id = {};
  bool force = false;
  bool yes = false;
};

void declare_all(CLI::App& app, Common& options) {
  static_cast<void>(app);
  static_cast<void>(options);
}

void declare_queue(CLI::App& app, QueueOptions& options) {
  add_text(app, "QUEUE", options.queue, "", "The queue").required();
}

void declare_set(CLI::App& app, QueueOptions& options) {
  add_text(app, "QUEUE", options.queue, "", "The queue; it is created if it does not exist")
      .required();
  add_values(app, "NAME=VALUE", "", "Settings, as `queue show` prints them",
             [&options](std::string_view text) -> Result<void> {
               options.assignments.emplace_back(text);
               // Only whether it is one: what the settings are is known when the store is open.
               QueueSettings settings;
               return set_setting(settings, text);
             })
      .required();
}

void declare_resume(CLI::App& app, QueueOptions& options) {
  declare_queue(app, options);
  add_text(app, "--key", options.key, "K", "Resumes the parked lane of this key");
  add_value(app, "--id", "ID", "Resumes this parked message, which has no key",
            [&options](std::string_view text) -> Result<void> {
              const auto id = parse_id(text);
              if (!id) return std::unexpected(id.error());
              options.id = *id;
              return {};
            });
}

void declare_purge(CLI::App& app, QueueOptions& options) {
  declare_queue(app, options);
  add_text(app, "--key", options.key, "K", "Only the lane of this key");
  add_flag(app, "--yes", options.yes, "Do not ask");
}

void declare_rm(CLI::App& app, QueueOptions& options) {
  declare_queue(app, options);
  add_flag(app, "--force", options.force, "Even if it has leases or open executions");
  add_flag(app, "--yes", options.yes, "Do not ask");
}

// --- peek ---

struct PeekOptions : Common {
  PeekQuery query = {};
  std::size_t limit = 100;
};

Result<void> read_state(std::optional<MessageState>& target, std::string_view text) {
  const auto state = shown::parse_message_state(text);
  if (!state) return std::unexpected(state.error());
  target = *state;
  return {};
}

void declare_peek(CLI::App& app, PeekOptions& options) {
  add_text(app, "QUEUE", options.query.queue, "", "The queue").required();
  add_text(app, "--key", options.query.key, "K", "Only the lane of this key, in its order");
  add_value(app, "--state", "S", "Only ready, delayed, backoff, waiting, leased or parked ones",
            [&options](std::string_view text) { return read_state(options.query.state, text); });
  add_number<std::size_t>(app, "--limit", options.limit, 1, "At most so many (100)");
}

// The next time that something happens to it by itself, or why not.
std::string next_of(const PeekedMessage& message) {
  if (message.retry_at) return "again at " + format_time(*message.retry_at);
  if (message.state == MessageState::delayed) return "due at " + format_time(message.due);
  if (message.park_reason) return base::printable(*message.park_reason);
  return "";
}

Exit run_peek(const PeekOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  std::vector<std::vector<std::string>> rows = {
      {"ID", "KEY", "STATE", "ATTEMPTS", "NEXT", "LAST REASON", "BODY"}};
  PeekQuery query = options.query;
  for (std::size_t left = options.limit; left > 0;) {
    query.limit = std::min<std::size_t>(left, 1000);
    const auto page = (*store)->peek(query);
    if (!page) return fail(page.error());
    for (const PeekedMessage& message : page->items) {
      if (output.json()) {
        output.object(to_json(message));
      } else {
        rows.push_back({fmt::to_string(number(message.id)),
                        base::printable(message.key.value_or("")),
                        std::string(to_string(message.state)), fmt::to_string(message.attempts),
                        next_of(message), base::printable(message.last_reason.value_or("")),
                        base::printable(message.body)});
      }
    }
    if (!page->more || page->items.empty()) break;
    left -= page->items.size();
    query.after = page->items.back().id;
  }
  if (!output.json()) output.text(table(rows));
  return Exit::done;
}

// --- Looking ---

Exit run_ls(const Common& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const auto queues = (*store)->queues();
  if (!queues) return fail(queues.error());
  std::vector<std::vector<std::string>> rows = {
      {"QUEUE", "READY", "DELAYED", "WAITING", "LEASED", "PARKED", "DEAD", "STATE"}};
  for (const QueueInfo& info : *queues) {
    const auto stats = (*store)->stats(info.name);
    if (!stats && stats.error().code == Errc::not_found) continue;  // removed meanwhile
    if (!stats) return fail(stats.error());
    if (output.json()) output.object(to_json(info, *stats));
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(info.name);
    for (const std::uint64_t count : {stats->ready, stats->delayed, stats->waiting, stats->leased,
                                      stats->parked, stats->dead}) {
      row.push_back(fmt::to_string(count));
    }
    row.emplace_back(info.paused ? "paused" : "");
  }
  if (!output.json()) output.text(table(rows));
  return Exit::done;
}

std::string describe(const QueueInfo& info, const QueueStats& stats) {
  std::vector<std::vector<std::string>> rows = {{"queue", info.name}};
  if (info.paused) rows.push_back({"state", "paused"});
  const auto add = [&](std::string_view name, std::uint64_t value) {
    rows.push_back({std::string(name), fmt::to_string(value)});
  };
  add("ready", stats.ready);
  add("delayed", stats.delayed);
  add("  backoff", stats.backoff);
  add("waiting", stats.waiting);
  add("leased", stats.leased);
  add("parked", stats.parked);
  add("dead", stats.dead);
  add("acked", stats.acked);
  add("expired", stats.expired);
  add("dropped", stats.dropped);
  add("moved", stats.moved);
  add("purged", stats.purged);
  add("accepted", stats.accepted);
  add("lanes ready", stats.lanes_ready);
  add("leases", stats.leases);
  rows.push_back({"oldest ready", stats.oldest_ready ? format_time(*stats.oldest_ready) : "none"});
  std::string text = table(rows) + "\n";
  for (const Setting& setting : list_settings(info.settings))
    text += fmt::format("{}={}\n", setting.name, setting.value);
  return text;
}

Result<std::optional<QueueInfo>> find_queue(Store& store, const std::string& name) {
  auto queues = store.queues();
  if (!queues) return std::unexpected(std::move(queues).error());
  const auto found = std::ranges::find(*queues, name, &QueueInfo::name);
  if (found == queues->end()) return std::nullopt;
  return std::move(*found);
}

Exit show(Store& store, const std::string& name, Output& output) {
  // First, because it has the words for a queue that does not exist.
  const auto stats = store.stats(name);
  if (!stats) return fail(stats.error());
  const auto info = find_queue(store, name);
  if (!info) return fail(info.error());
  if (!*info) return fail(fmt::format("queue '{}' was removed", base::printable(name)));
  if (output.json()) {
    output.object(to_json(**info, *stats));
  } else {
    output.text(describe(**info, *stats));
  }
  return Exit::done;
}

Exit run_show(const QueueOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  return show(**store, options.queue, output);
}

// --- Changing ---

Result<std::uint64_t> administer(Store& store, Administration administration) {
  Transaction transaction;
  transaction.admin = std::move(administration);
  const auto receipt = store.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->affected;
}

Exit run_set(const QueueOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  const auto info = find_queue(**store, options.queue);
  if (!info) return fail(info.error());
  QueueSettings settings = *info ? (*info)->settings : QueueSettings{};
  for (const std::string& assignment : options.assignments) {
    if (auto set = set_setting(settings, assignment); !set) return wrong_usage(set.error().message);
  }
  const auto done =
      administer(**store, ConfigureQueue{.queue = options.queue, .settings = settings});
  if (!done) return fail(done.error());
  return show(**store, options.queue, output);
}

// `what` names the count in JSON, and says it in words.
Exit change(const QueueOptions& options, Administration administration, std::string_view what,
            Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const auto affected = administer(**store, std::move(administration));
  if (!affected) return fail(affected.error());
  if (output.json()) {
    output.object({{"queue", options.queue}, {what, *affected}});
  } else {
    output.text(fmt::format("{}: {} {}\n", base::escaped(options.queue), *affected, what));
  }
  return Exit::done;
}

Exit set_paused(const QueueOptions& options, Administration administration, bool paused,
                Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const auto done = administer(**store, std::move(administration));
  if (!done) return fail(done.error());
  if (output.json()) {
    output.object({{"queue", options.queue}, {"paused", paused}});
  } else {
    output.text(
        fmt::format("{} {}\n", base::escaped(options.queue), paused ? "paused" : "resumed"));
  }
  return Exit::done;
}

Exit run_pause(const QueueOptions& options, Output& output) {
  return set_paused(options, PauseQueue{options.queue}, true, output);
}

Exit run_resume(const QueueOptions& options, Output& output) {
  if (options.key && options.id) return wrong_usage("give --key or --id, not both");
  if (!options.key && !options.id) {
    return set_paused(options, ResumeQueue{options.queue}, false, output);
  }
  return change(options, ResumeLane{.queue = options.queue, .key = options.key, .id = options.id},
                "resumed", output);
}

Exit run_purge(const QueueOptions& options, Output& output) {
  const std::string what =
      options.key ? fmt::format("lane '{}' of queue '{}'", base::printable(*options.key),
                                base::printable(options.queue))
                  : fmt::format("queue '{}'", base::printable(options.queue));
  const auto refused =
      confirm(options.yes, fmt::format("drop all messages of {} that are not leased", what));
  if (refused) return *refused;
  return change(options, PurgeQueue{.queue = options.queue, .key = options.key}, "purged", output);
}

Exit run_rm(const QueueOptions& options, Output& output) {
  const auto refused = confirm(options.yes, fmt::format("remove queue '{}' with everything in it",
                                                        base::printable(options.queue)));
  if (refused) return *refused;
  return change(options, RemoveQueue{.queue = options.queue, .force = options.force}, "removed",
                output);
}

}  // namespace

void add_queue_commands(Family program) {
  const Family queue = add_family(program, "queue", "Looks at queues, and changes them.");
  add_command<Common>(queue,
                      {.name = "ls", .what = "Lists all queues.", .example = "  strand queue ls"},
                      declare_all, run_ls);
  add_command<PeekOptions>(
      queue,
      {.name = "peek",
       .what = "Lists live messages, where each stands, and when it is tried next.",
       .example = "  strand queue peek orders --state backoff"},
      declare_peek, run_peek);
  add_command<QueueOptions>(queue,
                            {.name = "show",
                             .what = "Shows the counts and settings of a queue.",
                             .example = "  strand queue show orders -o json"},
                            declare_queue, run_show);
  add_command<QueueOptions>(
      queue,
      {.name = "set",
       .what = "Changes settings of a queue; those that are not named stay.",
       .example = "  strand queue set orders max_attempts=6 backoff=1s,10s,1m on_exhausted=park"},
      declare_set, run_set);
  add_command<QueueOptions>(queue,
                            {.name = "pause",
                             .what = "Nothing is leased from the queue until it is resumed.",
                             .example = "  strand queue pause orders"},
                            declare_queue, run_pause);
  add_command<QueueOptions>(queue,
                            {.name = "resume",
                             .what = "Resumes a paused queue, or a parked lane.",
                             .example = "  strand queue resume orders\n"
                                        "  strand queue resume orders --key order-7"},
                            declare_resume, run_resume);
  add_command<QueueOptions>(queue,
                            {.name = "purge",
                             .what = "Drops the messages of a queue that are not leased.",
                             .example = "  strand queue purge orders --key order-7 --yes"},
                            declare_purge, run_purge);
  add_command<QueueOptions>(queue,
                            {.name = "rm",
                             .what = "Removes a queue with everything in it.",
                             .example = "  strand queue rm orders --yes"},
                            declare_rm, run_rm);
}

}  // namespace strand::cli
