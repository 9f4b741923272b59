#pragma once

#include "stage.h"

// The scenes, in the order in which they are played. Each has lanes of its own.

namespace demo {

// Workers in parallel: each key in order, and never in two hands.
void many_workers(Stage& stage);
// A lease that runs out: another takes over, and the first cannot do harm any more.
void a_stalled_worker(Stage& stage);
// Retry, backoff, dead letter, redrive.
void a_message_that_fails(Stage& stage);
// Ack, send and record, all or nothing.
void one_transaction(Stage& stage);
// A store that is closed with work in it.
void close_and_open(Stage& stage);
// The books of every queue balance.
// What the other process does in the scene after it.
void send_lease_and_die(strand::Store& store);
void a_killed_process(Stage& stage, OtherProcess& other);
void nothing_is_lost(Stage& stage);

}  // namespace demo
