#include "pq/pipeline.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace strand::postgres {
namespace {

// So much is queued before it is written; more would only use memory.
constexpr std::size_t unflushed_bytes_max = std::size_t{64} << 10U;
constexpr std::size_t params_max = 65'535;
constexpr int binary = 1;

}  // namespace

Connection::Pipeline::Pipeline(Connection& connection, std::span<const Group> groups)
    : connection_(connection), groups_(groups), progress_(groups.size()) {}

bool Connection::Pipeline::exchange() {
  send_prepares();
  for (std::size_t i = 0; i < groups_.size() && !lost_; ++i) {
    send_group(i);
  }
  wait_for_answers();
  // Only now: until here they are sent as if they were prepared, and refused by the server.
  for (const auto& [sql, failure] : not_prepared_) {
    connection_.prepared_.erase(std::string(sql));
  }
  return !lost_;
}

void Connection::Pipeline::send_prepares() {
  for (const Group& group : groups_) {
    for (const Statement& statement : group) {
      if (lost_) {
        return;
      }
      const auto known = connection_.prepared_.find(statement.sql);
      if (known == connection_.prepared_.end()) {
        send_prepare(statement);
      } else {
        STRAND_ASSERT(std::ranges::equal(known->second.types, statement.params.types()),
                      "a statement's parameters have the same types each time");
      }
    }
  }
}

// A sync of its own, so that one that fails takes no other along.
void Connection::Pipeline::send_prepare(const Statement& statement) {
  const auto types = statement.params.types();
  STRAND_ASSERT(types.size() <= params_max, "a statement has at most 65,535 parameters");
  const auto [prepared, added] = connection_.prepared_.emplace(
      statement.sql, Prepared{fmt::format("s{}", ++connection_.names_),
                              std::vector<unsigned>(types.begin(), types.end())});
  if (PQsendPrepare(connection_.handle_.get(), prepared->second.name.c_str(), statement.sql.c_str(),
                    static_cast<int>(types.size()), types.data()) == 0) {
    lose(last_words(connection_.handle_.get()));
    return;
  }
  awaited_.push_back({.kind = Awaited::Kind::prepare, .statement = &statement});
  unflushed_bytes_ += statement.sql.size();
  send_sync(std::nullopt);
}

void Connection::Pipeline::send_group(std::size_t group) {
  if (groups_[group].empty()) {
    progress_[group].done = true;
    return;
  }
  progress_[group].rows.reserve(groups_[group].size());
  for (const Statement& statement : groups_[group]) {
    if (!send(statement, group)) {
      return;
    }
  }
  send_sync(group);
}

bool Connection::Pipeline::send(const Statement& statement, std::size_t group) {
  const Params& params = statement.params;
  params.point_at_values(pointers_);
  formats_.resize(std::max(formats_.size(), params.size()), binary);
  const Prepared& prepared = connection_.prepared_.at(statement.sql);
  if (PQsendQueryPrepared(connection_.handle_.get(), prepared.name.c_str(),
                          static_cast<int>(params.size()), pointers_.data(),
                          params.lengths().data(), formats_.data(), binary) == 0) {
    lose(last_words(connection_.handle_.get()));
    return false;
  }
  awaited_.push_back({.kind = Awaited::Kind::statement, .statement = &statement, .group = group});
  unflushed_bytes_ += params.bytes();
  if (unflushed_bytes_ > unflushed_bytes_max) {
    flush();
  }
  return !lost_;
}

void Connection::Pipeline::send_sync(std::optional<std::size_t> group) {
  if (group) {
    // Before it is sent: when that fails, it may yet have gone out.
    progress_[*group].committing = true;
  }
  if (PQpipelineSync(connection_.handle_.get()) == 0) {
    lose(last_words(connection_.handle_.get()));
    return;
  }
  awaited_.push_back({.kind = Awaited::Kind::sync, .group = group});
  flush();
}

void Connection::Pipeline::flush() {
  unflushed_bytes_ = 0;
  while (!lost_) {
    const Traffic traffic = move_bytes(connection_.handle_.get(), false);
    read_answers();
    if (traffic == Traffic::gone) {
      lose(last_words(connection_.handle_.get()));
    }
    if (traffic == Traffic::flushed) {
      return;
    }
  }
}

void Connection::Pipeline::wait_for_answers() {
  read_answers();
  while (!lost_ && !awaited_.empty()) {
    const Traffic traffic = move_bytes(connection_.handle_.get(), true);
    read_answers();
    if (traffic == Traffic::gone && !awaited_.empty()) {
      lose(last_words(connection_.handle_.get()));
    }
  }
}

