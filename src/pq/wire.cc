#include "pq/wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include <poll.h>

namespace strand::postgres {
namespace {

std::string field(const PGresult* result, int code) {
  const char* value = PQresultErrorField(result, code);
  return value == nullptr ? std::string() : std::string(value);
}

std::string one_line(std::string_view text) {
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  std::erase(line, '\t');
  return line;
}

}  // namespace

Traffic move_bytes(PGconn* connection, bool answer_wanted, int stop) {
  const int unsent = PQflush(connection);
  if (unsent < 0) {
    return Traffic::gone;
  }
  if (unsent == 0 && !answer_wanted) {
    return Traffic::flushed;
  }
  std::array<pollfd, 2> watched{pollfd{PQsocket(connection), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
  if (watched[0].fd < 0) {
    return Traffic::gone;
  }
  if (unsent > 0) {
    watched[0].events |= POLLOUT;
  }
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
  if (watched[1].revents != 0) {
    return Traffic::stopped;
  }
  const bool readable = (watched[0].revents & ~POLLOUT) != 0;
  if (readable && PQconsumeInput(connection) == 0) {
    return Traffic::gone;
  }
  return Traffic::moved;
}

std::expected<void, Failure> run_script(PGconn* connection, const std::string& sql, int stop) {
  if (PQsendQuery(connection, sql.c_str()) == 0) {
    // A part may have gone out, but never the end, without which the server does nothing.
    return std::unexpected(
        Failure{.kind = Failure::Kind::not_sent, .message = last_words(connection)});
  }
  std::optional<Failure> failure;
  while (true) {
    Traffic traffic = Traffic::moved;
    while (traffic == Traffic::moved && PQisBusy(connection) != 0) {
      traffic = move_bytes(connection, true, stop);
    }
    if (PQisBusy(connection) != 0) {
      return std::unexpected(failure.value_or(
          Failure{.kind = Failure::Kind::unknown_outcome, .message = last_words(connection)}));
    }
    const ResultHandle result(PQgetResult(connection));
    if (result == nullptr) {
      break;
    }
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
      return std::unexpected(Failure{.message = "a script has no COPY from or to its client"});
    }
    if (status == PGRES_FATAL_ERROR && !failure) {
      failure = read_failure(result.get());
      // The last statement is answered after the commit, so only an error that leaves the
      // connection open says that there was none.
      if (failure->sqlstate.empty() || is_fatal(result.get())) {
        failure->kind = Failure::Kind::unknown_outcome;
      }
    }
  }
  if (!failure && PQstatus(connection) != CONNECTION_OK) {
    failure = Failure{.kind = Failure::Kind::unknown_outcome, .message = last_words(connection)};
  }
  if (failure) {
    return std::unexpected(std::move(*failure));
  }
  return {};
}

Failure read_failure(const PGresult* result) {
  Failure failure;
  failure.sqlstate = field(result, PG_DIAG_SQLSTATE);
  failure.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
  failure.detail = field(result, PG_DIAG_MESSAGE_DETAIL);
  if (failure.message.empty()) {
    failure.message = one_line(PQresultErrorMessage(result));
  }
  return failure;
}

bool is_fatal(const PGresult* result) {
  const std::string severity = field(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  return severity == "FATAL" || severity == "PANIC";
}

std::string last_words(const PGconn* connection) { return one_line(PQerrorMessage(connection)); }

}  // namespace strand::postgres
