#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "relay/candidates.h"
#include "relay/claims.h"

// Strategy B: a row for each claimed entity, taken with SKIP LOCKED, fenced by its epoch.

namespace strand::relay {
namespace {

using postgres::Group;
using postgres::Statement;

class RowClaims final : public Claims {
 public:
  RowClaims(const Outbox& outbox, postgres::Connection& connection, const Owner& owner)
      : outbox_(outbox),
        connection_(connection),
        owner_(owner.name()),
        relay_(outbox.settings().full_name()),
        candidates_(outbox, connection, [&](const std::string& entity) {
          return fmt::format(
              "NOT EXISTS (SELECT FROM {} c WHERE c.relay = {} AND c.entity = {} AND "
              "c.until >= now())",
              outbox.own().claims, literal(outbox.settings().full_name()), entity);
        }) {
    const std::string& claims = outbox.own().claims;
    insert_sql_ = fmt::format(
        "INSERT INTO {} (relay, entity) SELECT $1, e FROM unnest($2::text[]) e ORDER BY e ON "
        "CONFLICT DO NOTHING",
        claims);
    // The epoch of the whole claim is taken under the locks, and committed with it.
    take_sql_ = fmt::format(
        "WITH free AS MATERIALIZED (SELECT c.entity FROM {0} c WHERE c.relay = $1 AND c.entity = "
        "ANY($2::text[]) AND c.until < now() FOR UPDATE SKIP LOCKED), "
        "next AS MATERIALIZED (SELECT nextval('{1}') AS epoch) "
        "UPDATE {0} c SET owner = $3, epoch = next.epoch, until = now() + $4 * interval '1 "
        "millisecond' FROM free, next WHERE c.relay = $1 AND c.entity = free.entity "
        "RETURNING c.entity, c.epoch",
        claims, outbox.own().epochs);
  }

  Result<std::vector<Claim>> claim() override {
    return candidates_.claim([this](std::vector<std::string> entities, std::size_t wanted) {
      return take(std::move(entities), wanted);
    });
  }

  [[nodiscard]] Fence fence(std::span<const Claim> claims) const override {
    const bool any_epoch = STRAND_PLANTED("relay-marks-under-any-epoch");
    return {
        .held = fmt::format("SELECT c.entity AS slot FROM {} c WHERE c.relay = $4 AND c.entity = "
                            "ANY($5::text[]) AND (c.epoch = ANY($6::int8[]) OR {}) FOR UPDATE",
                            outbox_.own().claims, any_epoch),
        .release = fmt::format("DELETE FROM {} c USING held WHERE c.relay = $4 AND c.entity = "
                               "held.slot",
                               outbox_.own().claims),
        .add_params = [this, claims](postgres::Params& params) { add(params, claims); }};
  }

  Result<bool> keep(std::span<const Claim> claims) override {
    Statement statement{
        .sql = fmt::format("UPDATE {} SET until = now() + $4 * interval '1 millisecond' WHERE "
                           "relay = $1 AND entity = ANY($2::text[]) AND epoch = ANY($3::int8[])",
                           outbox_.own().claims)};
    add(statement.params, claims);
    statement.params.int8(outbox_.settings().lease.count());
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "keeping claims"));
    return answer->front().affected() == claims.size();
  }

  Result<void> release(std::span<const Claim> claims) override {
    if (claims.empty()) return {};
    Statement statement{.sql = fmt::format("DELETE FROM {} WHERE relay = $1 AND entity = "
                                           "ANY($2::text[]) AND epoch = ANY($3::int8[])",
                                           outbox_.own().claims)};
    add(statement.params, claims);
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "releasing claims"));
    return {};
  }

  // Claims whose entity has no waiting row any more, because somebody has removed it.
  Result<void> upkeep() override {
    Statement statement{.sql = fmt::format("DELETE FROM {} WHERE relay = $1 AND until < now() - "
                                           "interval '1 hour'",
                                           outbox_.own().claims)};
    statement.params.text(relay_);
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "cleaning up claims"));
    return {};
  }

 private:
  // Epochs are never used twice, so that those of a batch need not be paired with their entities.
  void add(postgres::Params& params, std::span<const Claim> claims) const {
    std::vector<std::int64_t> epochs;
    for (const Claim& claim : claims)
      if (epochs.empty() || epochs.back() != claim.epoch) epochs.push_back(claim.epoch);
    params.text(relay_).texts(entities_of(claims)).int8s(std::span<const std::int64_t>(epochs));
  }

  // Workers that look at the same time see the same candidates: each begins somewhere else.
  Result<std::vector<Claim>> take(std::vector<std::string> entities, std::size_t wanted) {
    if (entities.size() > wanted) {
      const auto offset =
          std::uniform_int_distribution<std::size_t>(0, entities.size() - 1)(random_);
      std::ranges::rotate(entities, entities.begin() + static_cast<std::ptrdiff_t>(offset));
      entities.resize(wanted);
    }
    const std::vector<std::optional<std::string_view>> texts(entities.begin(), entities.end());
    Group group(2);
    group[0].sql = insert_sql_;
    group[0].params.text(relay_).texts(texts);
    group[1].sql = take_sql_;
    group[1].params.text(relay_).texts(texts).text(owner_).int8(outbox_.settings().lease.count());
    const auto answer = connection_.run(group);
    if (!answer) return std::unexpected(error_of(answer.error(), "claiming entities"));
    const postgres::Rows& rows = (*answer)[1];
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string entity(rows.bytes(i, 0));
      claims.push_back({.entity = entity, .slot = entity, .epoch = rows.int8(i, 1)});
    }
    return claims;
  }

  const Outbox& outbox_;
  postgres::Connection& connection_;
  std::string owner_;
  std::string relay_;
  Candidates candidates_;
  std::string insert_sql_;
  std::string take_sql_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace

std::unique_ptr<Claims> make_row_claims(const Outbox& outbox, postgres::Connection& connection,
                                        const Owner& owner) {
  return std::make_unique<RowClaims>(outbox, connection, owner);
}

}  // namespace strand::relay
