#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <strand/consumer.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/shell_command.h"

// consume

namespace strand::cli {

namespace {

struct ConsumeOptions : Common {
  ConsumerOptions consumer = {};
  std::string queue = {};
  std::string command = {};
  std::optional<Duration> coalesce = {};
  bool one_by_one = false;
  bool until_idle = false;
  std::optional<Duration> patience = {};
};

void declare_consume(CLI::App& app, ConsumeOptions& options) {
  ConsumerOptions& consumer = options.consumer;
  add_text(app, "QUEUE", options.queue, "", "The queue").required();
  add_text(app, "--exec", options.command, "CMD",
           "A command of the shell, run for each batch with its messages on stdin, a line of JSON "
           "each. Exit code 0 acknowledges them; any other is a retry, with stderr as its reason")
      .required();
  add_number<std::uint32_t>(app, "--concurrency", consumer.workers, 1,
                            "So many commands at a time, each for another key (1)");
  add_number<std::uint32_t>(app, "--max", consumer.batch_messages, 1,
                            "At most so many messages in a batch (100)");
  add_flag(app, "--one-by-one", options.one_by_one, "One message at a time");
  add_duration(app, "--coalesce", options.coalesce,
               "Waits so long for more messages of a key before a batch, up to 50");
  add_duration(app, "--lease", consumer.lease,
               "How long a lease runs without being renewed; else the queue says");
  add_duration(app, "--timeout", consumer.handler_time,
               "A command that runs longer gets SIGTERM, and its messages go to others");
  add_values(app, "--label", "L", "Only lanes with this label ('' is none); may be repeated",
             [&consumer](std::string_view text) -> Result<void> {
               consumer.labels.emplace_back(text);
               return {};
             });
  add_text(app, "--owner", consumer.owner, "O", "Who asks: finds lanes kept for this owner");
  add_flag(app, "--until-idle", options.until_idle,
           "Ends when nothing is ready any more; else at Ctrl-C or SIGTERM");
  add_duration(app, "--patience", options.patience,
               "At the end, commands that run longer get SIGTERM and are charged nothing (10s)");
}

std::string input_for(const Work& work) {
  std::string lines;
  for (const Message& message : work.messages()) {
    boost::json::object object = to_json(message);
    put_optional(object, "key", work.key());
    lines += boost::json::serialize(object);
    lines += '\n';
  }
  return lines;
}

std::string reason_for(const CommandEnd& end) {
  std::string_view text = end.err;
  const auto last = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (!text.empty()) return std::string(text);
  constexpr int signals_from = 128;
  return end.exit > signals_from ? fmt::format("the command died of signal {}", end.exit - 128)
                                 : fmt::format("the command ended with exit code {}", end.exit);
}

Verdict handle(Work& work, const ConsumeOptions& options) {
  const std::map<std::string, std::string> environment = {
      {"STRAND_QUEUE", work.queue()},
      {"STRAND_KEY", work.key().value_or("")},
      {"STRAND_EPOCH", fmt::to_string(static_cast<std::uint64_t>(work.epoch()))}};
  const auto end = run_shell(options.command, environment, input_for(work),
                             options.format == Format::json, work.stop_token());
  if (!end) return Verdict::retry(end.error().message);
  if (end->exit == 0) return Verdict::ok();
  return Verdict::retry(reason_for(*end));
}

void report(const ConsumerStats& stats, Output& output) {
  if (output.json()) {
    output.object({{"batches", stats.batches},
                   {"messages", stats.messages},
                   {"acked", stats.acked},
                   {"retried", stats.retried},
                   {"dead", stats.dead},
                   {"released", stats.released},
                   {"lost", stats.lost}});
  } else {
    complain(fmt::format("{} messages acknowledged, {} to be tried again, {} given back",
                         stats.acked, stats.retried, stats.released));
  }
}

void tell(const ConsumerTrouble& trouble) {
  using Kind = ConsumerTrouble::Kind;
  if (trouble.kind == Kind::handler_failed) return;  // the command has spoken for itself
  complain(fmt::format("{}{}: {}", base::printable(trouble.queue),
                       trouble.key ? "/" + base::printable(*trouble.key) : "", trouble.reason));
}

// Until a signal comes, or it is idle if that is wanted.
void run_until_told(Consumer& consumer, const ConsumeOptions& options,
                    const Interrupts& interrupts) {
  constexpr Duration long_time = std::chrono::hours{1};
  const Bell bell;
  std::jthread waiter;
  std::atomic<bool> idle = false;
  if (options.until_idle) {
    waiter = std::jthread([&] {
      consumer.wait_idle();
      idle = true;
      bell.ring();
    });
  }
  while (!idle && interrupts.caught() == 0)
    bell.wait(long_time, interrupts);
  consumer.stop(options.patience.value_or(std::chrono::seconds{10}));
}

Exit run_consume(const ConsumeOptions& options, Output& output) {
  ConsumerOptions consuming = options.consumer;
  consuming.queues = {options.queue};
  consuming.hand_out = options.one_by_one ? HandOut::messages : HandOut::lanes;
  if (options.coalesce) consuming.coalesce = Coalesce{.window = *options.coalesce};
  consuming.on_trouble = tell;
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const Interrupts interrupts;
  auto consumer =
      Consumer::start(**store, consuming, [&options](Work& work) { return handle(work, options); });
  if (!consumer) return wrong_usage(consumer.error().message);
  run_until_told(**consumer, options, interrupts);
  report((*consumer)->stats(), output);
  return Exit::done;
}

}  // namespace

void add_consume_commands(Family program) {
  add_command<ConsumeOptions>(
      program,
      {.name = "consume",
       .what = "Runs a command for each batch of messages, and settles them by its exit code.",
       .example = "  strand consume orders --exec './ship.sh' --concurrency 4\n"
                  "  strand consume mails --exec 'jq -r .body | mail -s hello me' --until-idle"},
      declare_consume, run_consume);
}

}  // namespace strand::cli
