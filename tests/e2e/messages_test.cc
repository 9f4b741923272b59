// Messages from send to settle, each step in a process of its own.

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/stores.h"

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* time_pattern =
    "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z";

boost::json::object stats(const boost::json::object& queue) {
  return queue.at("stats").as_object();
}

TEST_P(ProgramOnStores, A_lane_comes_in_order_with_all_that_was_sent) {
  const auto sent =
      json({"send", "orders", "charge", "--key", "order-7", "--header", "a=1", "--header", "a=2=3",
            "--priority", "1", "--ttl", "1h", "--label", "gpu", "--name", "first"});
  EXPECT_THAT(names_of(sent), ElementsAre("id", "duplicate"));
  EXPECT_EQ(text(sent, "duplicate"), "false");
  EXPECT_THAT(ok({"send", "orders", "--key", "order-7"}, "pa\nck"), MatchesRegex("sent [0-9]+\n"));
  ok({"send", "orders", "-", "--key", "order-7", "--durability", "async"}, "");

  const auto lease = json({"receive", "orders"});
  EXPECT_THAT(names_of(lease), ElementsAre("token", "queue", "key", "label", "expires_at",
                                           "isolated", "more", "messages"));
  EXPECT_THAT(text(lease, "token"), MatchesRegex("[0-9a-f]{48}"));
  EXPECT_EQ(text(lease, "queue"), "orders");
  EXPECT_EQ(text(lease, "key"), "order-7");
  EXPECT_EQ(text(lease, "label"), "gpu");
  EXPECT_THAT(text(lease, "expires_at"), MatchesRegex(time_pattern));
  EXPECT_THAT(bodies(lease), ElementsAre("charge", "pa\nck", ""));

  const auto& message = lease.at("messages").at(0).as_object();
  EXPECT_THAT(names_of(message),
              ElementsAre("id", "body", "headers", "priority", "deliveries", "attempts",
                          "enqueued_at", "due", "expires_at", "name", "topic"));
  EXPECT_EQ(count(message, "id"), count(sent, "id"));
  EXPECT_EQ(text(message, "headers"), R"([{"name":"a","value":"1"},{"name":"a","value":"2=3"}])");
  EXPECT_EQ(count(message, "priority"), 1U);
  EXPECT_EQ(count(message, "deliveries"), 1U);
  EXPECT_EQ(count(message, "attempts"), 0U);
  EXPECT_THAT(text(message, "enqueued_at"), MatchesRegex(time_pattern));
  EXPECT_THAT(text(message, "expires_at"), MatchesRegex(time_pattern));
  EXPECT_EQ(text(message, "name"), "first");
  EXPECT_EQ(text(message, "topic"), "null");

  EXPECT_THAT(refused(3, {"receive", "orders"}), HasSubstr("nothing to receive"));
  EXPECT_EQ(run({"receive", "orders", "-o", "json"}).err, "") << "the exit code says it";
}

TEST_P(ProgramOnStores, Bytes_that_are_no_text_come_as_base64_and_do_not_reach_a_terminal) {
  const std::string body("\xff\0\x1b[2J", 6);
  ok({"send", "raw", "--key", "k\xfe", "--header", "h=\xfd"}, body);
  const auto lease = json({"receive", "raw"});
  EXPECT_EQ(text(lease, "key_base64"), "a/4=");
  EXPECT_FALSE(lease.contains("key"));
  const auto& message = lease.at("messages").at(0).as_object();
  EXPECT_EQ(text(message, "body_base64"), "/wAbWzJK");
  EXPECT_FALSE(message.contains("body"));
  EXPECT_EQ(text(message, "headers"), R"([{"name":"h","value_base64":"/Q=="}])");
  ok({"release", text(lease, "token")});
  EXPECT_THAT(ok({"receive", "raw"}), HasSubstr(R"(\xff\x00\x1b[2J)"));
}

TEST_P(ProgramOnStores, A_duplicate_adds_nothing_and_says_so) {
  const auto first = json({"send", "orders", "a", "--dedup", "d"});
  const auto second = json({"send", "orders", "b", "--dedup", "d"});
  EXPECT_EQ(count(second, "id"), count(first, "id"));
  EXPECT_EQ(text(second, "duplicate"), "true");
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "accepted"), 1U);
}

