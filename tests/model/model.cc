#include "model/model.h"

#include <algorithm>

#include "model/text.h"

namespace strand::model {
namespace {

// A snapshot is copied when so many calls have gathered since the last: copies cost more than
// calls, and a long log costs only when power is lost.
constexpr std::size_t log_size_max = 100;

}  // namespace

Model::Model(const Limits& limits) : decided_(limits), written_(decided_), durable_(decided_) {
  written_.replaying = true;
}

void Model::log(Commit commit, decltype(Call::what) what) {
  if (!log_.empty() && log_.back().commit > commit) {
    throw std::logic_error("commits must be told in order");
  }
  log_.push_back(Call{commit, std::move(what)});
}

void Model::replay(State& state, const Call& call) {
  struct Again {
    State& state;
    void operator()(const Call::Apply& x) const { state.apply(x.transaction, x.at, x.seen); }
    void operator()(const Call::Lend& x) const { state.lease(x.request, x.at, x.seen); }
    void operator()(const Call::Pull& x) const {
      state.pull(x.token, x.cursor, x.limits, x.at, x.seen);
    }
    void operator()(const Call::Renew& x) const { state.renew(x.token, x.lease, x.at, x.seen); }
    void operator()(const Call::Advance& x) const {
      state.wants(x.wanted);
      state.advance(x.at);
    }
    void operator()(const Call::Reload& x) const { state.reload(x.at, x.opened); }
    void operator()(const Call::Learn& x) const { state.learn(x.uid, x.id); }
  };
  std::visit(Again{state}, call.what);
}

void Model::apply(const Transaction& transaction, Time at, const Result<Receipt>& seen,
                  Commit commit) {
  decided_.apply(transaction, at, seen);
  log(commit, Call::Apply{transaction, at, seen});
}

std::vector<Lease> Model::lease(const LeaseRequest& request, Time at,
                                const Result<std::vector<Lease>>& seen, Commit commit) {
  std::vector<Lease> due = decided_.lease(request, at, seen);
  log(commit, Call::Lend{request, at, seen});
  return due;
}

Pulled Model::pull(const Token& token, Cursor cursor, PullLimits limits, Time at,
                   const Result<Pulled>& seen, Commit commit) {
  Pulled due = decided_.pull(token, cursor, limits, at, seen);
  log(commit, Call::Pull{token, cursor, limits, at, seen});
  return due;
}

void Model::renew(const Token& token, Duration lease, Time at, const Result<Time>& seen,
                  Commit commit) {
  decided_.renew(token, lease, at, seen);
  log(commit, Call::Renew{token, lease, at, seen});
}

void Model::advance(Time at, Time wanted, Commit commit) {
  decided_.wants(wanted);
  decided_.advance(at);
  log(commit, Call::Advance{at, wanted});
}

void Model::written(Commit commit, bool durable, const Told& told) {
  while (log_written_ < log_.size() && log_[log_written_].commit <= commit) {
    replay(written_, log_[log_written_++]);
  }
  written_commit_ = std::max(written_commit_, commit);
  written_.check_itself();
  check_told(told);
  written_.stirred = Stirred{};
  if (durable && log_written_ > log_size_max) {
    durable_ = written_;
    durable_.replaying = true;
    log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(log_written_));
    log_written_ = 0;
  }
}

// Spurious calls are allowed, lost ones are not.
void Model::check_told(const Told& told) const {
  if (told.everyone) return;
  const Stirred& stirred = written_.stirred;
  const auto missed = [](const std::string& what) {
    violate(Invariant::drains, "a watch of " + what + " was not called");
  };
  for (const auto& [queue, lane] : stirred.lanes) {
    if (!told.queues.contains(queue) && written_.is_ready(queue, lane)) {
      missed("queue " + quote(queue) + " (lane " + text(lane.key) + " is ready)");
    }
  }
  for (const std::string& queue : stirred.queues) {
    if (!told.queues.contains(queue) && written_.has_ready(queue)) {
      missed("queue " + quote(queue) + " (it was resumed)");
    }
  }
  for (const Epoch epoch : stirred.holds) {
    if (!told.holds.contains(epoch)) {
      missed("lane e" + std::to_string(static_cast<std::uint64_t>(epoch)));
    }
  }
  for (const auto& [space, key] : stirred.records) {
    if (!told.records.contains({space, key})) missed("record " + quote(space) + "/" + quote(key));
  }
}