void Connection::Pipeline::read_answers() {
  while (!lost_ && !awaited_.empty() && PQisBusy(connection_.handle_.get()) == 0) {
    ResultHandle result(PQgetResult(connection_.handle_.get()));
    if (result == nullptr) {
      read_end_of_answer();
    } else {
      read_answer(std::move(result));
    }
  }
}

// libpq marks the end of the answer to each statement, and of an error in place of a sync.
void Connection::Pipeline::read_end_of_answer() {
  if (!awaited_.front().answered) {
    lose(last_words(connection_.handle_.get()));
  } else if (awaited_.front().kind == Awaited::Kind::sync) {
    awaited_.front().answered = false;  // the sync itself is still to come
  } else {
    awaited_.pop_front();
  }
}

void Connection::Pipeline::read_answer(ResultHandle result) {
  Awaited& awaited = awaited_.front();
  const ExecStatusType status = PQresultStatus(result.get());
  switch (status) {
    case PGRES_PIPELINE_SYNC:
      STRAND_ASSERT(awaited.kind == Awaited::Kind::sync, "answers come in the order of sending");
      if (awaited.group) {
        progress_[*awaited.group].done = true;
      }
      awaited_.pop_front();
      return;
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
      STRAND_ASSERT(awaited.kind != Awaited::Kind::sync, "answers come in the order of sending");
      awaited.answered = true;
      if (awaited.kind == Awaited::Kind::statement) {
        progress_[*awaited.group].rows.emplace_back(result.release());
      }
      return;
    case PGRES_PIPELINE_ABORTED:
      awaited.answered = true;
      return;
    case PGRES_FATAL_ERROR:
      read_refusal(result.get());
      return;
    default:
      lose(fmt::format("the server answers {}, which has no place here", PQresStatus(status)));
  }
}

void Connection::Pipeline::read_refusal(const PGresult* result) {
  Awaited& awaited = awaited_.front();
  Failure failure = read_failure(result);
  if (failure.sqlstate.empty()) {
    lose(failure.message);
    return;
  }
  if (is_fatal(result)) {
    lose(failure.message);
    ended_ = std::move(failure);
    return;
  }
  awaited.answered = true;
  if (awaited.kind == Awaited::Kind::prepare) {
    not_prepared_.emplace(awaited.statement->sql, std::move(failure));
  } else if (awaited.group && !progress_[*awaited.group].refused) {
    progress_[*awaited.group].refused = std::move(failure);
    progress_[*awaited.group].refused_at = awaited.statement;
  }
}

void Connection::Pipeline::lose(std::string message) {
  if (!lost_) {
    lost_ = message.empty() ? "the connection to PostgreSQL is lost" : std::move(message);
  }
}

std::vector<GroupResult> Connection::Pipeline::take_results() {
  std::vector<GroupResult> results;
  results.reserve(progress_.size());
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    results.push_back(result_of(progress_[i], i));
  }
  return results;
}

GroupResult Connection::Pipeline::result_of(Progress& progress, std::size_t group) {
  // An error ends a transaction, whether the server had time to confirm the end or not.
  if (progress.refused) {
    return std::unexpected(refusal_of(progress));
  }
  if (progress.done) {
    STRAND_ASSERT(progress.rows.size() == groups_[group].size(), "each statement was answered");
    return std::move(progress.rows);
  }
  return std::unexpected(loss_of(progress, group));
}

Failure Connection::Pipeline::refusal_of(Progress& progress) const {
  // "No such prepared statement" hides why it could not be prepared.
  constexpr std::string_view unknown_statement = "26000";
  if (progress.refused_at != nullptr && progress.refused->sqlstate == unknown_statement) {
    const auto cause = not_prepared_.find(progress.refused_at->sql);
    if (cause != not_prepared_.end()) {
      return cause->second;
    }
  }
  return std::move(*progress.refused);
}

// The server commits a group when it comes to its sync. It answers all statements before that, and
// it reads nothing after it has ended the connection. So, of the groups that were sent:
// - it ended the connection in place of a statement's answer: that group was not committed, and
//   those behind it were not read;
// - it did so in place of a sync's answer: the commit may have come before it;
// - the connection broke without a word: all of them may be committed.
Failure Connection::Pipeline::loss_of(const Progress& progress, std::size_t group) const {
  Failure not_sent{.kind = Failure::Kind::not_sent, .message = *lost_};
  if (!progress.committing || connection_.ended_) {
    return not_sent;
  }
  if (ended_) {
    const Awaited& ended_at = awaited_.front();
    if (ended_at.group != group) {
      return not_sent;
    }
    Failure failure = *ended_;
    failure.kind = ended_at.kind == Awaited::Kind::sync ? Failure::Kind::unknown_outcome
                                                        : Failure::Kind::refused;
    return failure;
  }
  return {.kind = Failure::Kind::unknown_outcome, .message = *lost_};
}

}  // namespace strand::postgres
