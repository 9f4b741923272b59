#include "scenes.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

// Scenes 2 to 5, on lanes of a small shop.

namespace demo {

using namespace std::chrono_literals;
using strand::Errc;
using strand::Lease;
using strand::Outcome;
using strand::Store;
using strand::Transaction;

void a_stalled_worker(Stage& stage) {
  std::cout << "\n2. A stalled worker is fenced off\n";
  Store& store = stage.store();
  send(store, {message("orders", "alice", "pay"), message("orders", "alice", "pack")});
  const Lease slow = lease(store, "orders", "alice");
  say("A leases alice for 30 s: " + bodies(slow) + " (" + epoch(slow) + ")");
  send(store, {message("orders", "alice", "ship")});
  claim(!ready(store, "orders", "alice"), "'ship' arrives, and waits: A has the lane");

  stage.let_pass(31s);
  say("31 s pass, and nothing is heard of A");
  const Lease fast = lease(store, "orders", "alice");
  say("B leases alice: " + bodies(fast) + " (" + epoch(fast) + ")");
  claim(fast.token.epoch() > slow.token.epoch(), "every lease has a higher epoch than all before");
  claim(bodies(fast) == "pay", "what A may have choked on comes alone, so it harms no other");

  const auto late = ack(store, slow);
  claim(!late && late.error().code == Errc::lease_lost, "A wakes up and acks: lease_lost");
  need(ack(store, fast));
  const Lease rest = lease(store, "orders", "alice");
  claim(bodies(rest) == "pack, ship", "B acks, and the rest follows in order: pack, ship");
  need(ack(store, rest));
}

void a_message_that_fails(Stage& stage) {
  std::cout << "\n3. Retry, backoff, dead letter, redrive\n";
  Store& store = stage.store();
  strand::QueueSettings settings;
  settings.max_attempts = 2;
  settings.backoff = {1min};
  administer(store, strand::ConfigureQueue{.queue = "parcels", .settings = settings});

  send(store, {message("parcels", "parcel-9", "print"), message("parcels", "parcel-9", "post")});
  const auto fail = [&](const std::string& reason) {
    const Lease lease = demo::lease(store, "parcels", "parcel-9");
    Transaction transaction;  // names the first message alone: the other one is given back
    transaction.settles = {settle(lease.token, {lease.messages[0]}, Outcome::Kind::retry, reason)};
    need(store.apply(transaction));
    say("'" + lease.messages[0].body + "' fails: " + reason);
  };
  fail("printer is offline");
  claim(!ready(store, "parcels", "parcel-9"), "'post' waits behind it for the backoff of 1 min");
  stage.let_pass(1min);
  fail("printer is on fire");

  strand::DeadLettersQuery query;
  query.queue = "parcels";
  const auto dead = need(store.dead_letters(query)).items;
  claim(dead.size() == 1 && dead[0].failures.size() == 2,
        "two attempts were allowed: it is a dead letter now, with both reasons");
  administer(store, strand::Redrive{.queue = "parcels", .ids = {dead[0].id}, .to = std::nullopt});
  const Lease again = lease(store, "parcels", "parcel-9");
  claim(bodies(again) == "print, post", "redriven, it is back in its place: print, post");
  need(ack(store, again));
}

void one_transaction(Stage& stage) {
  std::cout << "\n4. One transaction: ack, send and write a record\n";
  Store& store = stage.store();
  // Finishes a step: its message is gone, the next one is sent, and the status is on record.
  const auto finish = [&](const Lease& lease, const std::string& status) {
    Transaction transaction;
    transaction.settles = {settle(lease.token, lease.messages, Outcome::Kind::ack)};
    transaction.sends = {message("shipping", *lease.key, "ship")};
    transaction.records = {
        {.space = "status", .key = *lease.key, .value = status, .expected = std::nullopt}};
    return store.apply(transaction);
  };
  const auto status = [&] { return need(store.record("status", "bob")).value().value; };

  send(store, {message("orders", "bob", "pay")});
  need(finish(lease(store, "orders", "bob"), "paid"));
  claim(ready(store, "shipping", "bob") && status() == "paid",
        "'pay' is acked, 'ship' is sent, the record says paid: all of it");

  send(store, {message("orders", "bob", "pay again")});
  const Lease lost = lease(store, "orders", "bob");
  stage.let_pass(31s);
  const auto late = finish(lost, "paid twice");
  claim(!late && late.error().code == Errc::lease_lost, "the same with a lost lease: lease_lost");
  const auto stats = need(store.stats("shipping"));
  claim(stats.accepted == 1 && status() == "paid", "nothing sent, nothing written: none of it");
  need(ack(store, lease(store, "orders", "bob")));
}

void close_and_open(Stage& stage) {
  std::cout << "\n5. Closed with work in it, and opened again\n";
  strand::Send reminder = message("orders", "carol", "remind");
  reminder.delay = 1h;
  send(stage.store(), {message("orders", "carol", "pay"), reminder});
  const Lease held = lease(stage.store(), "orders", "carol");
  send(stage.store(), {message("orders", "carol", "pack")});
  const auto before = need(stage.store().stats("orders"));
  say("carol: 'pay' is leased, 'pack' waits behind it, 'remind' is due in an hour");

  stage.close();
  stage.let_pass(1min);
  stage.open();
  say("the store is closed, a minute passes, and it is opened again by its name");
  const auto after = need(stage.store().stats("orders"));
  claim(after == before, "every message is where it was");
  claim(ack(stage.store(), held).has_value(), "the holder's token is still good: it has 10 s more");
  const Lease next = lease(stage.store(), "orders", "carol");
  claim(bodies(next) == "pack", "the lane goes on with 'pack'");
  need(ack(stage.store(), next));
}

namespace {

constexpr int steps = 500;

}  // namespace

void send_lease_and_die(strand::Store& store) {
  for (int i = 1; i <= steps; ++i)
    send(store, {message("orders", "dave", "step " + std::to_string(i))});
  static_cast<void>(lease(store, "orders", "dave"));
  ::kill(::getpid(), SIGKILL);
}

void a_killed_process(Stage& stage, OtherProcess& other) {
  std::cout << "\n6. A process that is killed with work in its hands\n" << std::flush;
  stage.close();
  const int status = other.play(stage.url(), stage.time());
  claim(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
        "another process sends 500 steps, leases them, and dies of kill -9");
  stage.open();
  claim(!ready(stage.store(), "orders", "dave"), "its lease outlives it: nobody else may act yet");
  stage.let_pass(1min);
  const Lease next = lease(stage.store(), "orders", "dave");
  claim(bodies(next) == "step 1", "when it has run out, 'step 1' comes first, and alone");
  need(ack(stage.store(), next));
  const Lease rest = lease(stage.store(), "orders", "dave");
  claim(rest.messages.size() == steps - 1 && rest.messages.back().body == "step 500",
        "then all the others, in order: nothing confirmed was lost");
  need(ack(stage.store(), rest));
}

void nothing_is_lost(Stage& stage) {
  std::cout << "\nThe books\n";
  for (const strand::QueueInfo& queue : need(stage.store().queues())) {
    const auto stats = need(stage.store().stats(queue.name));
    const std::uint64_t ended =
        stats.acked + stats.expired + stats.dropped + stats.moved + stats.purged + stats.dead;
    claim(stats.accepted == ended + stats.live(),
          queue.name + ": " + std::to_string(stats.accepted) + " accepted = " +
              std::to_string(stats.acked) + " acked + " + std::to_string(stats.live()) + " live");
  }
}

}  // namespace demo
