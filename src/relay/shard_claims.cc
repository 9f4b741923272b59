#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "relay/candidates.h"
#include "relay/claims.h"

// Strategy C: entities fall into shards by hash, and a worker has some shards under leases, each
// fenced by its epoch. Claiming an entity is then only reading: nobody else looks at the shard.

namespace strand::relay {
namespace {

using postgres::Group;
using postgres::Rows;
using postgres::Statement;

class ShardClaims final : public Claims {
 public:
  ShardClaims(const Outbox& outbox, postgres::Connection& connection, const Owner& owner)
      : outbox_(outbox),
        connection_(connection),
        owner_(owner.name()),
        process_(owner.process),
        relay_(outbox.settings().full_name()) {
    const std::string shard = shard_expression(outbox.settings());
    find_sql_ = fmt::format(
        "SELECT e, s FROM (SELECT r.e, s.s, min(r.o) AS o FROM unnest($1::int4[]) AS s(s), LATERAL "
        "(SELECT {0}::text AS e, {1} AS o FROM {2} WHERE {3} AND {4} = s.s AND {5} "
        "ORDER BY {1} LIMIT $3) r GROUP BY r.e, s.s) found ORDER BY o LIMIT $4",
        outbox.key(), outbox.order(), outbox.table(), outbox.waiting(), shard,
        not_stopped(outbox, outbox.key() + "::text", 2));
  }

  // A process that starts is a new owner: it finds nothing of its own here.
  Result<void> begin() override {
    if (auto counted = agree_on_count(); !counted) return counted;
    return balance();
  }

  Result<std::vector<Claim>> claim() override {
    // What is lost was not in use, between two batches; what is missing is taken in upkeep().
    if (auto kept = keep({}); !kept) return std::unexpected(kept.error());
    if (held_.empty()) return std::vector<Claim>{};
    const TableSettings& settings = outbox_.settings();
    Statement statement{.sql = find_sql_};
    const std::vector<std::int32_t> shards = held_shards();
    const auto rows_max = std::max<std::int64_t>(
        settings.candidates * rows_per_candidate / static_cast<std::int64_t>(shards.size()), 10);
    statement.params.int4s(std::span<const std::int32_t>(shards))
        .text(relay_)
        .int8(rows_max)
        .int8(settings.entities);
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "looking for rows"));
    std::vector<Claim> claims;
    std::set<std::string_view> seen;  // by partition, an entity can be in several shards
    for (std::size_t i = 0; i < answer->front().size(); ++i) {
      const std::int32_t shard = answer->front().int4(i, 1);
      if (!seen.insert(answer->front().bytes(i, 0)).second) continue;
      claims.push_back({.entity = std::string(answer->front().bytes(i, 0)),
                        .slot = fmt::to_string(shard),
                        .epoch = held_.at(shard)});
    }
    return claims;
  }

  [[nodiscard]] Fence fence(std::span<const Claim> claims) const override {
    static_cast<void>(claims);
    const bool any_epoch = STRAND_PLANTED("relay-marks-shards-under-any-epoch");
    return {
        .held = fmt::format(
            "SELECT s.shard::text AS slot FROM {} s JOIN unnest($5::int4[], $6::int8[]) AS "
            "w(shard, epoch) ON s.shard = w.shard AND (s.epoch = w.epoch OR {}) WHERE s.relay = "
            "$4 FOR SHARE OF s",
            outbox_.own().shards, any_epoch),
        .add_params = [this](postgres::Params& params) { add_held(params); }};
  }

