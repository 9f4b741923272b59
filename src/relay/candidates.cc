#include "relay/candidates.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace strand::relay {
namespace {

using postgres::Group;
using postgres::Statement;

}  // namespace

Candidates::Candidates(const Outbox& outbox, postgres::Connection& connection,
                       const std::function<std::string(const std::string&)>& free)
    : outbox_(outbox), connection_(connection) {
  std::string condition = not_stopped(outbox, "e", 3);
  if (free) condition += " AND " + free("e");
  oldest_sql_ = fmt::format(
      "WITH head AS MATERIALIZED (SELECT {0} AS k, {1} AS o FROM {2} WHERE {3} ORDER BY {1} LIMIT "
      "$1), found AS (SELECT k::text AS e, min(o) AS o FROM head GROUP BY k) "
      "SELECT (SELECT count(*) FROM head), "
      "ARRAY(SELECT e FROM found WHERE {4} ORDER BY o LIMIT $2)",
      outbox.key(), outbox.order(), outbox.table(), outbox.waiting(), condition);
  const std::string type = outbox.type_of(outbox.settings().columns.key);
  const auto step = [&](const std::string& beyond) {
    return fmt::format("SELECT {0} AS k FROM {1} WHERE {2}{3} ORDER BY {0}, {4} LIMIT 1",
                       outbox.key(), outbox.table(), outbox.waiting(), beyond, outbox.order());
  };
  hop_sql_ = fmt::format(
      "WITH RECURSIVE hop AS (({0}) UNION ALL SELECT n.k FROM hop h, LATERAL ({1}) n), "
      "seen AS MATERIALIZED (SELECT k::text AS e FROM hop LIMIT $2) "
      "SELECT ARRAY(SELECT e FROM seen), ARRAY(SELECT e FROM seen WHERE {2})",
      step(fmt::format(" AND ($1::text IS NULL OR {} > $1::text::{})", outbox.key(), type)),
      step(fmt::format(" AND {} > h.k", outbox.key())), condition);
}

Result<Candidates::Found> Candidates::oldest() {
  const TableSettings& settings = outbox_.settings();
  const std::int64_t rows_max = settings.candidates * rows_per_candidate;
  Statement statement{.sql = oldest_sql_};
  statement.params.int8(rows_max).int8(settings.candidates).text(settings.full_name());
  const auto answer = connection_.run(Group{std::move(statement)});
  if (!answer) return std::unexpected(error_of(answer.error(), "looking for rows"));
  const postgres::Rows& rows = answer->front();
  return Found{.entities = rows.bytes_array(0, 1), .more = rows.int8(0, 0) == rows_max};
}

Result<Candidates::Found> Candidates::hop() {
  const TableSettings& settings = outbox_.settings();
  Statement statement{.sql = hop_sql_};
  statement.params.text(last_hop_).int8(settings.candidates).text(settings.full_name());
  const auto answer = connection_.run(Group{std::move(statement)});
  if (!answer) return std::unexpected(error_of(answer.error(), "looking for entities"));
  const auto seen = answer->front().bytes_array(0, 0);
  const bool more = seen.size() == settings.candidates;
  last_hop_ = more ? std::optional(seen.back()) : std::nullopt;
  return Found{.entities = answer->front().bytes_array(0, 1), .more = more};
}

Result<std::vector<Claim>> Candidates::claim(const Take& take) {
  const std::size_t wanted = outbox_.settings().entities;
  std::vector<Claim> claims;
  const auto take_of = [&](Found& found) -> Result<void> {
    // A session may take its own locks twice: what is in hand already is no candidate.
    std::erase_if(found.entities, [&](const std::string& entity) {
      return std::ranges::find(claims, entity, &Claim::entity) != claims.end();
    });
    if (found.entities.empty()) return {};
    auto taken = take(std::move(found.entities), wanted - claims.size());
    if (!taken) return std::unexpected(taken.error());
    std::ranges::move(*taken, std::back_inserter(claims));
    return {};
  };
  auto found = oldest();
  if (!found) return std::unexpected(found.error());
  if (auto taken = take_of(*found); !taken) return std::unexpected(taken.error());
  if (claims.size() >= wanted || !found->more) return claims;
  // From where it stopped to the end, and, if that was too little, once more from the beginning.
  for (int round = 0; round < 2 && claims.size() < wanted; ++round) {
    const bool from_start = !last_hop_;
    auto hopped = hop();
    if (!hopped) return std::unexpected(hopped.error());
    if (auto taken = take_of(*hopped); !taken) return std::unexpected(taken.error());
    if (from_start && !hopped->more) break;
  }
  return claims;
}

}  // namespace strand::relay