void Model::reloaded(const Reloaded& what) {
  const auto [opened, survived, floor, at, commit] = what;
  expect(survived >= floor, Invariant::nothing_lost, [&what] {
    return "commit " + std::to_string(what.floor) + " was confirmed, but only " +
           std::to_string(what.survived) + " was found";
  });
  if (survived < written_commit_) {
    written_ = durable_;
    log_written_ = 0;
  }
  while (log_written_ < log_.size() && log_[log_written_].commit <= survived) {
    replay(written_, log_[log_written_++]);
  }
  written_.stirred = Stirred{};
  written_.replaying = true;
  written_commit_ = survived;
  durable_ = written_;
  log_.clear();
  log_written_ = 0;
  decided_ = written_;
  decided_.replaying = false;
  expect(at >= written_.accepted_at(), Invariant::not_early, [&] {
    return "time went back at an open: " + text(written_.accepted_at()) + " to " + text(what.at);
  });
  decided_.reload(at, opened);
  log(commit, Call::Reload{at, opened});
}

// --- Answers as clients get them ---

void Model::shown(const Receipt& receipt) {
  for (const Version version : receipt.versions) {
    decided_.shown->version_max = std::max(decided_.shown->version_max, version);
  }
}

void Model::check_message(const Message& due, const Message& seen) const {
  expect(due == seen, Invariant::contract,
         [&] { return "the message had to be " + text(due) + "\n  but was " + text(seen); });
  const auto [it, fresh] = decided_.shown->bodies.emplace(seen.id, seen.body);
  expect(fresh || it->second == seen.body, Invariant::one_end, [&] {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it loses a binding that is captured
    return text(seen.id) + " was the id of " + quote(it->second) + " and is now that of " +
           quote(seen.body);
  });
}

void Model::shown(const LeaseRequest& request, const std::vector<Lease>& due,
                  const std::vector<Lease>& seen) {
  expect(due.size() == seen.size(), Invariant::contract,
         [&] { return "the leases had to be " + text(due) + "\n  but were " + text(seen); });
  for (std::size_t i = 0; i < due.size(); ++i) {
    decided_.shown->epoch_max = std::max(decided_.shown->epoch_max, seen[i].token.epoch());
    std::size_t at = 0;
    for (const Message& message : due[i].messages) {
      const bool there = at < seen[i].messages.size() && seen[i].messages[at].id == message.id;
      // What ended in the same batch is not on disk any more.
      if (!there && !written_.exists_live(message.id)) continue;
      expect(there, Invariant::nothing_lost,
             [&] { return text(message.id) + " is missing in " + text(seen[i]); });
      check_message(message, seen[i].messages[at++]);
    }
    Lease rest = due[i];
    rest.messages = seen[i].messages;
    rest.history.reset();
    if (request.history_from && rest.key) {
      rest.history = written_.current_history(request, *rest.key);
    }
    expect(rest.history == seen[i].history, Invariant::one_chain, [&] {
      return "with the history, the lease had to be " + text(rest) + "\n  but was " + text(seen[i]);
    });
    expect(at == seen[i].messages.size() && rest == seen[i], Invariant::contract,
           [&] { return "the lease had to be " + text(due[i]) + "\n  but was " + text(seen[i]); });
  }
}

void Model::shown(const Pulled& due, const Pulled& seen) {
  std::size_t at = 0;
  for (const Message& message : due.messages) {
    const bool there = at < seen.messages.size() && seen.messages[at].id == message.id;
    if (!there && !written_.exists_live(message.id)) continue;
    expect(there, Invariant::nothing_lost,
           [&] { return text(message.id) + " is missing in " + text(seen); });
    check_message(message, seen.messages[at++]);
  }
  expect(at == seen.messages.size() && due.cursor == seen.cursor && due.more == seen.more,
         Invariant::contract,
         [&] { return "the pull had to return " + text(due) + "\n  but returned " + text(seen); });
}

void Model::drained() const {
  expect(decided_.live_messages() == 0, Invariant::drains,
         [&] { return std::to_string(decided_.live_messages()) + " messages are left"; });
}

}  // namespace strand::model
