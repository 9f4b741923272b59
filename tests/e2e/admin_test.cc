// Queues, dead letters and topics.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/stores.h"

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

boost::json::object stats(const boost::json::object& queue) {
  return queue.at("stats").as_object();
}

TEST_P(ProgramOnStores, Every_setting_of_a_queue_can_be_set_and_is_shown) {
  const auto set =
      json({"queue", "set", "orders", "max_attempts=7", "backoff=1s,1m30s", "retry_policy=skip",
            "on_exhausted=park", "ttl=1d", "on_expired=dead", "dedup_window=10m", "lease=5s",
            "starvation_after=1h", "max_length=99", "backoff_jitter_percent=20",
            "dead_notice_to=alarms", "dead_notice_key=k"});
  EXPECT_THAT(names_of(set), ElementsAre("name", "paused", "stats", "settings"));
  EXPECT_EQ(boost::json::serialize(set.at("settings")),
            R"({"max_attempts":7,"backoff_ms":[1000,90000],"backoff_jitter_percent":20,)"
            R"("retry_policy":"skip",)"
            R"("on_exhausted":"park","ttl_ms":86400000,"on_expired":"dead",)"
            R"("dedup_window_ms":600000,"lease_ms":5000,"starvation_after_ms":3600000,)"
            R"("max_length":99,"dead_notice_to":{"queue":"alarms","key":"k"}})");
  // Those that are not named stay; what `show` prints, `set` reads.
  const std::string shown = ok({"queue", "set", "orders", "backoff=none", "ttl=none"});
  EXPECT_THAT(shown, HasSubstr("\nlease=5s\n"));
  EXPECT_THAT(shown, HasSubstr("\nbackoff=none\n"));
  EXPECT_EQ(shown, ok({"queue", "show", "orders"}));
  EXPECT_EQ(text(json({"queue", "show", "orders"}).at("settings").as_object(), "ttl_ms"), "null");
  EXPECT_THAT(refused(1, {"queue", "show", "nowhere"}), HasSubstr("'nowhere'"));
}

TEST_P(ProgramOnStores, Queues_are_listed_with_their_counts) {
  ok({"send", "a", "--lines"}, "1\n2\n");
  ok({"send", "b", "3", "--delay", "1h"});
  ok({"receive", "a"});
  const auto queues = json_lines(ok({"queue", "ls", "-o", "json"}));
  ASSERT_EQ(queues.size(), 2U);
  EXPECT_EQ(text(queues.at(0), "name"), "a");
  EXPECT_THAT(names_of(stats(queues.at(0))),
              ElementsAre("accepted", "acked", "expired", "dropped", "moved", "purged", "dead",
                          "ready", "delayed", "waiting", "leased", "parked", "backoff",
                          "lanes_ready", "leases", "oldest_ready"));
  EXPECT_EQ(count(stats(queues.at(0)), "ready"), 1U);
  EXPECT_EQ(count(stats(queues.at(0)), "leased"), 1U);
  EXPECT_EQ(count(stats(queues.at(1)), "delayed"), 1U);
  EXPECT_THAT(ok({"queue", "ls"}), HasSubstr("QUEUE  READY  DELAYED"));
}

TEST_P(ProgramOnStores, A_paused_queue_hands_out_nothing_until_it_is_resumed) {
  ok({"send", "orders", "a"});
  EXPECT_EQ(text(json({"queue", "pause", "orders"}), "paused"), "true");
  EXPECT_EQ(run({"receive", "orders"}).exit, 3);
  EXPECT_THAT(ok({"queue", "ls"}), HasSubstr("paused"));
  EXPECT_EQ(ok({"queue", "resume", "orders"}), "orders resumed\n");
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a"));
}

