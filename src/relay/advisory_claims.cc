#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "relay/candidates.h"
#include "relay/claims.h"

// Strategy A: a lock of the session for each entity. It outlives transactions, so that none is open
// while Kafka is asked, and ends with the session, whatever becomes of the worker.

namespace strand::relay {
namespace {

using postgres::Group;
using postgres::Statement;

constexpr const char* unlock_sql = "SELECT pg_advisory_unlock_all()";

class AdvisoryClaims final : public Claims {
 public:
  AdvisoryClaims(const Outbox& outbox, postgres::Connection& connection)
      : outbox_(outbox), connection_(connection), candidates_(outbox, connection, {}) {
    // Sixty-four bits of hash: two entities that share a lock wait for each other, no more. The
    // table is in it, because the locks of a database are one space.
    const bool too_short = STRAND_PLANTED("relay-lock-ends-with-the-claim");
    lock_sql_ = fmt::format(
        "SELECT e, nextval('{}') FROM unnest($1::text[]) e WHERE {}("
        "hashtextextended(e, hashtextextended({}, 0))) LIMIT $2",
        outbox.own().epochs, too_short ? "pg_try_advisory_xact_lock" : "pg_try_advisory_lock",
        literal("claim " + outbox.settings().full_name()));
  }

  Result<void> begin() override {
    const auto answer = connection_.run(
        Group{{.sql = fmt::format("SELECT pg_backend_pid(), CASE WHEN current_setting("
                                  "'server_version_num')::int >= 140000 THEN "
                                  "set_config('idle_session_timeout', '{}', false) END",
                                  outbox_.settings().lease.count())}});
    if (!answer) return std::unexpected(error_of(answer.error(), "beginning a session"));
    served_by_ = answer->front().int4(0, 0);
    return {};
  }

  Result<std::vector<Claim>> claim() override {
    return candidates_.claim([this](const std::vector<std::string>& entities, std::size_t wanted) {
      return lock(entities, wanted);
    });
  }

  // The session is the fence: if another one answers, the locks are not ours.
  [[nodiscard]] Fence fence(std::span<const Claim> claims) const override {
    static_cast<void>(claims);
    return {.held = "SELECT DISTINCT r.slot FROM r WHERE pg_backend_pid() = $4",
            .add_params = [this](postgres::Params& params) { params.int4(served_by_); },
            .afterwards = unlock_sql};
  }

  Result<bool> keep(std::span<const Claim> claims) override {
    static_cast<void>(claims);
    const auto answer = connection_.run(Group{{.sql = "SELECT pg_backend_pid()"}});
    if (!answer) return std::unexpected(error_of(answer.error(), "keeping a session"));
    return answer->front().int4(0, 0) == served_by_;
  }

  Result<void> release(std::span<const Claim> claims) override {
    if (claims.empty()) return {};
    const auto answer = connection_.run(Group{{.sql = unlock_sql}});
    if (!answer) return std::unexpected(error_of(answer.error(), "releasing locks"));
    return {};
  }

 private:
  Result<std::vector<Claim>> lock(const std::vector<std::string>& entities, std::size_t wanted) {
    const std::vector<std::optional<std::string_view>> texts(entities.begin(), entities.end());
    Statement statement{.sql = lock_sql_};
    statement.params.texts(texts).int8(static_cast<std::int64_t>(wanted));
    const auto answer = connection_.run(Group{std::move(statement)});
    if (!answer) return std::unexpected(error_of(answer.error(), "locking entities"));
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < answer->front().size(); ++i) {
      const std::string entity(answer->front().bytes(i, 0));
      claims.push_back({.entity = entity, .slot = entity, .epoch = answer->front().int8(i, 1)});
    }
    return claims;
  }

  const Outbox& outbox_;
  postgres::Connection& connection_;
  Candidates candidates_;
  std::string lock_sql_;
  std::int32_t served_by_ = 0;
};

}  // namespace

std::unique_ptr<Claims> make_advisory_claims(const Outbox& outbox,
                                             postgres::Connection& connection) {
  return std::make_unique<AdvisoryClaims>(outbox, connection);
}

std::unique_ptr<Claims> make_claims(const Outbox& outbox, postgres::Connection& connection,
                                    const Owner& owner) {
  switch (outbox.settings().strategy) {
    case Strategy::skip_locked:
      return make_row_claims(outbox, connection, owner);
    case Strategy::shards:
      return make_shard_claims(outbox, connection, owner);
    case Strategy::advisory:
      break;
  }
  return make_advisory_claims(outbox, connection);
}

std::vector<std::optional<std::string_view>> entities_of(std::span<const Claim> claims) {
  std::vector<std::optional<std::string_view>> entities;
  for (const Claim& claim : claims)
    entities.emplace_back(claim.entity);
  return entities;
}

}  // namespace strand::relay
