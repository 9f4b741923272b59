#include "pq/pooler.h"

#include <string_view>

#include <fmt/format.h>

namespace strand::postgres {
namespace {

std::unexpected<Error> pooled(std::string_view how) {
  return failure(
      Errc::invalid_argument,
      fmt::format("there is a pooler in transaction mode (such as pgbouncer) in between, "
                  "which gives each transaction another session ({}): connect to the "
                  "server itself, or use session mode",
                  how));
}

std::expected<int, Failure> process_of(Connection& connection) {
  const auto answer = connection.run(Group{Statement{.sql = "select pg_backend_pid()"}});
  if (!answer) return std::unexpected(answer.error());
  return answer->front().int4(0, 0);
}

}  // namespace

Result<void> check_pooler(Connection& connection, const std::string& conninfo) {
  const auto served_by = process_of(connection);
  if (!served_by) return pooled(served_by.error().message);
  // The server itself says at the start who serves the connection, and a pooler makes that up.
  if (*served_by == connection.backend_pid()) return {};
  const auto other = Connection::open(conninfo);
  if (!other) return std::unexpected(other.error());
  for (int i = 0; i < 3; ++i) {
    const auto here = process_of(connection);
    if (!here) return pooled(here.error().message);
    const auto there = process_of(**other);
    if (!there) return pooled(there.error().message);
    if (*here != *served_by || *here == *there) {
      return pooled("two connections have one, or one has two");
    }
  }
  return {};
}

}  // namespace strand::postgres
