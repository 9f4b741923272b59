// A lane that ends and is made anew, by others, while a sender waits for it.

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "postgres/fixture.h"

namespace strand::postgres_faults {
namespace {

using namespace std::chrono_literals;

using LaneMadeAnew = postgres::PostgresTest;

Transaction sending(const std::string& body) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = "work";
  send.key = "k";
  send.body = body;
  return transaction;
}

// The sender has waited for a row that is gone. The one that stands there now is another, which has
// to be locked as well: or it ends before the message is counted, and nobody sees the message.
TEST_F(LaneMadeAnew, A_sender_that_waited_for_the_old_one_does_not_lose_its_message) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE((*store)->apply(sending("gone with the old lane")));
  const auto other = connect_to(url());
  // Time to look for the gap between the lock of the lane and the count of its messages.
  ASSERT_TRUE(other->script(
      "create function strand.dawdle() returns trigger language plpgsql as $$ begin perform "
      "pg_sleep(0.6); return new; end $$; create trigger dawdle before insert on strand.messages "
      "for each row execute function strand.dawdle()"));

  std::jthread maker([&] {
    EXPECT_TRUE(other->script(
        "do $$ begin perform 1 from strand.lanes for update; perform pg_sleep(0.4); delete from "
        "strand.messages; delete from strand.lanes; insert into strand.lanes (id, queue, key) "
        "select nextval('strand.numbers'), id, 'k' from strand.queues; end $$"));
  });
  std::this_thread::sleep_for(200ms);
  std::jthread sender([&] { EXPECT_TRUE((*store)->apply(sending("waited"))); });
  maker.join();
  std::this_thread::sleep_for(200ms);
  ASSERT_TRUE(other->script("delete from strand.lanes where live = 0"));
  sender.join();

  const auto leases = (*store)->lease({.queue = "work"});
  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->size(), 1U);
  EXPECT_EQ(leases->front().messages.front().body, "waited");
}

}  // namespace
}  // namespace strand::postgres_faults
