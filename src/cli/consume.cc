#include <algorithm>
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
#include <vector>

#include <fmt/format.h>

#include <strand/consumer.h>
#include <strand/limits.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/shell_command.h"
#include "workflow/activity_runner.h"
#include "workflow/wire.h"

// consume

namespace strand::cli {

namespace {

struct ConsumeOptions : Common {
  ConsumerOptions consumer = {};
  std::string queue = {};
  std::string command = {};
  std::optional<Duration> coalesce = {};
  bool one_by_one = false;
  bool reply = false;
  std::vector<int> dead_exits = {};
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
  add_flag(
      app, "--reply", options.reply,
      "One message at a time, and what the command prints is the answer to it: of an activity, "
      "its result");
  add_values(app, "--dead-exit", "N",
             "With this exit code it has failed for good: a dead letter; with --reply, an error as "
             "the answer. May be repeated",
             [&options](std::string_view text) -> Result<void> {
               const auto code = parse_number<std::uint32_t>(text, 1, 255);
               if (!code) return std::unexpected(code.error());
               options.dead_exits.push_back(static_cast<int>(*code));
               return {};
             });
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

std::string_view without_blanks_behind(std::string_view text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string reason_for(const CommandEnd& end) {
  const std::string_view text = without_blanks_behind(end.err);
  if (!text.empty()) return std::string(text);
  constexpr int signals_from = 128;
  return end.exit > signals_from ? fmt::format("the command died of signal {}", end.exit - 128)
                                 : fmt::format("the command ended with exit code {}", end.exit);
}

bool is_dead(const CommandEnd& end, const ConsumeOptions& options) {
  return std::ranges::find(options.dead_exits, end.exit) != options.dead_exits.end();
}

ShellCommand command_for(const Work& work, const ConsumeOptions& options) {
  ShellCommand command{.command = options.command, .input = input_for(work)};
  command.environment = {
      {"STRAND_QUEUE", work.queue()},
      {"STRAND_KEY", work.key().value_or("")},
      {"STRAND_EPOCH", fmt::to_string(static_cast<std::uint64_t>(work.epoch()))}};
  if (options.format == Format::json) command.output = CommandOutput::our_err;
  return command;
}

Verdict handle(Work& work, const ConsumeOptions& options) {
  const auto end = run_shell(command_for(work, options), work.stop_token());
  if (!end) return Verdict::retry(end.error().message);
  if (end->exit == 0) return Verdict::ok();
  if (is_dead(*end, options)) return Verdict::dead(reason_for(*end));
  return Verdict::retry(reason_for(*end));
}

// --- Answers: a command as a worker for activities ---

std::string last_line(std::string_view text) {
  text = without_blanks_behind(text);
  const auto newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

// As in the shell's $(…), but for one newline: an answer is a value, not a line.
Bytes answer_of(const CommandEnd& end) {
  std::string_view out = end.out;
  if (out.ends_with('\n')) out.remove_suffix(1);
  return Bytes(out);
}

workflow::AttemptFailure failure_of(const CommandEnd& end, const ShellCommand& command) {
  workflow::AttemptFailure failure{.type = "exit_code"};
  if (end.too_long) {
    failure.kind = WorkflowError::Kind::timed_out;
    failure.type = "timeout";
    failure.text = fmt::format("the command took longer than the {} it was given",
                               format_duration(command.time.value_or(Duration{0})));
    return failure;
  }
  if (end.out_cut) {
    failure.type = "too_large";
    failure.text = "the command printed more than fits into an answer";
    return failure;
  }
  failure.text = last_line(end.err);
  if (failure.text.empty()) failure.text = last_line(end.out);
  if (failure.text.empty()) failure.text = fmt::format("exit code {}", end.exit);
  // An error must get through, whatever the command has printed.
  constexpr Limits limits;
  failure.text.resize(std::min(failure.text.size(), limits.reason_bytes_max));
  if (end.out.size() <= limits.body_bytes_max) failure.details = answer_of(end);
  return failure;
}

// Handles one message, and answers it in the transaction that acknowledges it.
Verdict answer(Work& work, const ConsumeOptions& options) {
  namespace wire = workflow::wire;
  const Message& message = work.message();
  const auto header = [&](std::string_view name) {
    return std::string(wire::header(message.headers, name));
  };
  const bool awaited =
      !header(wire::reply_queue_header).empty() && !header(wire::reply_key_header).empty();
  ShellCommand command = command_for(work, options);
  command.output = CommandOutput::returned;
  command.time = wire::milliseconds(message.headers, wire::timeout_header);
  command.environment["STRAND_ACTIVITY"] = header(wire::activity_header);
  command.environment["STRAND_INSTANCE"] = header(wire::instance_header);
  command.environment["STRAND_CALL"] = header(wire::call_header);
  command.environment["STRAND_ATTEMPT"] = fmt::to_string(message.attempts + 1);
  const auto end = run_shell(command, work.stop_token());
  if (!end) return Verdict::retry(end.error().message);
  if (end->exit == 0 && !end->too_long && !end->out_cut) {
    if (awaited) {
      workflow::add_result(message, answer_of(*end), work.transaction());
    } else {
      complain(
          fmt::format("message {} of queue {} names nobody to answer (no header {}): what the "
                      "command printed is ignored",
                      number(message.id), base::printable(work.queue()), wire::reply_queue_header));
    }
    return Verdict::ok();
  }
  const workflow::AttemptFailure failure = failure_of(*end, command);
  if (is_dead(*end, options) && !end->too_long) {
    if (!awaited) return Verdict::dead(reason_for(*end));
    workflow::add_error(message, failure, work.transaction());
    return Verdict::ok();
  }
  // After the last attempt the store itself tells the one who waits.
  return Verdict::retry(failure.type == "exit_code" ? reason_for(*end) : failure.text,
                        awaited ? workflow::next_attempt_in(message, failure) : std::nullopt);
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
    complain(fmt::format("{} messages acknowledged, {} to be tried again, {} given back{}",
                         stats.acked, stats.retried, stats.released,
                         stats.dead > 0 ? fmt::format(", {} dead", stats.dead) : ""));
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
  consuming.hand_out = options.one_by_one || options.reply ? HandOut::messages : HandOut::lanes;
  if (options.coalesce) consuming.coalesce = Coalesce{.window = *options.coalesce};
  consuming.on_trouble = tell;
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const Interrupts interrupts;
  auto consumer = Consumer::start(**store, consuming, [&options](Work& work) {
    return options.reply ? answer(work, options) : handle(work, options);
  });
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
                  "  strand consume mails --exec 'jq -r .body | mail -s hello me' --until-idle\n"
                  "  strand consume activities --label charge_card --exec ./charge.sh --reply"},
      declare_consume, run_consume);
}

}  // namespace strand::cli
