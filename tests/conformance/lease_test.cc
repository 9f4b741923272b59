// S5 and S6, the everyday part: how long a lease lasts, request ids, and leases over a restart.
#include <array>

#include "conformance/suite.h"

namespace strand::conformance {

// A worker that asks for nothing special gets what the queue's owner thought right.
// Rules: S6
TEST_P(StoreConformance, A_lease_lasts_as_long_as_asked_or_as_the_queue_says) {
  QueueSettings patient;
  patient.lease = 45s;
  configure("orders", patient);
  enqueue("orders", key("a"), "a");
  enqueue("orders", key("b"), "b");

  EXPECT_EQ(lease_key("orders", "a").expires_at, now() + 45s);
  EXPECT_EQ(lease_key("orders", "b", 5s).expires_at, now() + 5s);
}

// The default is 30 s: short enough for a crash, long enough for a pause.
// Rules: S6
// Behaviours: lock_expires_after_timeout
TEST_P(StoreConformance, A_lease_is_over_at_its_end_and_not_before) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  EXPECT_EQ(lease.expires_at, now() + 30s);

  clock().advance(29'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// Waiting is built above the store; the store itself answers at once.
// Rules: S17
// Behaviours: short_poll_returns_immediately, short_poll_work_item_returns_immediately
TEST_P(StoreConformance, A_request_that_finds_nothing_gets_an_empty_answer_at_once) {
  configure("orders", QueueSettings{});

  EXPECT_THAT(try_lease({.queue = "orders"}).value(), IsEmpty());
  EXPECT_THAT(try_lease({.queue = "orders", .key = "cust-7"}).value(), IsEmpty());
  EXPECT_THAT(try_lease({.queue = "orders", .labels = {"gpu"}}).value(), IsEmpty());
}

// --- Renew ---

// Long work keeps its lane by saying so.
// Rules: S5 S6
// Behaviours: worker_lock_renewal_success, worker_lock_renewal_extends_timeout,
//             renew_returns_running_when_orchestration_active
TEST_P(StoreConformance, A_renewed_lease_runs_from_now) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(20s);

  EXPECT_EQ(*renew(lease, 30s), now() + 30s);

  clock().advance(29'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_TRUE(ack(lease));
}

// A worker that knows it will be done soon gives its lane back sooner if it dies.
// Rules: S6
TEST_P(StoreConformance, A_renewal_may_shorten_a_lease) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 1h);

  EXPECT_EQ(*renew(lease, 5s), now() + 5s);

  clock().advance(5s);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
}

// One heartbeat for many lanes: a lost one must not take the others with it.
// Rules: S5
TEST_P(StoreConformance, Each_of_several_renewals_has_its_own_result) {
  for (const char* lane : {"a", "b", "c"})
    enqueue("orders", key(lane), lane);
  const std::vector<Lease> leases = lease_all("orders", 30s);
  ASSERT_TRUE(ack(leases.at(1)));

  const std::vector<Result<Time>> ends =
      store().renew(std::array{leases[0].token, leases[1].token, Token{}, leases[2].token}, 1min);

  ASSERT_THAT(ends, SizeIs(4));
  EXPECT_EQ(*Answer(ends[0]), now() + 1min);
  EXPECT_EQ(Answer(ends[1]).error().code, Errc::lease_lost);
  EXPECT_EQ(Answer(ends[2]).error().code, Errc::invalid_token);
  EXPECT_EQ(*Answer(ends[3]), now() + 1min);
}

// Settling is not a heartbeat: only renew moves the end.
// Rules: S4 S6
// Behaviours: lock_renewal_on_ack
TEST_P(StoreConformance, Keeping_a_lease_does_not_make_it_longer) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders", 30s);
  clock().advance(20s);
  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}, Then::keep));
  std::ignore = pull(lease).value();

  clock().advance(10s);

  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// --- Request ids ---

// A reply lost on the network must not cost a lease length of waiting, nor a delivery.
// Rules: S5
TEST_P(StoreConformance, The_same_request_again_returns_the_same_leases) {
  enqueue_all("orders", key("a"), {"a1", "a2"});
  enqueue("orders", key("b"), "b");
  enqueue("orders", unkeyed, "c");
  const LeaseRequest request{
      .queue = "orders", .request = RequestId{.client = 7, .number = 1}, .lanes = 10};
  const std::vector<Lease> first = lease(request);
  ASSERT_THAT(first, SizeIs(3));
  clock().advance(5s);

  EXPECT_THAT(lease(request), ::testing::UnorderedElementsAreArray(first));
  EXPECT_EQ(peek_one("orders", "a1").deliveries, 1U);
}