  Result<bool> keep(std::span<const Claim> claims) override {
    const auto now = std::chrono::steady_clock::now();
    if (held_.empty() || (claims.empty() && now < kept_at_ + outbox_.settings().lease / 3)) {
      return true;
    }
    Statement statement{
        .sql = fmt::format("UPDATE {} s SET until = now() + $4 * interval '1 millisecond' FROM "
                           "unnest($2::int4[], $3::int8[]) AS w(shard, epoch) WHERE s.relay = $1 "
                           "AND s.shard = w.shard AND s.epoch = w.epoch RETURNING s.shard",
                           outbox_.own().shards)};
    add_held(statement.params);
    statement.params.int8(outbox_.settings().lease.count());
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "keeping shards"));
    kept_at_ = now;
    return drop_all_but(answer->front(), claims);
  }

  // An entity is not held apart from its shard.
  Result<void> release(std::span<const Claim> claims) override {
    static_cast<void>(claims);
    return {};
  }

  Result<void> upkeep() override { return balance(); }

  Result<void> end() override { return give_back(held_shards()); }

  [[nodiscard]] bool looks_at_own_rows() const override { return true; }

 private:
  [[nodiscard]] std::vector<std::int32_t> held_shards() const {
    std::vector<std::int32_t> shards;
    for (const auto& [shard, epoch] : held_)
      shards.push_back(shard);
    return shards;
  }

  void add_held(postgres::Params& params) const {
    std::vector<std::int64_t> epochs;
    for (const auto& [shard, epoch] : held_)
      epochs.push_back(epoch);
    const std::vector<std::int32_t> shards = held_shards();
    params.text(relay_)
        .int4s(std::span<const std::int32_t>(shards))
        .int8s(std::span<const std::int64_t>(epochs));
  }

  // False if one of `claims` is in a shard that is not ours any more.
  bool drop_all_but(const Rows& kept, std::span<const Claim> claims) {
    std::set<std::int32_t> ours;
    for (std::size_t i = 0; i < kept.size(); ++i)
      ours.insert(kept.int4(i, 0));
    std::erase_if(held_, [&](const auto& held) { return !ours.contains(held.first); });
    return std::ranges::all_of(claims, [&](const Claim& claim) {
      return std::ranges::any_of(held_,
                                 [&](const auto& held) { return claim.epoch == held.second; });
    });
  }

  // Processes that count shards differently would put one entity into two of them.
  Result<void> agree_on_count() {
    const std::string& shards = outbox_.own().shards;
    const auto count = static_cast<std::int32_t>(outbox_.settings().shards);
    Group group(3);
    group[0].sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    group[0].params.text("strand relay shards " + relay_);
    group[1].sql = fmt::format(
        "DELETE FROM {0} WHERE relay = $1 AND shards <> $2 AND NOT EXISTS (SELECT FROM {0} s WHERE "
        "s.relay = $1 AND s.shards <> $2 AND s.until >= now())",
        shards);
    group[1].params.text(relay_).int4(count);
    group[2].sql = fmt::format(
        "INSERT INTO {0} (relay, shard, shards) SELECT $1, n, $2 FROM generate_series(0, $2 - 1) n "
        "WHERE NOT EXISTS (SELECT FROM {0} WHERE relay = $1 AND shards <> $2) ON CONFLICT DO "
        "NOTHING",
        shards);
    group[2].params.text(relay_).int4(count);
    Statement look{.sql = fmt::format("SELECT max(shards) FROM {} WHERE relay = $1", shards)};
    look.params.text(relay_);
    group.push_back(std::move(look));
    const auto answer = connection_.run(group);
    if (!answer) return std::unexpected(error_of(answer.error(), "setting up shards"));
    const std::int32_t there = answer->back().int4(0, 0);
    if (there == count) return {};
    return failure(Errc::in_use,
                   fmt::format("{} is being relayed with {} shards, and the configuration says {}: "
                               "stop all of its relays before the number changes",
                               relay_, there, count));
  }

  // How many shards this worker should have: as many as every other one, to within one.
  Result<std::size_t> share() {
    const TableSettings& settings = outbox_.settings();
    Statement statement{
        .sql =
            fmt::format("SELECT count(*), count(*) FILTER (WHERE owner < $2) FROM {} WHERE relay "
                        "= $1 AND strategy = 'shards' AND until >= now() AND ($3::text IS NULL OR "
                        "process = $3) AND owner <> $2",
                        outbox_.own().workers)};
    std::optional<std::string_view> process;
    if (!settings.only_shards.empty()) process = process_;
    statement.params.text(relay_).text(owner_).text(process);
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "counting workers"));
    const auto workers = static_cast<std::size_t>(answer->front().int8(0, 0)) + 1;
    const auto rank = static_cast<std::size_t>(answer->front().int8(0, 1));
    const std::size_t shards =
        settings.only_shards.empty() ? settings.shards : settings.only_shards.size();
    return shards / workers + (rank < shards % workers ? 1 : 0);
  }

  Result<void> balance() {
    const auto wanted = share();
    if (!wanted) return std::unexpected(wanted.error());
    if (held_.size() > *wanted) {
      std::vector<std::int32_t> surplus = held_shards();
      surplus.resize(held_.size() - *wanted);
      return give_back(surplus);
    }
    return held_.size() < *wanted ? take(*wanted - held_.size()) : Result<void>{};
  }

  Result<void> take(std::size_t count) {
    const TableSettings& settings = outbox_.settings();
    Statement statement{
        .sql = fmt::format(
            "WITH free AS MATERIALIZED (SELECT shard FROM {0} WHERE relay = $1 AND shards = $2 AND "
            "until < now() AND ($3::int4[] IS NULL OR shard = ANY($3::int4[])) LIMIT $4 FOR UPDATE "
            "SKIP LOCKED) UPDATE {0} s SET owner = $5, epoch = nextval('{1}'), until = now() + $6 "
            "* interval '1 millisecond' FROM free WHERE s.relay = $1 AND s.shard = free.shard "
            "RETURNING s.shard, s.epoch",
            outbox_.own().shards, outbox_.own().epochs)};
    std::vector<std::int32_t> only = settings.only_shards;
    if (only.empty()) {
      for (std::uint32_t shard = 0; shard < settings.shards; ++shard)
        only.push_back(static_cast<std::int32_t>(shard));
    }
    statement.params.text(relay_)
        .int4(static_cast<std::int32_t>(settings.shards))
        .int4s(std::span<const std::int32_t>(only))
        .int8(static_cast<std::int64_t>(count))
        .text(owner_)
        .int8(settings.lease.count());
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "taking shards"));
    for (std::size_t i = 0; i < answer->front().size(); ++i)
      held_[answer->front().int4(i, 0)] = answer->front().int8(i, 1);
    if (held_.size() == answer->front().size()) kept_at_ = std::chrono::steady_clock::now();
    return {};
  }

  Result<void> give_back(const std::vector<std::int32_t>& shards) {
    if (shards.empty()) return {};
    std::vector<std::int64_t> epochs;
    for (const std::int32_t shard : shards)
      epochs.push_back(held_.at(shard));
    Statement statement{
        .sql =
            fmt::format("UPDATE {} s SET owner = '', until = '-infinity' FROM unnest($2::int4[], "
                        "$3::int8[]) AS w(shard, epoch) WHERE s.relay = $1 AND s.shard = w.shard "
                        "AND s.epoch = w.epoch",
                        outbox_.own().shards)};
    statement.params.text(relay_)
        .int4s(std::span<const std::int32_t>(shards))
        .int8s(std::span<const std::int64_t>(epochs));
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "giving shards back"));
    for (const std::int32_t shard : shards)
      held_.erase(shard);
    return {};
  }

  const Outbox& outbox_;
  postgres::Connection& connection_;
  std::string owner_;
  std::string process_;
  std::string relay_;
  std::string find_sql_;
  std::map<std::int32_t, std::int64_t> held_;  // shard -> epoch
  std::chrono::steady_clock::time_point kept_at_;
};

}  // namespace

std::unique_ptr<Claims> make_shard_claims(const Outbox& outbox, postgres::Connection& connection,
                                          const Owner& owner) {
  return std::make_unique<ShardClaims>(outbox, connection, owner);
}

}  // namespace strand::relay
