#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "relay/fixture.h"

// What the usual SQL for an outbox gets wrong, each shown on that SQL first, and then that ours
// does not.

namespace strand::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// As it is usually written: a lock of the transaction, and PROCESSING in the rows.
constexpr const char* usual_claim =
    "WITH candidates AS (SELECT DISTINCT entity_key FROM usual WHERE status = 'NEW' ORDER BY "
    "entity_key LIMIT 200), locked AS (SELECT entity_key FROM candidates WHERE "
    "pg_try_advisory_xact_lock(1, hashtext(entity_key)) LIMIT 50) "
    "UPDATE usual o SET status = 'PROCESSING', locked_at = now() FROM locked l "
    "WHERE o.entity_key = l.entity_key AND o.status = 'NEW' RETURNING o.id";

class RelayHoles : public RelayTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // The usual table, and two connections that use it.
  void SetUp() override {
    RelayTest::SetUp();
    if (IsSkipped()) return;
    first_ = connect_to(url());
    second_ = connect_to(url());
    script(*first_,
           "CREATE TABLE usual (id bigserial PRIMARY KEY, entity_key text NOT NULL, status text "
           "NOT NULL DEFAULT 'NEW', locked_at timestamptz)");
  }

  void usual_insert(Connection& connection, const std::string& entity) {
    query(connection, "INSERT INTO usual (entity_key) VALUES ('" + entity + "')");
  }
  static std::vector<std::int64_t> ids(const postgres::Rows& rows) {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < rows.size(); ++i)
      result.push_back(rows.int8(i, 0));
    return result;
  }

  // Ours, with the strategy of the parameter.
  Config ours(const std::string& more = {}) {
    return config(fmt::format("strategy = \"{}\"\nlease = \"30s\"\n{}", GetParam(), more));
  }

  std::unique_ptr<Connection> first_;
  std::unique_ptr<Connection> second_;
};

INSTANTIATE_TEST_SUITE_P(Strategies, RelayHoles,
                         ::testing::Values("advisory", "skip_locked", "shards"),
                         [](const auto& test) { return std::string(test.param); });

// The claim commits while publishing still runs. A row that comes then is taken by another worker.
TEST_P(RelayHoles, A_claim_outlives_its_transaction) {
  usual_insert(*first_, "a");
  EXPECT_THAT(ids(query(*first_, usual_claim)), ElementsAre(1));
  usual_insert(*first_, "a");
  EXPECT_THAT(ids(query(*second_, usual_claim)), ElementsAre(2)) << "the hole is not there";

  const Config wanted = ours();
  init(wanted);
  insert("a");
  Hand one(url(), wanted.tables.front(), 0);
  Hand two(url(), wanted.tables.front(), 1);
  const auto held = one.claim();
  ASSERT_EQ(held.size(), 1U);
  const auto rows = one.read(held);
  insert("a");
  EXPECT_THAT(two.claim_names(), IsEmpty());
  EXPECT_EQ(one.mark(held, rows), rows);
  // The late row is for the next claim.
  const auto again = one.claim();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_GE(again.front().epoch, held.front().epoch);
  EXPECT_EQ(one.read(again).size(), 1U);
}

