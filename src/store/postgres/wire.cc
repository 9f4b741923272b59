#include "store/postgres/wire.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

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

Traffic move_bytes(PGconn* connection, bool answer_wanted) {
  const int unsent = PQflush(connection);
  if (unsent < 0) {
    return Traffic::gone;
  }
  if (unsent == 0 && !answer_wanted) {
    return Traffic::flushed;
  }
  pollfd watched{PQsocket(connection), POLLIN, 0};
  if (watched.fd < 0) {
    return Traffic::gone;
  }
  if (unsent > 0) {
    watched.events |= POLLOUT;
  }
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
  const bool readable = (watched.revents & ~POLLOUT) != 0;
  if (readable && PQconsumeInput(connection) == 0) {
    return Traffic::gone;
  }
  return Traffic::moved;
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
