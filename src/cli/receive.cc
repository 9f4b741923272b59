#include <chrono>
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
#include "cli/input.h"
#include "cli/json.h"

// receive

namespace strand::cli {

namespace {

using base::escaped;

struct ReceiveOptions : Common {
  LeaseRequest request = {};
  std::optional<Duration> wait = {};
  bool ack = false;
};

void declare_receive(CLI::App& app, ReceiveOptions& options) {
  LeaseRequest& request = options.request;
  add_text(app, "QUEUE", request.queue, "", "The queue").required();
  add_text(app, "--key", request.key, "K", "Only the lane of this key");
  add_values(app, "--label", "L",
             "Only lanes with this label ('' is none); may be repeated, then with any of them",
             [&request](std::string_view text) -> Result<void> {
               request.labels.emplace_back(text);
               return {};
             });
  add_number<std::uint32_t>(app, "--lanes", request.lanes, 1, "At most so many lanes (1)");
  add_number<std::uint32_t>(app, "--max", request.messages, 1,
                            "At most so many messages, over all lanes (1000)");
  add_duration(app, "--lease", request.lease, "How long the lease runs; else the queue says");
  add_duration(app, "--wait", options.wait, "Waits so long if there is nothing yet");
  add_flag(app, "--ack", options.ack, "Acknowledges what was printed, at once");
  add_text(app, "--owner", request.owner, "O",
           "Who asks: finds lanes that are kept for this owner");
}

std::string describe(const Message& message) {
  std::string line = fmt::format("  {}  {}", number(message.id), escaped(message.body));
  for (const Header& header : message.headers)
    line += fmt::format("\n      {}: {}", escaped(header.name), escaped(header.value));
  if (message.deliveries > 1 || message.attempts > 0) {
    line += fmt::format("\n      delivery {}, failed attempts {}", message.deliveries,
                        message.attempts);
  }
  return line + "\n";
}

std::string describe(const Lease& lease) {
  std::string text = fmt::format("token {}\n", lease.token.to_string());
  if (lease.key) text += fmt::format("key {}\n", escaped(*lease.key));
  if (!lease.label.empty()) text += fmt::format("label {}\n", lease.label);
  text += fmt::format("expires {}\n", format_time(lease.expires_at));
  for (const Message& message : lease.messages)
    text += describe(message);
  if (lease.isolated) text += "  (alone, because the lease before it ran out)\n";
  if (lease.more) text += "  (the lane has more)\n";
  return text;
}

void print(const std::vector<Lease>& leases, Output& output) {
  bool first = true;
  for (const Lease& lease : leases) {
    if (output.json()) {
      output.object(to_json(lease));
    } else {
      output.text((first ? "" : "\n") + describe(lease));
    }
    first = false;
  }
}

// Each lease for itself: one that is lost must not keep the others from being settled.
Exit acknowledge(Store& store, const std::vector<Lease>& leases) {
  std::vector<Transaction> transactions;
  for (const Lease& lease : leases) {
    Settle& settle = transactions.emplace_back().settles.emplace_back();
    settle.token = lease.token;
    for (const Message& message : lease.messages)
      settle.outcomes.emplace_back().id = message.id;
  }
  Exit exit = Exit::done;
  const auto receipts = store.apply(transactions);
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    if (receipts[i]) continue;
    exit = fail(fmt::format("the lease {} was printed, and could not be acknowledged: {}",
                            leases[i].token.to_string(), receipts[i].error().message));
  }
  return exit;
}

Exit deliver(Store& store, const std::vector<Lease>& leases, bool ack, Output& output) {
  print(leases, output);
  if (!ack) return Exit::done;
  // What has not reached its reader must come again.
  if (!output.flush()) return Exit::failed;
  return acknowledge(store, leases);
}

// Leases as soon as there is something, until the time is over: an empty answer. Nothing: a signal
// came first.
Result<std::optional<std::vector<Lease>>> lease_within(Store& store, const LeaseRequest& request,
                                                       Duration wait,
                                                       const Interrupts& interrupts) {
  using std::chrono::steady_clock;
  const auto started = steady_clock::now();
  const Bell bell;
  // The watch comes first, so that nothing arrives unnoticed between a look and a wait.
  const Watch watch = store.watch(WatchQueue{request.queue}, [&bell] { bell.ring(); });
  while (true) {
    if (interrupts.caught() != 0) return std::nullopt;
    auto leases = store.lease(request);
    if (!leases) return std::unexpected(std::move(leases).error());
    const auto passed = std::chrono::duration_cast<Duration>(steady_clock::now() - started);
    if (!leases->empty() || passed >= wait) return *std::move(leases);
    bell.wait(wait - passed + Duration{1}, interrupts);
  }
}

Exit run_receive(const ReceiveOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const Interrupts interrupts;
  const auto leases =
      lease_within(**store, options.request, options.wait.value_or(Duration{0}), interrupts);
  if (!leases) return fail(leases.error());
  if (!*leases) return ended_by(interrupts.caught());
  if ((*leases)->empty()) {
    if (!output.json()) {
      complain(fmt::format("there is nothing to receive from '{}'", options.request.queue));
    }
    return Exit::nothing;
  }
  return deliver(**store, **leases, options.ack, output);
}

}  // namespace

void add_receive_commands(Family program) {
  add_command<ReceiveOptions>(
      program,
      {.name = "receive",
       .what = "Leases a lane (or more) and prints its messages.",
       .example = "  strand receive orders --lease 1m\n"
                  "  strand receive orders --lanes 10 --wait 30s --ack -o json"},
      declare_receive, run_receive);
}

}  // namespace strand::cli
