#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/store.h>

#include "cli/commands.h"
#include "cli/json.h"

// ack, retry, dead, release, renew

namespace strand::cli {

namespace {

using Kind = Outcome::Kind;

struct SettleOptions : Common {
  Token token = {};
  std::vector<MessageId> ids = {};
  bool keep = false;
  std::string reason = {};
  std::optional<Duration> delay = {};
  std::optional<std::string> queue = {};
};

void add_token(CLI::App& app, Token& target) {
  add_value(app, "TOKEN", "", "The lease, as receive printed it",
            [&target](std::string_view text) -> Result<void> {
              const auto token = Token::parse(text);
              if (!token) return std::unexpected(token.error());
              target = *token;
              return {};
            })
      .required();
}

void declare_settle(CLI::App& app, SettleOptions& options) {
  add_token(app, options.token);
  add_ids(app, options.ids, "Messages of the lease; none: all that it carries");
  add_flag(app, "--keep", options.keep, "The lease goes on; else what is not named is given back");
  add_text(app, "--queue", options.queue, "Q",
           "Without ids: where the lease is, which saves looking through all queues");
}

void declare_dead(CLI::App& app, SettleOptions& options) {
  declare_settle(app, options);
  add_text(app, "--reason", options.reason, "TEXT", "Why, kept with the message");
}

void declare_retry(CLI::App& app, SettleOptions& options) {
  declare_dead(app, options);
  add_duration(app, "--delay", options.delay, "When to try again, instead of the queue's backoff");
}

Transaction settle_all(const SettleOptions& options, Kind kind, const std::vector<MessageId>& ids) {
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = options.token;
  settle.then = options.keep ? Settle::Then::keep : Settle::Then::end;
  for (const MessageId id : ids) {
    settle.outcomes.push_back(
        {.id = id, .kind = kind, .delay = options.delay, .reason = options.reason});
  }
  return transaction;
}

// --- Without ids ---
//
// A token does not say which messages its lease carries. But a lane has one lease at most: the
// leased messages of one lane are those of one lease. So each lane with leased messages is a
// candidate, and the settle itself finds the right one, because it names its messages: one that
// names messages of another lease fails and leaves no trace. No race can settle anything that the
// lease does not hold.

using Candidates = std::vector<std::vector<MessageId>>;

Result<void> add_candidates(Store& store, const std::string& queue, Candidates& candidates) {
  std::map<std::string, std::vector<MessageId>> lanes;
  PeekQuery query{.queue = queue, .state = MessageState::leased, .limit = 1000};
  while (true) {
    auto page = store.peek(query);
    if (!page) return std::unexpected(std::move(page).error());
    for (const PeekedMessage& message : page->items) {
      if (message.key) {
        lanes[*message.key].push_back(message.id);
      } else {
        candidates.push_back({message.id});
      }
    }
    if (!page->more || page->items.empty()) break;
    query.after = page->items.back().id;
  }
  for (auto& [key, ids] : lanes)
    candidates.push_back(std::move(ids));
  return {};
}

Result<Candidates> find_candidates(Store& store, const std::optional<std::string>& queue) {
  Candidates candidates;
  if (queue) {
    if (auto added = add_candidates(store, *queue, candidates); !added) {
      return std::unexpected(std::move(added).error());
    }
    return candidates;
  }
  const auto queues = store.queues();
  if (!queues) return std::unexpected(queues.error());
  for (const QueueInfo& info : *queues) {
    auto added = add_candidates(store, info.name, candidates);
    // A queue may be removed while we look.
    if (!added && added.error().code != Errc::not_found) {
      return std::unexpected(std::move(added).error());
    }
  }
  return candidates;
}

// Tries each candidate; the number of messages that were settled, or nothing if none of them is of
// this lease.
Result<std::optional<std::size_t>> settle_one_of(Store& store, const SettleOptions& options,
                                                 Kind kind, const Candidates& candidates) {
  std::vector<Transaction> transactions;
  for (const auto& ids : candidates)
    transactions.push_back(settle_all(options, kind, ids));
  const auto receipts = store.apply(transactions);
  std::optional<Error> error;
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    if (receipts[i]) return candidates[i].size();
    if (!error && receipts[i].error().code != Errc::message_not_leased) error = receipts[i].error();
  }
  if (error) return std::unexpected(*std::move(error));
  return std::nullopt;
}

// The number of messages that were settled.
Result<std::size_t> settle_carried(Store& store, const SettleOptions& options, Kind kind) {
  // A token that is not current says so at once.
  SettleOptions look = options;
  look.keep = true;
  if (const auto current = store.apply(settle_all(look, kind, {})); !current) {
    return std::unexpected(current.error());
  }
  // The lease may get or lose messages between the look and the settle, by another who has its
  // token: then we look again.
  static constexpr int looks_max = 3;
  for (int i = 0; i < looks_max; ++i) {
    const auto candidates = find_candidates(store, options.queue);
    if (!candidates) return std::unexpected(candidates.error());
    const auto settled = settle_one_of(store, options, kind, *candidates);
    if (!settled) return std::unexpected(settled.error());
    if (*settled) return **settled;
  }
  return failure(Errc::not_found,
                 "no messages of this lease were found; name them, or give back the lease with "
                 "strand release");
}

template <Kind kind>
Exit run_settle(const SettleOptions& options, Output& output) {
  static constexpr std::string_view done[] = {"acked", "retried", "dead", "released"};
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  std::optional<std::size_t> count;
  if (!options.ids.empty() || (kind == Kind::release && !options.keep)) {
    const auto receipt = (*store)->apply(settle_all(options, kind, options.ids));
    if (!receipt) return fail(receipt.error());
    // What is released with the lease is not counted by anyone.
    if (!options.ids.empty()) count = options.ids.size();
  } else {
    const auto settled = settle_carried(**store, options, kind);
    if (!settled) return fail(settled.error());
    count = *settled;
  }
  const std::string_view name = done[static_cast<std::size_t>(kind)];
  if (output.json()) {
    output.object({{"outcome", name},
                   {"messages", count ? boost::json::value(*count) : boost::json::value(nullptr)},
                   {"kept", options.keep}});
  } else {
    const std::string what = count ? fmt::format("{} {}", *count, name) : std::string(name);
    output.text(fmt::format("{}{}\n", what, options.keep ? "; the lease goes on" : ""));
  }
  return Exit::done;
}

// --- renew ---

struct RenewOptions : Common {
  Token token = {};
  std::optional<Duration> lease = {};
};

void declare_renew(CLI::App& app, RenewOptions& options) {
  add_token(app, options.token);
  add_duration(app, "--lease", options.lease, "How long the lease runs from now on (30s)");
}

Exit run_renew(const RenewOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const Duration lease = options.lease.value_or(QueueSettings{}.lease);
  const auto renewed = (*store)->renew({&options.token, 1}, lease);
  if (!renewed.front()) return fail(renewed.front().error());
  const std::string expires_at = format_time(*renewed.front());
  if (output.json()) {
    output.object({{"token", options.token.to_string()}, {"expires_at", expires_at}});
  } else {
    output.text(fmt::format("expires {}\n", expires_at));
  }
  return Exit::done;
}

}  // namespace

