// How the tables of a store come to be: migrations, privileges, servers that do not fit.

#include "store/postgres/schema.h"

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "postgres/fixture.h"
#include "postgres/pooler.h"
#include "store/postgres/check.h"
#include "store/postgres/location.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Identity identity{.store = 1, .secret = {2, 3}};

Location at(const std::string& url) { return parse_location(url).value(); }

// The same database for another role, whose password is its name.
std::string as_role(const std::string& url, const std::string& role) {
  return fmt::format("postgres://{0}:{0}{1}", role, url.substr(url.find('@')));
}

std::string database_of(const std::string& url) {
  const std::size_t name = url.rfind('/') + 1;
  return url.substr(name, url.find('?') - name);
}

// A role with nothing but the right to log in.
std::string new_role() {
  static int count = 0;
  const std::string name = fmt::format("role_{}", ++count);
  shared_server().sql(fmt::format("create role {0} login password '{0}'", name));
  return name;
}

// Sends, leases and acks; everything that a plain user of the store does.
void expect_it_works(const std::string& url) {
  auto store = open(url);
  ASSERT_TRUE(store) << store.error().message;
  Transaction sends;
  for (const char* key : {"a", "b", ""}) {
    sends.sends.emplace_back();
    sends.sends.back().queue = "orders";
    if (*key != '\0') sends.sends.back().key = key;
    sends.sends.back().body = "x";
    sends.sends.back().dedup_id = key;
  }
  sends.sends.back().dedup_id.reset();
  sends.records = {{.space = "s", .key = "k", .value = "v"}};
  const auto sent = (*store)->apply(sends);
  ASSERT_TRUE(sent) << sent.error().message;
  const auto leases = (*store)->lease({.queue = "orders", .lanes = 9});
  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->size(), 3U);
  Transaction settles;
  for (const Lease& lease : *leases) {
    settles.settles.push_back(
        {.token = lease.token,
         .outcomes = {{.id = lease.messages.at(0).id, .kind = strand::Outcome::Kind::dead}}});
  }
  const auto settled = (*store)->apply(settles);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ((*store)->stats("orders").value().dead, 3U);
  const auto removed = (*store)->apply(Transaction{.admin = RemoveQueue{.queue = "orders"}});
  ASSERT_TRUE(removed) << removed.error().message;
}

class SchemaTest : public PostgresTest {
 protected:
  static Error refused(const std::string& url) {
    const auto store = open(url);
    EXPECT_FALSE(store);
    return store ? Error{} : store.error();
  }
};

TEST_F(SchemaTest, Migrating_twice_changes_nothing_the_second_time) {
  const auto connection = connect_to(url());
  const auto first = migrate(*connection, at(url()), false, identity);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->before, 0);
  EXPECT_THAT(first->applied, ElementsAre("tables and functions"));
  const auto second =
      migrate(*connection, at(url()), false, Identity{.store = 9, .secret = {9, 9}});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->before, second->after);
  EXPECT_THAT(second->applied, IsEmpty());
  EXPECT_EQ(read_store(*connection, at(url())).value().identity.store, 1U);
}

TEST_F(SchemaTest, The_pending_script_makes_the_store_when_a_person_runs_it) {
  const auto connection = connect_to(url());
  const auto pending = pending_sql(*connection, at(url()), identity);
  ASSERT_TRUE(pending) << pending.error().message;
  EXPECT_EQ(refused(url() + "?migrate=off").code, Errc::not_found) << "nothing was run";
  script(*connection, *pending);
  EXPECT_EQ(pending_sql(*connection, at(url()), identity).value(), "");
  expect_it_works(url() + "?migrate=off");
}

TEST_F(SchemaTest, Without_migration_an_empty_database_is_an_error_that_says_what_to_run) {
  const Error error = refused(url() + "?migrate=off");
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.message, HasSubstr("strand store migrate"));
}

TEST_F(SchemaTest, A_newer_schema_is_refused) {
  const auto connection = connect_to(url());
  ASSERT_TRUE(migrate(*connection, at(url()), false, identity));
  script(*connection, "insert into strand.migrations (version, name) values (9999, 'of tomorrow')");
  for (const char* option : {"", "?migrate=off"}) {
    const Error error = refused(url() + option);
    EXPECT_EQ(error.code, Errc::unsupported);
    EXPECT_THAT(error.message, HasSubstr("use a newer program"));
  }
  EXPECT_FALSE(migrate(*connection, at(url()), false, identity));
  EXPECT_FALSE(pending_sql(*connection, at(url()), identity));
}

TEST_F(SchemaTest, Stores_in_several_schemas_of_a_database_know_nothing_of_each_other) {
  expect_it_works(url() + "?schema=one");
  expect_it_works(url() + "?schema=Two");
}

// --- Privileges ---

TEST_F(SchemaTest, Who_may_not_make_the_schema_is_told_the_grant) {
  const std::string role = new_role();
  const std::string mine = as_role(url(), role);
  const std::string grant =
      fmt::format("GRANT CREATE ON DATABASE \"{}\" TO \"{}\"", database_of(url()), role);
  EXPECT_THAT(refused(mine).message, HasSubstr(grant));
  shared_server().sql(grant);
  expect_it_works(mine);
}

TEST_F(SchemaTest, A_schema_that_was_made_for_the_role_is_enough) {
  const std::string role = new_role();
  const std::string mine = as_role(url(), role);
  const std::string database = database_of(url());
  shared_server().sql("create schema strand", database);
  EXPECT_THAT(refused(mine).message, HasSubstr("GRANT USAGE ON SCHEMA"));
  shared_server().sql("grant usage on schema strand to " + role, database);
  const std::string grant = fmt::format("GRANT CREATE ON SCHEMA \"strand\" TO \"{}\"", role);
  EXPECT_THAT(refused(mine).message, HasSubstr(grant));
  shared_server().sql(grant, database);
  expect_it_works(mine);
}

