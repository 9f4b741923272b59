// strand store migrate, and strand check on PostgreSQL.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "postgres/server.h"
#include "pq/connection.h"

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

// The program on a database that is empty at first.
class PostgresProgram : public Program {
 protected:
  void SetUp() override {
    if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
    url_ = postgres::shared_server().fresh_database();
  }

  [[nodiscard]] std::string url() const override { return url_; }

  void sql(const std::string& script) const {
    const auto connection = postgres::Connection::open(url_);
    ASSERT_TRUE(connection) << connection.error().message;
    const auto done = (*connection)->script(script);
    ASSERT_TRUE(done) << done.error().message;
  }

 private:
  std::string url_;
};

TEST_F(PostgresProgram, Migrating_makes_the_store_and_says_so_once) {
  const auto first = json({"store", "migrate", url()});
  EXPECT_THAT(names_of(first), ElementsAre("schema", "before", "after", "applied"));
  EXPECT_EQ(text(first, "schema"), "strand");
  EXPECT_EQ(count(first, "before"), 0U);
  EXPECT_GE(count(first, "after"), 1U);
  EXPECT_THAT(first.at("applied").as_array(), Not(IsEmpty()));

  const auto again = json({"store", "migrate", url()});
  EXPECT_THAT(again.at("applied").as_array(), IsEmpty());
  const Finished told = run({"store", "migrate", url()});
  EXPECT_EQ(told.exit, 0);
  EXPECT_EQ(told.out, "");
  EXPECT_EQ(told.err, "the store in schema strand is up to date\n");
  EXPECT_THAT(ok({"store", "migrate", url() + "?schema=other"}),
              StartsWith("the store in schema other went from version 0 to "));
}

TEST_F(PostgresProgram, A_dry_run_prints_what_is_pending_and_does_nothing) {
  const std::string pending = ok({"store", "migrate", url(), "--dry-run"});
  EXPECT_THAT(pending, StartsWith("begin;\n"));
  EXPECT_THAT(pending, HasSubstr("create table messages"));
  EXPECT_EQ(count(json({"store", "migrate", url()}), "before"), 0U) << "nothing was there";

  const Finished nothing = run({"store", "migrate", url(), "--dry-run"});
  EXPECT_EQ(nothing.exit, 0);
  EXPECT_EQ(nothing.out, "");
  EXPECT_THAT(nothing.err, HasSubstr("up to date"));
  const auto as_json = json({"store", "migrate", url(), "--dry-run"});
  EXPECT_EQ(text(as_json, "pending"), "false");
  EXPECT_EQ(text(as_json, "sql"), "");
}

TEST_F(PostgresProgram, What_a_dry_run_printed_makes_a_store_that_works) {
  sql(ok({"store", "migrate", url(), "--dry-run"}));
  const std::string no_migration = url() + "?migrate=off";
  ok({"send", "orders", "a", "--store", no_migration});
  EXPECT_THAT(bodies(json({"receive", "orders", "--store", no_migration})), ElementsAre("a"));
}

TEST_F(PostgresProgram, Many_may_migrate_at_the_same_time) {
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < 8; ++i) {
    processes.push_back(
        std::make_unique<Process>(command({"store", "migrate", url(), "-o", "json"}), on_store()));
  }
  int made = 0;
  for (const auto& process : processes) {
    const Finished finished = process->finish();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto reports = json_lines(finished.out);
    ASSERT_EQ(reports.size(), 1U);
    if (!reports[0].at("applied").as_array().empty()) ++made;
  }
  EXPECT_EQ(made, 1);
  ok({"send", "orders", "a"});
  EXPECT_THAT(ok({"check", url()}), HasSubstr("all is well"));
}

TEST_F(PostgresProgram, What_cannot_be_migrated_is_refused_with_the_reason) {
  EXPECT_THAT(refused(1, {"store", "migrate", "sqlite:" + folder() + "/store"}),
              HasSubstr("needs no migration"));
  EXPECT_THAT(refused(2, {"store", "migrate"}), HasSubstr("URL"));
  EXPECT_THAT(refused(1, {"queue", "ls", "--store", url() + "?migrate=off"}),
              HasSubstr("strand store migrate"));
  ok({"store", "migrate", url()});
  sql("insert into strand.migrations (version, name) values (9999, 'of tomorrow')");
  for (const char* option : {"-o", "--dry-run"}) {
    Words words = {"store", "migrate", url(), option};
    if (words.back() == "-o") words.emplace_back("json");
    EXPECT_THAT(refused(1, words), HasSubstr("use a newer program"));
  }
  EXPECT_THAT(refused(1, {"send", "orders", "a"}), HasSubstr("use a newer program"));
}

TEST_F(PostgresProgram, Check_finds_repairs_and_keeps_a_copy) {
  EXPECT_THAT(refused(1, {"check", url()}), HasSubstr("there is no store"));
  ok({"send", "orders", "--lines", "--key", "k"}, "a\nb\n");
  EXPECT_THAT(ok({"check", url()}), HasSubstr("2 messages, 0 dead letters, 1 queues: all is well"));
  const auto clean = json({"check", url()});
  EXPECT_THAT(names_of(clean), ElementsAre("clean", "entries", "messages", "dead_letters", "queues",
                                           "found", "repairable", "counts", "findings"));

  sql("update strand.lanes set turn = null, ready_since = null, live = 7");
  EXPECT_EQ(run({"receive", "orders"}).exit, 3) << "the lane is lost";
  for (int time = 0; time < 2; ++time) {
    const Finished finished = run({"check", url(), "-o", "json"});
    EXPECT_EQ(finished.exit, 1);
    EXPECT_THAT(finished.err, HasSubstr("strand: 2 things are wrong with the store"));
    EXPECT_THAT(finished.err, Not(HasSubstr("postgres://"))) << "there may be a password in it";
    const auto reports = json_lines(finished.out);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(serialize(reports[0].at("counts")), R"({"wrong_lane_counts":1,"wrong_turn":1})");
  }
  EXPECT_THAT(run({"check", url()}).out, HasSubstr("wrong_turn: lane 'k'"));

  const auto repaired = json({"check", url(), "--repair"});
  EXPECT_EQ(text(repaired, "clean"), "true");
  EXPECT_EQ(count(repaired, "repaired"), 2U);
  EXPECT_THAT(text(repaired, "copy"), MatchesRegex("strand_backup_[0-9]{14}"));
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a", "b"));
  EXPECT_EQ(text(json({"check", url(), "--repair"}), "copy"), "null") << "nothing to repair";
}

}  // namespace
}  // namespace strand::e2e
