#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "sim/plan.h"
#include "sim/random.h"
#include "sim/world.h"

namespace strand::sim {

// What clients have heard of, from their own answers and from each other: so that requests often
// fit, and sometimes are out of date.
struct Gossip {
  std::map<std::pair<std::string, std::string>, Version> records;
  std::map<std::pair<std::string, std::string>, Execution> executions;
  std::map<std::string, std::vector<MessageId>> dead;
  std::vector<std::pair<std::string, MessageId>> unkeyed;  // leased ones; some are parked later
  std::vector<Token> tokens;
  std::uint64_t bodies = 0;
};

// One client: does one thing at a time, waits for the answer or loses patience, and goes on. Roles
// differ only in how often they do what.
class Client {
 public:
  Client(World& world, Gossip& gossip, std::uint64_t number, Role role);

  // Starts to act; stop() lets it finish what it waits for, and do nothing more.
  void start();
  void stop() { stopped_ = true; }

 private:
  // A lease as its holder knows it.
  struct Held {
    Lease lease;
    std::vector<MessageId> left;  // not settled
    std::optional<Cursor> cursor_before;
  };

  void wake();
  void act();
  void think();
  Action draw_action();

  // --- Actions (client.cc, consuming.cc, mischief.cc) ---

  void send();
  void publish();
  void cancel();
  void write_record();
  void lease();
  void lease_key();
  void seize();
  void pull();
  void renew();
  void settle();
  void turn();
  void repeat();
  void administer();
  void read();
  void mischief();
  void bad_transaction();
  void bad_token();
  void bad_id();
  void bad_settle();
  void bad_request();

  // Gives the transaction an id and a durability, applies it, remembers it for repeats.
  void submit(Transaction transaction, const World::Reply<Receipt>& reply = {});
  void ask(const LeaseRequest& request);
  void got_leases(const std::vector<Lease>& leases);
  void got_receipt(const Transaction& transaction, const Result<Receipt>& result);
  void forget(const Token& token);
  Settle draw_settle(Held& held);
  Outcome draw_outcome(MessageId id);
  Held* draw_held(bool keyed);

  // --- Things to ask for (draw.cc) ---

  std::string draw_queue();
  std::string draw_key();
  std::string draw_label();
  std::string draw_topic();
  std::string draw_pattern();
  std::string draw_body();
  Duration draw_wait();
  Content draw_content();
  Send draw_send();
  Publish draw_publish();
  WriteRecord draw_record();
  LeaseRequest draw_request();
  Administration draw_administration();
  std::vector<MessageId> draw_dead(const std::string& queue);

  // Runs `done` with the answer, even if the client has lost patience by then: it may still learn.
  template <class T, class Done>
  World::Reply<T> waiting(Done done) {
    waits_ = true;
    patience_ = random_.below(6) + 1;
    const std::uint64_t call = ++call_;
    return [this, call, done = std::move(done)](const Result<T>& result) {
      if (call == call_) waits_ = false;
      done(result);
    };
  }

  World& world_;
  Gossip& gossip_;
  std::uint64_t number_;
  Role role_;
  Random random_;
  bool stopped_ = false;

  std::uint64_t call_ = 0;  // counts calls, so that a late answer is known as one
  bool waits_ = false;
  std::uint64_t patience_ = 0;

  std::vector<Held> held_;
  std::uint64_t next_transaction_ = 1;
  std::uint64_t next_request_ = 1;
  std::map<std::uint64_t, Transaction> unanswered_;
  std::optional<Transaction> last_transaction_;
  std::optional<LeaseRequest> last_request_;
};

}  // namespace strand::sim