TEST_P(ProgramOnStores, A_parked_lane_is_resumed_by_its_key_and_an_unkeyed_message_by_its_id) {
  ok({"queue", "set", "orders", "max_attempts=1", "on_exhausted=park"});
  ok({"send", "orders", "a", "--key", "k"});
  ok({"retry", text(json({"receive", "orders"}), "token")});
  const auto unkeyed = json({"send", "orders", "b"});
  ok({"retry", text(json({"receive", "orders"}), "token")});
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "parked"), 2U);

  EXPECT_EQ(count(json({"queue", "resume", "orders", "--key", "k"}), "resumed"), 1U);
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a"));
  ok({"queue", "resume", "orders", "--id", text(unkeyed, "id")});
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("b"));
  EXPECT_THAT(refused(1, {"queue", "resume", "orders", "--key", "k"}), HasSubstr("'k'"));
}

TEST_P(ProgramOnStores, Purge_and_remove_need_a_yes) {
  ok({"send", "orders", "--lines", "--key-separator", ":"}, "a:1\na:2\nb:3\n");
  EXPECT_THAT(refused(2, {"queue", "purge", "orders"}), HasSubstr("--yes"));
  EXPECT_EQ(count(json({"queue", "purge", "orders", "--key", "a", "--yes"}), "purged"), 2U);
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "ready"), 1U);
  ok({"receive", "orders"});
  EXPECT_THAT(refused(1, {"queue", "rm", "orders", "--yes"}), HasSubstr("lease"));
  EXPECT_EQ(count(json({"queue", "rm", "orders", "--yes", "--force"}), "removed"), 1U);
  refused(1, {"queue", "show", "orders"});
}

TEST_P(ProgramOnStores, On_a_terminal_it_asks_first) {
  ok({"send", "orders", "a"});
  const auto purge = [this](const char* answer) {
    Process process(command({"queue", "purge", "orders"}), on_store({.in = Stdin::terminal}));
    process.write(answer);
    return process.wait();
  };
  Finished finished = purge("n\n");
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, HasSubstr("drop all messages of queue 'orders'"));
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "ready"), 1U);
  finished = purge("y\n");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "ready"), 0U);
}

// --- Dead letters ---

TEST_P(ProgramOnStores, A_dead_letter_is_listed_shown_redriven_and_dropped) {
  const auto sent = json({"send", "orders", "a", "--key", "k", "--header", "h=v"});
  const std::string id = text(sent, "id");
  EXPECT_EQ(ok({"dead", text(json({"receive", "orders"}), "token"), "--reason", "no such order"}),
            "1 dead\n");
  const auto letter = json({"dlq", "show", "orders", id});
  EXPECT_THAT(names_of(letter),
              ElementsAre("id", "body", "headers", "priority", "deliveries", "attempts",
                          "enqueued_at", "due", "expires_at", "name", "topic", "queue", "key",
                          "label", "dead_at", "reason", "failures"));
  EXPECT_EQ(text(letter, "reason"), "no such order");
  EXPECT_EQ(text(letter, "key"), "k");
  EXPECT_EQ(letter.at("failures").as_array().size(), 1U);
  EXPECT_EQ(json({"dlq", "ls", "orders"}), letter);
  EXPECT_THAT(ok({"dlq", "show", "orders", id}), HasSubstr("h: v"));
  EXPECT_THAT(refused(1, {"dlq", "show", "orders", "7"}), HasSubstr("dead letter 7"));

  EXPECT_EQ(ok({"dlq", "redrive", "orders", id}), "1 redriven\n");
  const auto lease = json({"receive", "orders"});
  EXPECT_EQ(text(lease.at("messages").at(0).as_object(), "id"), id);
  EXPECT_EQ(count(lease.at("messages").at(0).as_object(), "attempts"), 0U);
  ok({"dead", text(lease, "token"), id});
  EXPECT_EQ(count(json({"dlq", "drop", "orders", id}), "dropped"), 1U);
  EXPECT_THAT(refused(1, {"dlq", "drop", "orders", id}), HasSubstr(id));
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "dropped"), 1U);
}

