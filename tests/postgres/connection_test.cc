#include "pq/connection.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Kind = Failure::Kind;

class ConnectionTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (!IsSkipped()) {
      connection_ = connect_to(url());
      script(*connection_, "CREATE TABLE seen (i int8 PRIMARY KEY)");
    }
  }

  static Group insert(std::int64_t i) {
    Group group;
    group.push_back({"INSERT INTO seen VALUES ($1)", Params().int8(i)});
    return group;
  }
  static Statement sleeping() { return {"SELECT pg_sleep(60)::text", {}}; }

  // What others see.
  std::vector<std::int64_t> seen() {
    const auto other = connect_to(url());
    return query(*other, "SELECT array_agg(i ORDER BY i) FROM seen").int8s(0, 0);
  }

  // Ends the connection from the server's side, once it runs a statement with `text` in it.
  std::jthread terminate_when_running(std::string text) {
    return std::jthread([this, text = std::move(text), pid = connection_->backend_pid()] {
      const auto other = connect_to(url());
      const std::string sql =
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
          "WHERE pid = $1 AND state = 'active' AND query LIKE '%' || $2 || '%' "
          "AND wait_event_type IS NOT NULL";
      while (query(*other, sql, Params().int4(pid).text(text)).empty()) {
        std::this_thread::sleep_for(5ms);
      }
    });
  }

  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, Groups_are_transactions_and_a_failed_one_harms_no_other) {
  std::vector<Group> groups;
  groups.push_back(insert(1));
  groups.push_back(insert(2));
  groups.back().push_back(insert(1).front());  // twice the same key
  groups.back().push_back(insert(3).front());
  groups.push_back(insert(4));
  const auto results = connection_->run(groups);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().kind, Kind::refused);
  EXPECT_EQ(results[1].error().sqlstate, "23505");
  EXPECT_THAT(results[1].error().message, HasSubstr("seen_pkey"));
  EXPECT_THAT(results[1].error().detail, HasSubstr("(i)=(1)"));
  EXPECT_FALSE(results[1].error().repeatable());
  EXPECT_TRUE(results[2]);
  EXPECT_EQ(seen(), (std::vector<std::int64_t>{1, 4}));
  EXPECT_TRUE(connection_->usable());
}

TEST_F(ConnectionTest, Each_statement_has_its_rows) {
  Group group = insert(1);
  group.push_back({"SELECT count(*) FROM seen", {}});
  group.push_back(insert(2).front());
  group.push_back({"SELECT count(*) FROM seen", {}});
  const auto result = connection_->run(group);
  ASSERT_TRUE(result);
  ASSERT_EQ(result->size(), 4U);
  EXPECT_EQ(result->at(0).affected(), 1U);
  EXPECT_EQ(result->at(1).int8(0, 0), 1);
  EXPECT_EQ(result->at(3).int8(0, 0), 2);
}

TEST_F(ConnectionTest, No_groups_and_empty_groups_are_answered) {
  EXPECT_TRUE(connection_->run(std::vector<Group>{}).empty());
  std::vector<Group> groups(3);
  groups[1] = insert(1);
  const auto results = connection_->run(groups);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_TRUE(results[0] && results[0]->empty());
  EXPECT_TRUE(results[1] && results[1]->size() == 1);
  EXPECT_TRUE(results[2] && results[2]->empty());
}

// An error that comes only with the commit takes another way through libpq.
TEST_F(ConnectionTest, A_commit_that_is_refused_is_a_refusal) {
  script(*connection_, "CREATE TABLE child (i int8 REFERENCES seen DEFERRABLE INITIALLY DEFERRED)");
  std::vector<Group> groups(1);
  groups[0].push_back({"INSERT INTO child VALUES ($1)", Params().int8(9)});
  groups.push_back(insert(5));
  const auto results = connection_->run(groups);
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().kind, Kind::refused);
  EXPECT_EQ(results[0].error().sqlstate, "23503");
  EXPECT_TRUE(results[1]);
  EXPECT_TRUE(connection_->run(insert(6)));
  EXPECT_EQ(seen(), (std::vector<std::int64_t>{5, 6}));
}

TEST_F(ConnectionTest, What_cannot_be_prepared_says_why_and_leaves_the_connection_usable) {
  std::vector<Group> groups;
  groups.push_back(insert(1));
  groups.push_back(insert(2));
  groups.back().push_back({"SELECT nothing FROM nowhere", {}});
  groups.push_back(insert(3));
  groups.push_back(groups[1]);
  for (int round = 0; round < 2; ++round) {
    const auto results = connection_->run(groups);
    for (const std::size_t failing : {1U, 3U}) {
      ASSERT_FALSE(results[failing]);
      EXPECT_EQ(results[failing].error().kind, Kind::refused);
      EXPECT_EQ(results[failing].error().sqlstate, "42P01");
      EXPECT_THAT(results[failing].error().message, HasSubstr("nowhere"));
    }
    EXPECT_EQ(results[0].has_value(), round == 0);
    EXPECT_EQ(results[2].has_value(), round == 0);
  }
  EXPECT_EQ(seen(), (std::vector<std::int64_t>{1, 3}));
  // It is tried anew each time.
  script(*connection_, "CREATE TABLE nowhere AS SELECT 7 AS nothing");
  EXPECT_EQ(query(*connection_, "SELECT nothing FROM nowhere").int4(0, 0), 7);
}