TEST_P(RelayHoles, One_row_an_entity_is_locked_without_DISTINCT) {
  const auto refused = first_->run(postgres::Group{
      {.sql =
           "SELECT DISTINCT ON (entity_key) id, entity_key FROM usual WHERE status = 'NEW' ORDER "
           "BY entity_key, id FOR UPDATE SKIP LOCKED"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sqlstate, "0A000");

  const Config wanted = ours();
  init(wanted);
  insert("a");
  insert("a");
  insert("b");
  Hand one(url(), wanted.tables.front(), 0);
  EXPECT_THAT(one.claim_names(), UnorderedElementsAre("a", "b"));
}

// A worker that is only slow is reset, and goes on: nothing tells it.
TEST_P(RelayHoles, What_was_taken_over_cannot_be_marked_by_the_slow_one) {
  usual_insert(*first_, "a");
  query(*first_, usual_claim);
  query(*second_, "UPDATE usual SET status = 'NEW', locked_at = NULL WHERE status = 'PROCESSING'");
  query(*second_, usual_claim);
  EXPECT_EQ(query(*first_, "UPDATE usual SET status = 'SENT' WHERE id = 1").affected(), 1U)
      << "the hole is not there";

  const Config wanted = ours();
  init(wanted);
  insert("a");
  Hand slow(url(), wanted.tables.front(), 0);
  const auto held = slow.claim();
  const auto rows = slow.read(held);
  ASSERT_EQ(rows.size(), 1U);
  // Its time is over: of a session by its end, of a claim by its lease.
  script(look(),
         "UPDATE strand_relay_claims SET until = '-infinity'; UPDATE strand_relay_shards SET until "
         "= '-infinity'");
  if (wanted.tables.front().strategy == Strategy::advisory) {
    postgres::shared_server().sql(
        fmt::format("SELECT pg_terminate_backend({})", slow.connection->backend_pid()));
  }
  Hand fast(url(), wanted.tables.front(), 1);
  std::vector<Claim> taken;
  wait_until([&] { return !(taken = fast.claim()).empty(); });
  EXPECT_GT(taken.front().epoch, held.front().epoch);
  const auto late = slow.mark(held, rows);
  if (wanted.tables.front().strategy == Strategy::advisory) {
    EXPECT_FALSE(late);
  } else {
    ASSERT_TRUE(late) << late.error().message;
    EXPECT_THAT(*late, IsEmpty());
  }
  EXPECT_EQ(number("SELECT count(*) FROM outbox WHERE sent_at IS NULL"), 1);
  EXPECT_EQ(fast.mark(taken, fast.read(taken)), rows);
}

// A worker that stands still keeps its claim for the lease, and no longer.
TEST_P(RelayHoles, A_claim_of_a_worker_that_stands_still_is_taken_over_after_the_lease) {
  const auto parsed = ours();
  TableSettings settings = parsed.tables.front();
  settings.lease = std::chrono::seconds{1};
  init(parsed);
  insert("a");
  Hand still(url(), settings, 0);
  const auto held = still.claim();
  ASSERT_EQ(held.size(), 1U);
  const auto began = std::chrono::steady_clock::now();
  Hand other(url(), settings, 1);
  EXPECT_THAT(other.claim_names(), IsEmpty());
  wait_until([&] {
    EXPECT_TRUE(other.claims->upkeep());
    return !other.claim().empty();
  });
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds{500});
}

// A number is taken before the commit: the later one can be seen first.
TEST_P(RelayHoles, Rows_go_in_the_order_of_commits_not_of_numbers) {
  script(*first_, "BEGIN");
  script(*first_, "INSERT INTO usual (entity_key) VALUES ('a')");
  usual_insert(*second_, "a");
  const auto seen = ids(query(*second_, usual_claim));
  EXPECT_THAT(seen, ElementsAre(2)) << "the hole is not there";
  script(*first_, "COMMIT");
  EXPECT_THAT(ids(query(*second_, usual_claim)), ElementsAre(1)) << "the hole is not there";
}

// The second writer waits for the first, and takes its number then.
TEST_P(RelayHoles, With_a_lock_numbers_are_in_the_order_of_commits) {
  const Config wanted = ours();
  init(wanted);
  const std::string insert_a =
      "INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', 'a', 'x')";
  script(*first_, "BEGIN");
  script(*first_, insert_a);
  script(*second_, "SET lock_timeout = '50ms'");
  const auto waited = second_->script(insert_a);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().sqlstate, "55P03");
  script(*second_,
         "INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', 'b', 'x')");
  script(*first_, "COMMIT");
  script(*second_, insert_a);
  EXPECT_EQ(number("SELECT count(*) FROM outbox WHERE aggregateid = 'a'"), 2);
  EXPECT_EQ(number("SELECT max(id) FROM outbox"),
            number("SELECT max(id) FROM outbox WHERE aggregateid = 'a'"));
}

TEST_P(RelayHoles, With_a_watermark_a_row_waits_for_older_transactions) {
  const Config wanted = ours("commit_order = \"watermark\"");
  init(wanted);
  const std::string insert_a =
      "INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', 'a', 'x')";
  script(*first_, "BEGIN");
  script(*first_, insert_a);
  script(*second_, insert_a);
  Hand one(url(), wanted.tables.front(), 0);
  const auto held = one.claim();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_THAT(one.read(held), IsEmpty()) << "a row with a lower number is not committed yet";
  script(*first_, "COMMIT");
  EXPECT_THAT(one.read(held), ElementsAre("1", "2"));
}