// More than one page of them.
TEST_P(ProgramOnStores, All_dead_letters_are_reached_page_by_page) {
  std::string lines;
  for (int i = 0; i < 2500; ++i)
    lines += std::to_string(i) + "\n";
  ok({"send", "orders", "--lines", "--key", "k"}, lines);
  ok({"dead", text(json({"receive", "orders", "--max", "5000"}), "token")});
  EXPECT_EQ(json_lines(ok({"dlq", "ls", "orders", "-o", "json"})).size(), 2500U);
  EXPECT_EQ(ok({"dlq", "redrive", "orders", "--all"}), "2500 redriven\n");
  ok({"dead", text(json({"receive", "orders", "--max", "5000"}), "token")});
  EXPECT_EQ(count(json({"dlq", "redrive", "orders", "--all", "--to", "again"}), "redriven"), 2500U);
  const auto moved = bodies(json({"receive", "again", "--max", "5000"}));
  ASSERT_EQ(moved.size(), 2500U);
  EXPECT_EQ(moved.back(), "2499");
  EXPECT_EQ(ok({"dlq", "drop", "orders", "--all", "--yes"}), "0 dropped\n");
  EXPECT_EQ(count(stats(json({"queue", "show", "orders"})), "moved"), 2500U);
}

// --- Topics ---

TEST_P(ProgramOnStores, What_is_published_reaches_the_subscriptions_that_match) {
  EXPECT_EQ(ok({"topic", "subscribe", "orders.*.eu", "--name", "mails"}),
            "mails is subscribed to orders.*.eu\n");
  ok({"topic", "subscribe", "orders.#", "--name", "audit"});
  const auto published = json({"topic", "publish", "orders.paid.eu", "seven", "--key", "order-7"});
  EXPECT_THAT(names_of(published), ElementsAre("id", "duplicate", "matched"));
  EXPECT_EQ(count(published, "matched"), 2U);
  EXPECT_THAT(ok({"topic", "publish", "orders.paid.us"}, "eight"), HasSubstr("to 1 subscriptions"));

  const auto lease = json({"receive", "mails"});
  EXPECT_EQ(text(lease, "key"), "order-7");
  EXPECT_THAT(bodies(lease), ElementsAre("seven"));
  EXPECT_EQ(text(lease.at("messages").at(0).as_object(), "topic"), "orders.paid.eu");

  EXPECT_EQ(boost::json::serialize(json({"topic", "ls"})),
            R"({"topics":[],"subscriptions":[{"queue":"audit","pattern":"orders.#"},)"
            R"({"queue":"mails","pattern":"orders.*.eu"}]})");
  EXPECT_THAT(refused(1, {"topic", "subscribe", "other", "--name", "mails"}),
              HasSubstr("subscribed to 'orders.*.eu' already"));
  ok({"topic", "unsubscribe", "mails"});
  EXPECT_THAT(ok({"topic", "ls"}), Not(HasSubstr("mails")));
  EXPECT_THAT(refused(1, {"topic", "unsubscribe", "mails"}), HasSubstr("not subscribed"));
  EXPECT_THAT(refused(1, {"topic", "publish", "orders..eu", "x"}), HasSubstr("empty segment"));
}

TEST_P(ProgramOnStores, A_subscription_can_start_in_the_past) {
  EXPECT_EQ(count(json({"topic", "set", "news", "retain=1h"}), "retain_ms"), 3'600'000U);
  ok({"topic", "publish", "news", "old"});
  EXPECT_EQ(
      count(json({"topic", "subscribe", "news", "--name", "late", "--from", "10m"}), "affected"),
      1U);
  EXPECT_THAT(bodies(json({"receive", "late"})), ElementsAre("old"));
  ok({"topic", "subscribe", "news", "--name", "all", "--from", "2026-01-01T00:00:00+01:00"});
  EXPECT_THAT(bodies(json({"receive", "all"})), ElementsAre("old"));
  ok({"topic", "subscribe", "news", "--name", "none", "--from", "2100-01-01T00:00:00.5Z"});
  EXPECT_EQ(run({"receive", "none"}).exit, 3);
  EXPECT_THAT(ok({"topic", "ls"}), HasSubstr("news   1h"));
}

}  // namespace
}  // namespace strand::e2e