// What arrived since is for the next request: this one has its answer.
// Rules: S5
TEST_P(StoreConformance, The_same_request_again_leases_nothing_new) {
  enqueue("orders", key("a"), "a");
  const LeaseRequest request{
      .queue = "orders", .request = RequestId{.client = 7, .number = 1}, .lanes = 10};
  const std::vector<Lease> first = lease(request);
  enqueue("orders", key("b"), "b");

  EXPECT_EQ(lease(request), first);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// A repeat says what is still held, not what once was.
// Rules: S5
TEST_P(StoreConformance, A_repeated_request_leaves_out_what_was_settled) {
  enqueue_all("orders", key("a"), {"a1", "a2"});
  enqueue("orders", key("b"), "b");
  const LeaseRequest request{
      .queue = "orders", .request = RequestId{.client = 7, .number = 1}, .lanes = 10};
  const std::vector<Lease> first = lease(request);
  ASSERT_TRUE(settle(first.at(0), {acked(id_of(first.at(0), "a1"))}, Then::keep));
  ASSERT_TRUE(ack(first.at(1)));

  EXPECT_EQ(bodies(lease(request)), Bodies{"a2"});
}

// A client that lost its memory must see what it pulled as well, or it would lose that.
// Rules: S5
TEST_P(StoreConformance, A_repeated_request_shows_what_was_pulled) {
  enqueue("orders", key("a"), "a1");
  const LeaseRequest request{.queue = "orders", .request = RequestId{.client = 7, .number = 1}};
  const Lease first = lease(request).at(0);
  enqueue("orders", key("a"), "a2");
  ASSERT_EQ(bodies(*pull(first)), Bodies{"a2"});

  EXPECT_EQ(bodies(lease(request)), (Bodies{"a1", "a2"}));
}

// A request whose work is done must not grab new work: its client does not wait for an answer.
// Rules: S5
TEST_P(StoreConformance, A_request_whose_leases_have_ended_never_leases_anew) {
  enqueue("orders", key("a"), "a");
  const LeaseRequest request{.queue = "orders", .request = RequestId{.client = 7, .number = 1}};
  ASSERT_TRUE(release(lease(request).at(0)));

  EXPECT_THAT(lease(request), IsEmpty());
  clock().advance(5min - 1ms);
  EXPECT_THAT(lease(request), IsEmpty());
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// Expiry ends a lease like anything else.
// Rules: S5 S6
TEST_P(StoreConformance, A_repeated_request_does_not_revive_an_expired_lease) {
  enqueue("orders", key("a"), "a");
  const LeaseRequest request{
      .queue = "orders", .request = RequestId{.client = 7, .number = 1}, .lease = 30s};
  ASSERT_THAT(lease(request), SizeIs(1));
  clock().advance(30s);

  EXPECT_THAT(lease(request), IsEmpty());
  EXPECT_EQ(stats("orders").leases, 0U);
}

// A long lease is remembered as long as it lives, not for the window only.
// Rules: S5
TEST_P(StoreConformance, A_request_is_remembered_as_long_as_its_leases_live) {
  enqueue("orders", key("a"), "a");
  const LeaseRequest request{
      .queue = "orders", .request = RequestId{.client = 7, .number = 1}, .lease = 1h};
  const std::vector<Lease> first = lease(request);
  enqueue("orders", key("b"), "b");

  clock().advance(59min);

  EXPECT_EQ(lease(request), first);
}

// A client that found nothing may ask again with the same id: there is nothing to repeat.
// Rules: S5
TEST_P(StoreConformance, A_request_that_leased_nothing_is_not_remembered) {
  configure("orders", QueueSettings{});
  const LeaseRequest request{.queue = "orders", .request = RequestId{.client = 7, .number = 1}};
  ASSERT_THAT(lease(request), IsEmpty());
  enqueue("orders", key("a"), "a");

  EXPECT_EQ(bodies(lease(request)), Bodies{"a"});
}

// Two clients count from one; neither may be given the other's work.
// Rules: S5
TEST_P(StoreConformance, Requests_of_other_clients_and_numbers_are_other_requests) {
  for (const char* lane : {"a", "b", "c"})
    enqueue("orders", key(lane), lane);
  const auto ask = [this](std::uint64_t client, std::uint64_t number) {
    return bodies(
        lease({.queue = "orders", .request = RequestId{.client = client, .number = number}}));
  };

  EXPECT_EQ(ask(7, 1), Bodies{"a"});
  EXPECT_EQ(ask(7, 2), Bodies{"b"});
  EXPECT_EQ(ask(8, 1), Bodies{"c"});
  EXPECT_EQ(ask(7, 1), Bodies{"a"});
}

// --- Over a restart ---

// A restart of the store must not make its workers lose or repeat what they are doing.
// Rules: S5 S22
TEST_P(StoreConformance, A_lease_survives_a_reopen) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders", 1min);

  reopen();

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(stats("orders").leased, 2U);
  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}, Then::keep));
  enqueue("orders", key("cust-7"), "c");
  EXPECT_EQ(bodies(*pull(lease)), Bodies{"c"});
  EXPECT_EQ(*renew(lease, 2min), now() + 2min);
}

// A client cannot renew while the store is away; it gets time to come back.
// Rules: S22
TEST_P(StoreConformance, A_lease_is_good_for_10_seconds_after_a_reopen) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(29s);

  reopen();

  clock().advance(9'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
}

// Time that passed while the store was closed is not the client's fault.
// Rules: S17 S22
TEST_P(StoreConformance, A_lease_that_ran_out_while_the_store_was_closed_has_its_grace) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);

  close();
  clock().advance(1h);
  reopen();

  clock().advance(9'999ms);
  EXPECT_TRUE(ack(lease));
}

// Grace is a floor, not an extension.
// Rules: S22
TEST_P(StoreConformance, A_long_lease_is_not_made_longer_by_a_reopen) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(1s);

  reopen();

  clock().advance(28'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
}

// A store that restarts every few seconds must not keep a dead worker's lane for ever.
// Rules: S22
TEST_P(StoreConformance, Grace_is_granted_once_a_lease) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(29s);
  reopen();  // its end is now 10 s away
  clock().advance(6s);
  reopen();  // and now 4 s, not 10 s again

  clock().advance(3'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
}

// A message seen through a lease that did not survive must not be handed to two.
// Rules: S2 S5 S22
TEST_P(StoreConformance, An_ended_lease_stays_ended_after_a_reopen) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease ended = lease({.queue = "orders", .messages = 1}).at(0);
  ASSERT_TRUE(ack(ended));

  reopen();

  EXPECT_EQ(ack(ended).error().code, Errc::lease_lost);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

}  // namespace strand::conformance
