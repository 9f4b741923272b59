#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <strand/store.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/content.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/lines.h"

// send

namespace strand::cli {

namespace {

struct SendOptions : ContentOptions {
  std::string queue = {};
  std::string label = {};
  std::optional<std::string> name = {};
  bool lines = false;
  std::optional<std::string> key_separator = {};
};

void declare_send(CLI::App& app, SendOptions& options) {
  add_text(app, "QUEUE", options.queue, "", "The queue; it is created if it does not exist")
      .required();
  add_content(app, options);
  add_text(app, "--label", options.label, "L", "Brought to a lane that has no label");
  add_text(app, "--name", options.name, "N", "Unique among the live messages of the queue");
  add_flag(app, "--lines", options.lines, "Sends each line of the standard input as a message");
  add_text(app, "--key-separator", options.key_separator, "S",
           "With --lines: each line is KEY, this separator, and the body");
}

// Nothing if the options go together.
std::optional<Exit> check_lines(const SendOptions& options) {
  if (!options.lines) {
    if (!options.key_separator) return std::nullopt;
    return wrong_usage("--key-separator takes the key from lines: it needs --lines");
  }
  if (options.body && *options.body != "-") {
    return wrong_usage("--lines takes the bodies from the standard input: give no BODY");
  }
  if (options.dedup_id || options.name) {
    return wrong_usage("--dedup and --name are for one message: they do not go with --lines");
  }
  if (options.key_separator && options.key) {
    return wrong_usage("--key and --key-separator both name the key: give one of them");
  }
  if (options.key_separator && options.key_separator->empty()) {
    return wrong_usage("--key-separator is empty");
  }
  return std::nullopt;
}

Exit run_send(const SendOptions& options, Output& output) {
  if (const auto wrong = check_lines(options)) return *wrong;
  Send send;
  fill(send, options);
  send.queue = options.queue;
  send.label = options.label;
  send.name = options.name;
  if (!options.lines) {
    auto body = read_body(options.body);
    if (!body && body.error().code == Errc::invalid_argument) {
      return wrong_usage(body.error().message);
    }
    if (!body) return fail(body.error());
    send.body = *std::move(body);
  }
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  if (options.lines) {
    return send_lines(**store,
                      {.pattern = std::move(send),
                       .key_separator = options.key_separator,
                       .durability = options.durability},
                      output);
  }
  Transaction transaction;
  transaction.durability = options.durability;
  transaction.sends.push_back(std::move(send));
  const auto receipt = (*store)->apply(transaction);
  if (!receipt) return fail(receipt.error());
  const Sent& sent = receipt->sent.front();
  if (output.json()) {
    output.object(to_json(sent));
  } else {
    output.text(fmt::format("{} {}\n", sent.duplicate ? "duplicate of" : "sent", number(sent.id)));
  }
  return Exit::done;
}

}  // namespace

void add_send_commands(Family program) {
  add_command<SendOptions>(program,
                           {.name = "send",
                            .what = "Sends a message, or many.",
                            .example = "  strand send orders charge --key order-7\n"
                                       "  tail -f events.log | strand send events --lines"},
                           declare_send, run_send);
}

}  // namespace strand::cli