// The block behind "## Monitoring".
TEST_F(SchemaTest, The_queries_of_the_page_for_operators_run) {
  expect_it_works(url());
  std::ifstream file(STRAND_SOURCE_DIR "/docs/operations/postgres.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::string fence = "```";
  const std::size_t begin = page.find(fence + "sql\n", page.find("## Monitoring"));
  ASSERT_NE(begin, std::string::npos);
  const std::size_t first = begin + fence.size() + 4;
  const auto connection = connect_to(url());
  script(*connection, "set search_path = strand, pg_temp;\n" +
                          page.substr(first, page.find(fence, first) - first));
}

// As in docs/operations/postgres.md: one role owns the tables, another uses them.
TEST_F(SchemaTest, The_least_privileges_suffice) {
  const std::string role = new_role();
  const std::string mine = as_role(url(), role);
  const auto owner = connect_to(url());
  ASSERT_TRUE(migrate(*owner, at(url()), false, identity));
  const std::string refusal = refused(mine).message;
  const std::string grants = refusal.substr(refusal.find("GRANT"));
  EXPECT_EQ(grants,
            fmt::format("GRANT USAGE ON SCHEMA \"strand\" TO \"{0}\"; "
                        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"strand\" "
                        "TO \"{0}\"; "
                        "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA \"strand\" TO \"{0}\"",
                        role));
  script(*owner, grants);
  expect_it_works(mine);
  const auto connection = connect_to(mine);
  const auto report = check(*connection, at(mine));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->found, 0U);
  EXPECT_FALSE(connection->script("drop table strand.messages"));
}

// --- Servers and settings ---

TEST_F(SchemaTest, What_an_administrator_has_set_for_the_role_does_not_change_the_rules) {
  const std::string role = new_role();
  const std::string mine = as_role(url(), role);
  shared_server().sql(
      fmt::format("grant create on database {1} to {0}; "
                  "alter role {0} set default_transaction_isolation = serializable; "
                  "alter role {0} set synchronous_commit = off; "
                  "alter role {0} set search_path = nowhere; "
                  "alter role {0} set default_transaction_deferrable = on; "
                  "alter role {0} set bytea_output = 'escape'; "
                  "alter role {0} set timezone = 'Asia/Kathmandu'; "
                  "alter role {0} set datestyle = 'German'; "
                  "alter role {0} set standard_conforming_strings = off",
                  role, database_of(url())));
  expect_it_works(mine);
  const auto connection = connect_to(mine);
  script(*connection, session_script(at(mine)));
  EXPECT_EQ(query(*connection, "select current_setting('synchronous_commit')").bytes(0, 0), "on");
  EXPECT_EQ(query(*connection, "select current_setting('transaction_isolation')").bytes(0, 0),
            "read committed");
  // Many at once on one lane: under serializable, most would fail.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto store = open(mine);
      ASSERT_TRUE(store) << store.error().message;
      for (int n = 0; n < 20; ++n) {
        Transaction send;
        send.sends.emplace_back();
        send.sends[0].queue = "shared";
        send.sends[0].key = "one";
        const auto sent = (*store)->apply(send);
        EXPECT_TRUE(sent) << sent.error().message;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  auto store = open(mine);
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->stats("shared").value().accepted, 80U);
}

TEST_F(SchemaTest, A_session_that_may_only_read_is_refused) {
  const std::string role = new_role();
  shared_server().sql("alter role " + role + " set default_transaction_read_only = on");
  const Error any = refused(as_role(url(), role) + "?target_session_attrs=any");
  EXPECT_EQ(any.code, Errc::invalid_argument);
  EXPECT_THAT(any.message, HasSubstr("read-only"));
  EXPECT_FALSE(open(as_role(url(), role))) << "libpq does not take it for one that takes writes";
}

TEST_F(SchemaTest, A_replica_is_refused_as_a_store_and_can_be_checked) {
  TestPair pair;
  const std::string primary = pair.primary().fresh_database();
  expect_it_works(primary);
  const std::string standby =
      pair.standby().url(database_of(primary)) + "?target_session_attrs=any";
  EXPECT_THAT(refused(standby).message, HasSubstr("read-only replica"));
  const auto connection =
      connect_to(standby.substr(0, standby.find('?')) + "?target_session_attrs=any");
  const auto report = check(*connection, at(standby));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->found, 0U);
}

TEST_F(SchemaTest, Another_encoding_than_UTF8_is_refused) {
  shared_server().sql(
      "create database of_bytes owner strand encoding 'SQL_ASCII' lc_collate 'C' "
      "lc_ctype 'C' template template0");
  const Error error = refused(shared_server().url("of_bytes"));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.message, HasSubstr("ENCODING 'UTF8'"));
}

// What such a pooler breaks (settings, prepared statements, LISTEN, locks of the session) would
// fail much later, and strangely.
TEST_F(SchemaTest, A_pooler_that_shares_sessions_is_noticed_at_once) {
  if (const auto reason = TestPooler::missing()) GTEST_SKIP() << *reason;
  const TestPooler pooler(shared_server(), "transaction");
  const Error error = refused(pooler.through(url()));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.message, HasSubstr("session mode"));
}

TEST_F(SchemaTest, A_pooler_that_keeps_sessions_is_as_good_as_the_server) {
  if (const auto reason = TestPooler::missing()) GTEST_SKIP() << *reason;
  const TestPooler pooler(shared_server(), "session");
  expect_it_works(pooler.through(url()));
}

}  // namespace
}  // namespace strand::postgres
