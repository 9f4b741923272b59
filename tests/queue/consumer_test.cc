#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/consumer.h>

#include "consumer_fixture.h"

namespace strand {
namespace {

using namespace std::chrono_literals;
using Kind = ConsumerTrouble::Kind;

class Consumers : public ConsumerTest {};

// --- What a handler gets ---

TEST_F(Consumers, A_handler_gets_the_whole_lane_in_order) {
  for (const char* body : {"a", "b", "c"})
    send("k", body);
  Notes<Bodies> seen;
  const auto consumer = consume([&](Work& work) {
    EXPECT_EQ(work.queue(), "q");
    EXPECT_EQ(work.key(), "k");
    seen.add(bodies(work.messages()));
  });
  consumer->wait_idle();
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a", "b", "c"}}));
  EXPECT_EQ(stats().acked, 3);
  EXPECT_EQ(stats().leases, 0);
}

TEST_F(Consumers, Messages_can_be_handed_out_one_by_one) {
  for (const char* body : {"a", "b", "c"})
    send("k", body);
  Notes<Bodies> seen;
  ConsumerOptions one_by_one = options();
  one_by_one.hand_out = HandOut::messages;
  const auto consumer = consume(one_by_one, [&](Work& work) {
    // What came before is committed.
    EXPECT_EQ(stats().acked, seen.all().size());
    seen.add(bodies(work.messages()));
  });
  consumer->wait_idle();
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a"}, {"b"}, {"c"}}));
  EXPECT_EQ(stats().acked, 3);
}

TEST_F(Consumers, A_long_lane_comes_in_batches) {
  for (int i = 0; i < 7; ++i)
    send("k", std::to_string(i));
  Notes<Bodies> seen;
  ConsumerOptions small = options();
  small.batch_messages = 3;
  const auto consumer = consume(small, [&](Work& work) { seen.add(bodies(work.messages())); });
  consumer->wait_idle();
  Bodies all;
  for (const Bodies& batch : seen.all()) {
    EXPECT_LE(batch.size(), 3);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(all, (Bodies{"0", "1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(stats().acked, 7);
}

TEST_F(Consumers, A_batch_is_limited_in_bytes_but_for_its_first_message) {
  for (int i = 0; i < 3; ++i)
    send("k", std::string(100, 'x'));
  Notes<std::size_t> seen;
  ConsumerOptions small = options();
  small.batch_bytes = 10;
  const auto consumer = consume(small, [&](Work& work) { seen.add(work.messages().size()); });
  consumer->wait_idle();
  EXPECT_EQ(seen.all(), (std::vector<std::size_t>{1, 1, 1}));
}

TEST_F(Consumers, Messages_without_a_key_come_alone) {
  for (int i = 0; i < 5; ++i)
    send("", std::to_string(i));
  Notes<std::size_t> seen;
  const auto consumer = consume([&](Work& work) {
    EXPECT_FALSE(work.key());
    seen.add(work.messages().size());
  });
  consumer->wait_idle();
  EXPECT_EQ(seen.all(), std::vector<std::size_t>(5, 1));
}

TEST_F(Consumers, What_comes_later_is_handled_without_anyone_asking) {
  Notes<std::string> seen;
  const auto consumer = consume([&](Work& work) { seen.add(work.message().body); });
  consumer->wait_idle();  // the queue does not even exist
  send("k", "late");
  seen.wait_for(1);
  EXPECT_EQ(seen.all(), std::vector<std::string>{"late"});
}

TEST_F(Consumers, A_delayed_message_is_handled_when_it_is_due) {
  Notes<std::string> seen;
  const auto consumer = consume([&](Work& work) { seen.add(work.message().body); });
  send("k", "later", 1min);
  consumer->wait_idle();
  EXPECT_TRUE(seen.all().empty());
  clock_->advance(1min);
  seen.wait_for(1);
}

TEST_F(Consumers, Several_queues_are_served) {
  send("k", "a");
  send("k", "b", {}, "r");
  Notes<std::string> seen;
  ConsumerOptions both = options();
  both.queues = {"q", "r"};
  const auto consumer = consume(both, [&](Work& work) { seen.add(work.queue()); });
  consumer->wait_idle();
  const auto queues = seen.all();
  EXPECT_EQ(std::set(queues.begin(), queues.end()), (std::set<std::string>{"q", "r"}));
}

TEST_F(Consumers, Lanes_run_at_the_same_time_and_one_lane_never_does) {
  constexpr int lanes = 20;
  constexpr int rounds = 50;
  for (int i = 0; i < rounds; ++i) {
    for (int lane = 0; lane < lanes; ++lane)
      send("k" + std::to_string(lane), std::to_string(i));
  }
  std::mutex mutex;
  std::map<std::string, int> running;
  std::map<std::string, Bodies> order;
  ConsumerOptions many = options();
  many.workers = 4;
  many.batch_messages = 7;
  const auto consumer = consume(many, [&](Work& work) {
    {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(++running[*work.key()], 1);
      for (const Message& message : work.messages())
        order[*work.key()].push_back(message.body);
    }
    std::this_thread::yield();
    const std::lock_guard lock(mutex);
    --running[*work.key()];
  });
  consumer->wait_idle();
  for (const auto& [lane, seen] : order) {
    ASSERT_EQ(seen.size(), rounds) << lane;
    for (int i = 0; i < rounds; ++i)
      EXPECT_EQ(seen[static_cast<std::size_t>(i)], std::to_string(i));
  }
  EXPECT_EQ(stats().acked, lanes * rounds);
}

// --- What a handler decides ---

TEST_F(Consumers, An_exception_is_a_retry_with_its_text) {
  configure({.backoff = {1min}});
  send("k", "a");
  std::atomic<int> calls = 0;
  const auto consumer = consume([&](Work&) {
    if (++calls == 1) throw std::runtime_error("no route to host");
  });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q"}).value().items;
  ASSERT_EQ(peeked.size(), 1);
  EXPECT_EQ(peeked.front().state, MessageState::backoff);
  EXPECT_EQ(peeked.front().attempts, 1);
  EXPECT_EQ(peeked.front().last_reason, "no route to host");
  EXPECT_EQ(troubles(), std::vector{Kind::handler_failed});
  clock_->advance(1min);
  consumer->wait_idle();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(stats().acked, 1);
}

TEST_F(Consumers, Three_retries_at_the_configured_backoff_and_then_a_dead_letter) {
  configure({.max_attempts = 4, .backoff = {1min, 5min, 30min}});
  send("k", "poison");
  Notes<Time> tries;
  const auto consumer = consume([&](Work& work) {
    tries.add(store_->now());
    return Verdict::retry("try " + std::to_string(work.message().attempts + 1));
  });
  const Time began = store_->now();
  for (const Duration step : {0min, 1min, 5min, 30min}) {
    clock_->advance(step - (step == 0min ? 0ms : 1ms));
    consumer->wait_idle();
    if (step == 0min) continue;
    const std::size_t before = tries.all().size();
    clock_->advance(1ms);
    tries.wait_for(before + 1);
    consumer->wait_idle();
  }
  EXPECT_EQ(tries.all(), (std::vector<Time>{began, began + 1min, began + 6min, began + 36min}));
  const auto letters = store_->dead_letters({.queue = "q"}).value().items;
  ASSERT_EQ(letters.size(), 1);
  ASSERT_EQ(letters.front().failures.size(), 4);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(letters.front().failures[i].reason, "try " + std::to_string(i + 1));
}

TEST_F(Consumers, A_verdict_can_name_the_delay) {
  configure({.backoff = {1h}});
  send("k", "a");
  const auto consumer = consume([&](Work&) { return Verdict::retry("soon", 5s); });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q"}).value().items;
  EXPECT_EQ(peeked.front().retry_at, store_->now() + 5s);
}

TEST_F(Consumers, A_verdict_of_dead_makes_a_dead_letter_at_once) {
  send("k", "a");
  const auto consumer = consume([&](Work&) { return Verdict::dead("not a number"); });
  consumer->wait_idle();
  const auto letters = store_->dead_letters({.queue = "q"}).value().items;
  ASSERT_EQ(letters.size(), 1);
  EXPECT_EQ(letters.front().reason, "not a number");
}

// One of three is poison, and the handler does not say which: the others must not suffer.
TEST_F(Consumers, Of_a_batch_that_fails_only_the_guilty_message_is_charged) {
  configure({.max_attempts = 2, .backoff = {}});
  for (const char* body : {"good", "bad", "fine"})
    send("k", body);
  Notes<std::string> handled;
  const auto consumer = consume([&](Work& work) {
    for (const Message& message : work.messages()) {
      if (message.body == "bad") throw std::runtime_error("bad");
    }
    for (const Message& message : work.messages())
      handled.add(message.body);
  });
  consumer->wait_idle();
  EXPECT_EQ(handled.all(), (std::vector<std::string>{"good", "fine"}));
  const auto letters = store_->dead_letters({.queue = "q"}).value().items;
  ASSERT_EQ(letters.size(), 1);
  EXPECT_EQ(letters.front().body, "bad");
  EXPECT_EQ(letters.front().attempts, 2);
  EXPECT_EQ(stats().acked, 2);
}

TEST_F(Consumers, Behind_a_blocked_message_nothing_is_handled) {
  configure({.backoff = {1min}});
  send("k", "bad");
  send("k", "behind");
  Notes<std::string> handled;
  std::atomic<bool> mended = false;
  const auto consumer = consume([&](Work& work) {
    if (work.message().body == "bad" && !mended) throw std::runtime_error("bad");
    for (const Message& message : work.messages())
      handled.add(message.body);
  });
  consumer->wait_idle();
  EXPECT_TRUE(handled.all().empty());
  mended = true;
  clock_->advance(1min);
  consumer->wait_idle();
  EXPECT_EQ(handled.all(), (std::vector<std::string>{"bad", "behind"}));
}

TEST_F(Consumers, The_fate_of_single_messages_can_be_decided) {
  configure({.backoff = {1min}});
  for (const char* body : {"a", "b", "c"})
    send("k", body);
  const auto consumer = consume([&](Work& work) {
    if (work.messages().size() < 3) return Verdict::release();
    work.decide(work.messages()[1], Verdict::dead("b is no good"));
    work.decide(work.messages()[2], Verdict::retry("later", 1h));
    return Verdict::ok();
  });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(stats().dead, 1);
  EXPECT_EQ(stats().backoff, 1);
}

TEST_F(Consumers, The_fate_of_a_message_of_another_batch_is_a_failure_of_the_handler) {
  configure({.backoff = {1min}});
  send("k", "a");
  const auto consumer = consume([&](Work& work) {
    work.decide(Message{.id = MessageId{4711}}, Verdict::ok());
    return Verdict::ok();
  });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q"}).value().items;
  EXPECT_THAT(*peeked.front().last_reason, testing::HasSubstr("message 4711"));
}

TEST_F(Consumers, Nothing_is_acked_without_what_the_handler_wanted_to_happen_with_it) {
  configure({.backoff = {1min}});
  send("k", "a");
  send("k", "b");
  std::atomic<bool> singly = false;
  const auto consumer = consume([&](Work& work) {
    if (work.messages().size() == 1) {
      singly = true;
      throw std::runtime_error("and again");
    }
    add_send(work.transaction(), "out", "", "for a");
    work.decide(work.messages()[0], Verdict::ok());
    throw std::runtime_error("b fails");
  });
  consumer->wait_idle();
  EXPECT_TRUE(singly);
  EXPECT_EQ(stats().acked, 0);
  EXPECT_EQ(store_->stats("out").error().code, Errc::not_found);
}

TEST_F(Consumers, What_a_handler_sends_is_committed_with_its_acks) {
  send("k", "a");
  const auto consumer = consume([&](Work& work) {
    add_send(work.transaction(), "out", "", "done " + work.message().body);
    EXPECT_EQ(store_->stats("out").error().code, Errc::not_found);
  });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(stats("out").ready, 1);
}

TEST_F(Consumers, A_handler_may_commit_by_itself) {
  send("k", "a");
  send("k", "b");
  const auto consumer = consume([&](Work& work) {
    add_send(work.transaction(), "out", "", "x");
    EXPECT_TRUE(work.commit());
    EXPECT_EQ(stats().acked, 2);
    EXPECT_EQ(stats("out").ready, 1);
    return Verdict::retry("counts no more");
  });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 2);
  EXPECT_TRUE(troubles().empty());
}

TEST_F(Consumers, What_the_store_refuses_counts_as_a_failure_of_the_handler) {
  configure({.backoff = {1min}});
  send("k", "a");
  const auto consumer = consume(
      [&](Work& work) { add_send(work.transaction(), "", "", "a queue must have a name"); });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q"}).value().items;
  ASSERT_EQ(peeked.size(), 1);
  EXPECT_EQ(peeked.front().attempts, 1);
  EXPECT_TRUE(peeked.front().last_reason->starts_with("not committed: "))
      << *peeked.front().last_reason;
  EXPECT_EQ(troubles(), std::vector{Kind::commit_refused});
}

TEST_F(Consumers, A_reason_that_is_too_long_is_cut) {
  configure({.backoff = {1min}});
  send("k", "a");
  const auto consumer =
      consume([&](Work&) { throw std::runtime_error(std::string(100'000, 'x')); });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q"}).value().items;
  EXPECT_EQ(peeked.front().attempts, 1);
  EXPECT_GT(peeked.front().last_reason->size(), 1000);
}

// --- Stopping ---

TEST_F(Consumers, Stopping_lets_handlers_finish_and_releases_the_rest_uncharged) {
  for (int i = 0; i < 5; ++i)
    send("k" + std::to_string(i), "x");
  Gate running;
  Gate go_on;
  std::atomic<int> calls = 0;
  ConsumerOptions one = options();
  one.lanes_in_flight = 5;
  const auto consumer = consume(one, [&](Work&) {
    ++calls;
    running.open();
    go_on.wait();
  });
  running.wait();
  while (stats().leases < 5)
    std::this_thread::yield();
  std::thread stopper([&] { consumer->stop(); });
  while (stats().leases > 1)  // the others are released while the handler still runs
    std::this_thread::yield();
  go_on.open();
  stopper.join();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(stats().ready, 4);
  EXPECT_EQ(stats().leases, 0);
  for (const PeekedMessage& message : store_->peek({.queue = "q"}).value().items)
    EXPECT_EQ(message.attempts, 0);
}

TEST_F(Consumers, Stopping_with_little_patience_tells_handlers_and_charges_nothing) {
  send("k", "a");
  Gate running;
  const auto consumer = consume([&](Work& work) {
    running.open();
    std::atomic<bool> told = false;
    const std::stop_callback callback(work.stop_token(), [&] {
      told = true;
      told.notify_all();
    });
    told.wait(false);
    throw std::runtime_error("interrupted");
  });
  running.wait();
  EXPECT_FALSE(consumer->stop(1ms));
  EXPECT_EQ(stats().ready, 1);
  EXPECT_EQ(store_->peek({.queue = "q"}).value().items.front().attempts, 0);
}

TEST_F(Consumers, A_consumer_can_be_stopped_twice_and_by_its_end) {
  send("k", "a");
  const auto consumer = consume([](Work&) {});
  consumer->wait_idle();
  consumer->stop();
  EXPECT_TRUE(consumer->stop(1s));
}

// --- Back-pressure ---

TEST_F(Consumers, No_more_lanes_are_leased_than_allowed) {
  for (int i = 0; i < 50; ++i)
    send("k" + std::to_string(i), "x");
  Gate go_on;
  Gate running;
  std::atomic<std::uint64_t> most = 0;
  ConsumerOptions limited = options();
  limited.workers = 2;
  limited.lanes_in_flight = 3;
  const auto consumer = consume(limited, [&](Work&) {
    most = std::max<std::uint64_t>(most, stats().leases);
    running.open();
    go_on.wait();
  });
  running.wait();
  EXPECT_LE(stats().leases, 3);
  go_on.open();
  consumer->wait_idle();
  EXPECT_LE(most, 3);
  EXPECT_EQ(stats().acked, 50);
}

// --- Coalescing ---

TEST_F(Consumers, A_lane_waits_for_more_messages_until_its_window_has_passed) {
  ConsumerOptions gathering = options();
  gathering.coalesce = Coalesce{.window = 100ms, .messages = 50};
  Notes<Bodies> seen;
  const auto consumer = consume(gathering, [&](Work& work) { seen.add(bodies(work.messages())); });
  send("k", "a");
  while (stats().leased == 0)
    std::this_thread::yield();
  send("k", "b");
  clock_->advance(99ms);
  EXPECT_TRUE(seen.all().empty());
  clock_->advance(1ms);
  seen.wait_for(1);
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a", "b"}}));
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 2);
}

TEST_F(Consumers, Enough_messages_end_the_waiting) {
  ConsumerOptions gathering = options();
  gathering.coalesce = Coalesce{.window = 1h, .messages = 3};
  Notes<Bodies> seen;
  const auto consumer = consume(gathering, [&](Work& work) { seen.add(bodies(work.messages())); });
  for (const char* body : {"a", "b", "c"})
    send("k", body);
  seen.wait_for(1);
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a", "b", "c"}}));
}

TEST_F(Consumers, What_comes_before_a_lane_is_watched_counts_too) {
  hooked_->before_watching_a_lane = [&] { send("k", "b"); };
  ConsumerOptions gathering = options();
  gathering.coalesce = Coalesce{.window = 1h, .messages = 2};
  Notes<Bodies> seen;
  const auto consumer = consume(gathering, [&](Work& work) { seen.add(bodies(work.messages())); });
  send("k", "a");
  seen.wait_for(1);
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a", "b"}}));
}

TEST_F(Consumers, Stopping_releases_a_lane_that_gathers) {
  ConsumerOptions gathering = options();
  gathering.coalesce = Coalesce{.window = 1h, .messages = 3};
  const auto consumer = consume(gathering, [](Work&) { FAIL(); });
  send("k", "a");
  while (stats().leased == 0)
    std::this_thread::yield();
  consumer->stop();
  EXPECT_EQ(stats().ready, 1);
}

// --- Options ---

TEST_F(Consumers, Options_that_make_no_sense_are_refused) {
  const auto refusal = [&](auto change) {
    ConsumerOptions wrong = options();
    change(wrong);
    const auto consumer = Consumer::start(*store_, wrong, [](Work&) {});
    return consumer ? std::string("started") : consumer.error().message;
  };
  using Options = ConsumerOptions;
  EXPECT_EQ(refusal([](Options& o) { o.queues.clear(); }), "a consumer needs at least one queue");
  EXPECT_EQ(refusal([](Options& o) { o.queues = {"a", "b", "a"}; }),
            "a consumer names the queue 'a' twice");
  EXPECT_EQ(refusal([](Options& o) { o.queues = {""}; }),
            "a consumer cannot have a queue with an empty name");
  EXPECT_EQ(refusal([](Options& o) { o.workers = 0; }),
            "a consumer has from 1 to 1000 workers, not 0");
  EXPECT_EQ(refusal([](Options& o) { o.batch_messages = 0; }),
            "a consumer needs batch_messages of at least 1");
  EXPECT_EQ(refusal([](Options& o) { o.workers = 4, o.lanes_in_flight = 2; }),
            "a consumer with 4 workers needs as many lanes_in_flight, not 2");
  EXPECT_EQ(refusal([](Options& o) { o.lease = 1ms; }),
            "a consumer cannot renew a lease of 1ms in time; the shortest is 10ms");
  EXPECT_EQ(refusal([](Options& o) { o.coalesce = Coalesce{.window = 0ms}; }),
            "a consumer that coalesces needs a window and a number of messages");
  EXPECT_EQ(Consumer::start(*store_, options(), Handler{}).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace strand