TEST_P(ProgramOnStores, What_the_store_refuses_fails_with_its_reason) {
  EXPECT_THAT(refused(1, {"send", "orders", "a", "--key", ""}), HasSubstr("key is empty"));
  EXPECT_THAT(refused(1, {"send", "orders"}, std::string((1U << 20U) + 1, 'x')),
              HasSubstr("body_bytes_max"));
  EXPECT_THAT(refused(1, {"receive", "nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(refused(1, {"ack", std::string(48, '0')}), HasSubstr("token"));
  ok({"send", "orders", "a", "--name", "n"});
  EXPECT_THAT(refused(1, {"send", "orders", "b", "--name", "n"}), HasSubstr("'n'"));
}

TEST_P(ProgramOnStores, A_lease_is_kept_renewed_settled_and_then_lost) {
  ok({"send", "orders", "--lines", "--key", "k"}, "a\nb\nc\n");
  const auto lease = json({"receive", "orders"});
  const std::string token = text(lease, "token");
  const auto id = [&](std::size_t i) { return text(lease.at("messages").at(i).as_object(), "id"); };
  auto settled = json({"ack", token, id(0), "--keep"});
  EXPECT_EQ(text(settled, "outcome"), "acked");
  EXPECT_EQ(count(settled, "messages"), 1U);
  EXPECT_EQ(text(settled, "kept"), "true");
  EXPECT_THAT(refused(1, {"ack", token, id(0)}), HasSubstr(id(0)));

  const auto renewed = json({"renew", token, "--lease", "10m"});
  EXPECT_EQ(text(renewed, "token"), token);
  EXPECT_GT(text(renewed, "expires_at"), text(lease, "expires_at"));
  EXPECT_THAT(ok({"renew", token}), MatchesRegex(std::string("expires ") + time_pattern + "\n"));

  // Without ids: what the lease still carries.
  EXPECT_EQ(ok({"ack", token}), "2 acked\n");
  for (const char* command : {"ack", "retry", "dead", "release", "renew"}) {
    EXPECT_THAT(refused(1, {command, token}), HasSubstr("is over"));
  }
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "acked"), 3U);
}

// The messages of a lease are found by its token alone, and never those of another lease.
TEST_P(ProgramOnStores, Settling_without_ids_settles_the_messages_of_that_lease_only) {
  ok({"send", "one", "--lines", "--key-separator", ":"}, "a:a1\na:a2\nb:b1\n");
  ok({"send", "two", "--lines"}, "u1\nu2\n");
  const auto of_one = json_lines(ok({"receive", "one", "--lanes", "5", "-o", "json"}));
  const auto of_two = json_lines(ok({"receive", "two", "--lanes", "5", "-o", "json"}));
  ASSERT_EQ(of_one.size(), 2U);
  ASSERT_EQ(of_two.size(), 2U);
  // These arrive behind the lease, so they are not its messages.
  ok({"send", "one", "a3", "--key", "a"});

  EXPECT_EQ(ok({"ack", text(of_two.at(1), "token")}), "1 acked\n");
  EXPECT_EQ(ok({"ack", text(of_one.at(0), "token")}), "2 acked\n");
  EXPECT_EQ(ok({"ack", text(of_one.at(1), "token"), "--queue", "one"}), "1 acked\n");
  EXPECT_THAT(refused(1, {"ack", text(of_two.at(0), "token"), "--queue", "one"}),
              HasSubstr("no messages of this lease"));
  EXPECT_EQ(ok({"release", text(of_two.at(0), "token")}), "released\n");
  EXPECT_THAT(bodies(json({"receive", "two"})), ElementsAre("u1"));
  EXPECT_THAT(bodies(json({"receive", "one"})), ElementsAre("a3"));
}

TEST_P(ProgramOnStores, A_retried_message_comes_again_and_keeps_its_reason) {
  ok({"queue", "set", "orders", "max_attempts=2"});
  ok({"send", "orders", "a", "--key", "k"});
  auto lease = json({"receive", "orders"});
  EXPECT_EQ(ok({"retry", text(lease, "token"), "--delay", "0s", "--reason", "busy"}),
            "1 retried\n");
  lease = json({"receive", "orders"});
  EXPECT_EQ(count(lease.at("messages").at(0).as_object(), "attempts"), 1U);
  EXPECT_EQ(count(lease.at("messages").at(0).as_object(), "deliveries"), 2U);
  ok({"retry", text(lease, "token"), "--reason", "still busy"});
  EXPECT_THAT(ok({"dlq", "ls", "orders"}), HasSubstr("still busy"));
}

// The watch and the store's own timer end the wait: nothing polls.
TEST_P(ProgramOnStores, A_wait_ends_when_a_message_becomes_due) {
  ok({"send", "orders", "later", "--delay", "300ms"});
  EXPECT_THAT(bodies(json({"receive", "orders", "--wait", "30s"})), ElementsAre("later"));
  EXPECT_EQ(run({"receive", "orders", "--wait", "50ms"}).exit, 3);
}

TEST_P(ProgramOnStores, Ctrl_C_ends_a_wait_and_leaves_leases_as_they_are) {
  ok({"send", "orders", "a"});
  const auto lease = json({"receive", "orders"});
  Process waiting(command({"receive", "orders", "--wait", "1h"}), on_store());
  waiting.wait_until_it_catches(SIGINT);
  waiting.signal(SIGINT);
  const Finished finished = waiting.wait();
  EXPECT_EQ(finished.exit, 130);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(ok({"ack", text(lease, "token")}), "1 acked\n");
}

TEST_P(ProgramOnStores, Receive_with_ack_takes_what_it_prints) {
  ok({"send", "orders", "--lines", "--key-separator", ":"}, "x:1\ny:2\nx:3\n");
  const auto leases = json_lines(ok({"receive", "orders", "--lanes", "9", "--ack", "-o", "json"}));
  ASSERT_EQ(leases.size(), 2U);
  EXPECT_THAT(bodies(leases.at(0)), ElementsAre("1", "3"));
  EXPECT_THAT(bodies(leases.at(1)), ElementsAre("2"));
  const auto now = stats(json({"queue", "show", "orders"}));
  EXPECT_EQ(count(now, "acked"), 3U);
  EXPECT_EQ(count(now, "leases"), 0U);
}

// What its reader never got must come again.
TEST_P(ProgramOnStores, What_could_not_be_printed_is_not_acknowledged) {
  ok({"send", "orders", "--lines"}, "a\nb\n");
  Finished finished =
      Process(command({"receive", "orders", "--ack"}), on_store({.out = Stdout::closed_pipe}))
          .finish();
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(finished.err, "") << "a reader that went away is no reason for words";
  finished = Process(command({"receive", "orders", "--ack"}), on_store({.out = Stdout::full_disk}))
                 .finish();
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, MatchesRegex("strand: cannot write the output: [^\n]+\n"));
  const auto now = stats(json({"queue", "show", "orders"}));
  EXPECT_EQ(count(now, "acked"), 0U);
  EXPECT_EQ(count(now, "leased"), 2U);
}

TEST_P(ProgramOnStores, Receive_asks_for_keys_labels_and_limits) {
  ok({"send", "orders", "--lines", "--key", "a"}, "1\n2\n3\n");
  ok({"send", "orders", "g", "--key", "b", "--label", "gpu"});
  EXPECT_EQ(run({"receive", "orders", "--key", "c"}).exit, 3);
  EXPECT_EQ(run({"receive", "orders", "--label", "cpu"}).exit, 3);
  EXPECT_THAT(bodies(json({"receive", "orders", "--label", "cpu", "--label", "gpu"})),
              ElementsAre("g"));
  const auto lease = json({"receive", "orders", "--label", "", "--max", "2", "--lease", "1h"});
  EXPECT_THAT(bodies(lease), ElementsAre("1", "2"));
  EXPECT_EQ(text(lease, "more"), "true");
}

INSTANTIATE_TEST_SUITE_P(Stores, ProgramOnStores,
                         testing::Values("rocksdb", "sqlite", "postgres", "served"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strand::e2e