void add_settle_commands(Family program) {
  add_command<SettleOptions>(program,
                             {.name = "ack",
                              .what = "Messages of a lease are done.",
                              .example = "  strand ack TOKEN\n"
                                         "  strand ack TOKEN 17 18 --keep"},
                             declare_settle, run_settle<Kind::ack>);
  add_command<SettleOptions>(
      program,
      {.name = "retry",
       .what = "Messages of a lease have failed, and are tried again later.",
       .example = "  strand retry TOKEN 17 --delay 5m --reason 'the bank is closed'"},
      declare_retry, run_settle<Kind::retry>);
  add_command<SettleOptions>(program,
                             {.name = "dead",
                              .what = "Messages of a lease have failed for good.",
                              .example = "  strand dead TOKEN 17 --reason 'no such order'"},
                             declare_dead, run_settle<Kind::dead>);
  add_command<SettleOptions>(program,
                             {.name = "release",
                              .what = "Gives messages of a lease back, charging nothing.",
                              .example = "  strand release TOKEN"},
                             declare_settle, run_settle<Kind::release>);
  add_command<RenewOptions>(program,
                            {.name = "renew",
                             .what = "Lets a lease run on, counted from now.",
                             .example = "  strand renew TOKEN --lease 5m"},
                            declare_renew, run_renew);
}

}  // namespace strand::cli