// UPDATE … RETURNING has the order of the plan.
TEST_P(RelayHoles, Rows_are_read_in_order) {
  for (int i = 0; i < 3; ++i)
    usual_insert(*first_, "a");
  query(*first_, "UPDATE usual SET locked_at = now() WHERE id = 1");  // moves it to the end
  EXPECT_THAT(ids(query(*first_, usual_claim)), ElementsAre(2, 3, 1)) << "the hole is not there";

  const Config wanted = ours();
  init(wanted);
  for (int i = 0; i < 3; ++i)
    insert("a");
  query(look(), "UPDATE outbox SET type = 'changed' WHERE id = (SELECT min(id) FROM outbox)");
  Hand one(url(), wanted.tables.front(), 0);
  const auto rows = one.read(one.claim());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_LT(std::stoi(rows[0]), std::stoi(rows[1]));
  EXPECT_LT(std::stoi(rows[1]), std::stoi(rows[2]));
}

// hashtext() of this key is the smallest integer, which has no opposite.
TEST_P(RelayHoles, Every_key_has_a_shard) {
  const std::string key = R"(0Zpjkohx|,5)";
  const auto fails =
      first_->run(postgres::Group{{.sql = "SELECT abs(hashtext('" + key + "')) % 16"}});
  ASSERT_FALSE(fails) << "the hole is not there";
  EXPECT_EQ(fails.error().sqlstate, "22003");

  const Config wanted = ours();
  init(wanted);
  insert(key);
  Hand one(url(), wanted.tables.front(), 0);
  EXPECT_THAT(one.claim_names(), ElementsAre(key));
}

// A limit on rows cuts an entity in two, and each half goes its own way.
TEST_P(RelayHoles, An_entity_is_never_split) {
  for (int i = 0; i < 4; ++i)
    usual_insert(*first_, "a");
  const std::string usual =
      "SELECT id FROM usual WHERE status = 'NEW' ORDER BY entity_key, id LIMIT 2 FOR UPDATE SKIP "
      "LOCKED";
  script(*first_, "BEGIN");
  EXPECT_EQ(first_->script(usual).has_value(), true);
  EXPECT_THAT(ids(query(*second_, usual)), ElementsAre(3, 4)) << "the hole is not there";
  script(*first_, "COMMIT");

  const Config wanted = ours("rows = 2\nentities = 1\ncandidates = 10");
  init(wanted);
  insert_many("a", 4);
  Hand one(url(), wanted.tables.front(), 0);
  Hand two(url(), wanted.tables.front(), 1);
  const auto held = one.claim();
  const auto rows = one.read(held);
  EXPECT_EQ(rows.size(), 2U) << "the limit holds";
  EXPECT_THAT(two.claim_names(), IsEmpty()) << "the rest is for the same worker";
  EXPECT_EQ(one.mark(held, rows), rows);
  EXPECT_EQ(one.read(one.claim()).size(), 2U);
}

// By name, the end of the alphabet never comes as long as its beginning is busy.
TEST_P(RelayHoles, The_oldest_row_is_first_whatever_its_name) {
  usual_insert(*first_, "z");
  usual_insert(*first_, "a");
  const auto named = query(*first_,
                           "SELECT entity_key FROM (SELECT DISTINCT entity_key FROM usual) u ORDER "
                           "BY entity_key LIMIT 1");
  EXPECT_EQ(named.bytes(0, 0), "a") << "the hole is not there";

  const Config wanted = ours("entities = 1\ncandidates = 1");
  init(wanted);
  insert("z");
  insert("a");
  Hand one(url(), wanted.tables.front(), 0);
  EXPECT_THAT(one.claim_names(), ElementsAre("z"));
}

// The oldest rows are all of an entity that somebody holds: others are found behind them.
TEST_P(RelayHoles, A_heap_of_rows_hides_no_other_entity) {
  const Config wanted = ours("entities = 2\ncandidates = 2\nshards = 2");
  init(wanted);
  insert_many("heap", 60);
  insert("other");
  Hand one(url(), wanted.tables.front(), 0);
  const auto held = one.claim();
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held.front().entity, "heap");
  if (wanted.tables.front().strategy == Strategy::shards) return;  // nobody else holds a part of it
  Hand two(url(), wanted.tables.front(), 1);
  ASSERT_EQ(held.size(), 2U) << "each once";
  EXPECT_EQ(held.back().entity, "other");
  EXPECT_THAT(two.claim_names(), IsEmpty());
}

}  // namespace
}  // namespace strand::relay