TEST_F(ConnectionTest, A_text_is_prepared_once) {
  for (std::int64_t i = 0; i < 10; ++i) {
    std::vector<Group> groups;
    groups.push_back(insert(10 * i));
    groups.push_back(insert(10 * i + 1));
    for (const auto& result : connection_->run(groups)) {
      EXPECT_TRUE(result);
    }
  }
  EXPECT_EQ(query(*connection_,
                  "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
                .int8(0, 0),
            1);
}

// Both sides have more to send than any buffer holds: who does not read while writing hangs.
TEST_F(ConnectionTest, A_hundred_megabytes_in_both_directions_do_not_hang) {
  const std::string large(1 << 20, 'x');
  std::vector<Group> groups(100);
  for (Group& group : groups) {
    group.push_back({"SELECT $1 || 'y'::bytea", Params().bytea(large)});
  }
  const auto results = connection_->run(groups);
  for (const auto& result : results) {
    ASSERT_TRUE(result);
    ASSERT_EQ(result->front().bytes(0, 0).size(), large.size() + 1);
  }
  EXPECT_TRUE(connection_->run(insert(1)));
}

TEST_F(ConnectionTest, A_hundred_megabytes_in_one_value_do_not_hang) {
  const std::string large(100 << 20, 'x');
  Group group;
  group.push_back({"SELECT $1", Params().bytea(large)});
  const auto result = connection_->run(group);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->front().bytes(0, 0) == large);
}

TEST_F(ConnectionTest, Many_small_groups_go_through) {
  std::vector<Group> groups;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    groups.push_back(insert(i % 19'000));
  }
  const auto results = connection_->run(groups);
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].has_value(), i < 19'000) << i;
  }
}

TEST_F(ConnectionTest, A_script_is_one_transaction) {
  const auto failed = connection_->script(
      "INSERT INTO seen VALUES (1); SELECT 1; INSERT INTO seen VALUES (1); SELECT 2");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Kind::refused);
  EXPECT_EQ(failed.error().sqlstate, "23505");
  EXPECT_TRUE(seen().empty());
  script(*connection_, "INSERT INTO seen VALUES (2); INSERT INTO seen VALUES (3)");
  EXPECT_EQ(seen(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(connection_->script("COPY seen FROM STDIN"));
}

TEST_F(ConnectionTest, Notifications_and_notices_are_ignored) {
  script(*connection_, "LISTEN here; DO $$ BEGIN RAISE NOTICE 'hello'; END $$");
  const auto other = connect_to(url());
  for (std::int64_t i = 0; i < 100; ++i) {
    script(*other, "NOTIFY here, '" + std::to_string(i) + "'");
    ASSERT_TRUE(connection_->run(insert(i)));
  }
  EXPECT_TRUE(connection_->still_open());
}

TEST_F(ConnectionTest, A_deadlock_may_be_repeated) {
  script(*connection_, "INSERT INTO seen VALUES (1), (2)");
  const auto first = connect_to(url());
  script(*first, "BEGIN; UPDATE seen SET i = i WHERE i = 1");
  Group second;
  second.push_back({"UPDATE seen SET i = i WHERE i = 2", {}});
  second.push_back({"UPDATE seen SET i = i WHERE i = 1", {}});
  std::optional<Failure> of_second;
  std::jthread waiting([&] {
    const auto result = connection_->run(second);
    of_second = result ? std::nullopt : std::optional(result.error());
  });
  const auto watcher = connect_to(url());
  const std::string blocked = "SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted";
  while (query(*watcher, blocked, Params().int4(connection_->backend_pid())).empty()) {
    std::this_thread::sleep_for(5ms);
  }
  const auto of_first = first->script("UPDATE seen SET i = i WHERE i = 2; COMMIT");
  waiting.join();
  // One of them is the victim.
  ASSERT_NE(of_first.has_value(), !of_second);
  const Failure& failure = of_second ? *of_second : of_first.error();
  EXPECT_EQ(failure.sqlstate, "40P01");
  EXPECT_EQ(failure.kind, Kind::refused);
  EXPECT_TRUE(failure.repeatable());
}

// The server said goodbye in place of the statement's answer: it cannot have committed, and it has
// not read what was behind it.
TEST_F(ConnectionTest, Terminated_inside_a_statement_nothing_of_it_was_applied) {
  std::vector<Group> groups;
  groups.push_back(insert(1));
  groups.push_back(insert(2));
  groups.back().push_back(sleeping());
  groups.push_back(insert(3));
  const auto terminator = terminate_when_running("pg_sleep");
  const auto results = connection_->run(groups);
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().kind, Kind::refused);
  EXPECT_EQ(results[1].error().sqlstate, "57P01");
  EXPECT_TRUE(results[1].error().repeatable());
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().kind, Kind::not_sent);
  EXPECT_FALSE(connection_->usable());
  EXPECT_EQ(seen(), std::vector<std::int64_t>{1});
}

// The same goodbye in place of the commit's answer: from here, nobody can tell.
TEST_F(ConnectionTest, Terminated_inside_a_commit_the_outcome_is_unknown) {
  script(*connection_,
         "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
         "$$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;"
         "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON seen DEFERRABLE INITIALLY DEFERRED "
         "FOR EACH ROW WHEN (NEW.i = 2) EXECUTE FUNCTION slow()");
  std::vector<Group> groups;
  groups.push_back(insert(1));
  groups.push_back(insert(2));
  groups.push_back(insert(3));
  const auto terminator = terminate_when_running("INSERT");
  const auto results = connection_->run(groups);
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().kind, Kind::unknown_outcome);
  EXPECT_FALSE(results[1].error().repeatable());
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().kind, Kind::not_sent);
}

// A script is answered after its commit, so that there is nothing to tell from.
TEST_F(ConnectionTest, Terminated_inside_a_script_the_outcome_is_unknown) {
  const auto terminator = terminate_when_running("pg_sleep");
  const auto done = connection_->script("INSERT INTO seen VALUES (1); SELECT pg_sleep(60)");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, Kind::unknown_outcome);
  EXPECT_FALSE(connection_->usable());
}

TEST_F(ConnectionTest, Terminated_while_idle_nothing_is_sent) {
  script(*connect_to(url()),
         "SELECT pg_terminate_backend(" + std::to_string(connection_->backend_pid()) + ", 10000)");
  const auto result = connection_->run(insert(1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Kind::not_sent);
  EXPECT_FALSE(connection_->usable());
  EXPECT_EQ(connection_->run(insert(1)).error().kind, Kind::not_sent);
  EXPECT_EQ(connection_->script("SELECT 1").error().kind, Kind::not_sent);
  EXPECT_TRUE(seen().empty());
}

class ServerLoss : public PostgresTest {};

// No word from the server: all that was sent may have been committed.
TEST_F(ServerLoss, Killed_with_transactions_under_way_their_outcomes_are_unknown) {
  TestServer server;
  const auto connection = connect_to(server.url());
  script(*connection, "CREATE TEMPORARY TABLE seen (i int8)");
  std::vector<Group> groups(3);
  groups[0].push_back({"INSERT INTO seen VALUES (1)", {}});
  groups[1].push_back({"SELECT pg_sleep(60)::text", {}});
  groups[2].push_back({"INSERT INTO seen VALUES (2)", {}});
  std::atomic<bool> watched = false;
  const std::jthread killer([&] {
    const auto other = connect_to(server.url());
    while (query(*other, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").empty()) {
      std::this_thread::sleep_for(5ms);
    }
    watched = true;
    server.kill();
  });
  const auto results = connection->run(groups);
  EXPECT_TRUE(watched);
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().kind, Kind::unknown_outcome);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().kind, Kind::unknown_outcome);
}

class Opening : public PostgresTest {
 protected:
  static Error error_of(const std::string& url) {
    const auto connection = Connection::open(url, 2s);
    EXPECT_FALSE(connection);
    return connection ? Error{} : connection.error();
  }
};

TEST_F(Opening, An_address_that_cannot_be_read_is_refused_without_its_password) {
  const Error error = error_of("postgres://user:secret@[::1/db");
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("cannot be read"), Not(HasSubstr("secret"))));
  EXPECT_EQ(error_of("host=here nonsense=1").code, Errc::invalid_argument);
}

TEST_F(Opening, A_wrong_password_is_named) {
  std::string url = shared_server().url();
  const std::size_t at = url.find('@');
  url.insert(at, "x");
  const Error error = error_of(url);
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("password authentication failed for user \"strand\""),
                                   HasSubstr("correct user and password"), Not(HasSubstr("28P01")),
                                   Not(HasSubstr("LOCATION"))));
}

TEST_F(Opening, No_password_is_as_good_as_a_wrong_one) {
  std::string url = shared_server().url();
  const std::size_t colon = url.find(':', url.find("://") + 3);
  url.erase(colon, url.find('@') - colon);
  EXPECT_EQ(error_of(url).code, Errc::invalid_argument);
}

TEST_F(Opening, A_database_that_is_not_there_is_not_found) {
  const Error error = error_of(shared_server().url("nowhere"));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("\"nowhere\" does not exist"), HasSubstr("create it")));
}

TEST_F(Opening, A_server_that_is_not_there_is_unavailable_and_named) {
  const Error error = error_of("postgres://strand@127.0.0.1:1/strand");
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("127.0.0.1"), HasSubstr("port 1 "), HasSubstr("refused"),
                    HasSubstr("start the server, or correct host and port")));
}

TEST_F(Opening, Of_several_hosts_the_one_that_answers_is_taken) {
  const std::string url = shared_server().url();
  const std::size_t at = url.find('@');
  // The first one never answers: it must not use up the time of the second.
  const std::string both = url.substr(0, at + 1) + "192.0.2.1:5432," + url.substr(at + 1);
  const auto connection = Connection::open(both, 2s);
  EXPECT_TRUE(connection) << connection.error().message;
}

}  // namespace
}  // namespace strand::postgres
