#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <strand/store.h>

#include "differential/lockstep.h"
#include "differential/plan.h"
#include "sim/random.h"

namespace strand::differential {

// A lease as its holder knows it, in the words of the reference.
struct Held {
  Token token;
  std::string queue;
  std::optional<std::string> key;
  std::vector<MessageId> left;  // not settled
  Cursor cursor{};
  std::vector<Cursor> old_cursors;  // latest last
};

// More than an engine trims event by event.
inline constexpr std::size_t many_events = 300;

// What the history has seen so far: requests are made of it, so that most of them fit, and some are
// out of date. Everything is in the words of the reference.
struct Known {
  std::vector<Held> held;
  std::vector<Token> ended;               // leases that are over, as far as their holder knows
  std::vector<Transaction> transactions;  // those with an id, to be repeated
  std::vector<LeaseRequest> requests;     // those with an id, to be repeated
  std::vector<Version> versions;          // of records, current or not
  std::set<Time> times;                   // when something is due
};

// Does the steps of a plan on two stores.
class Workload {
 public:
  Workload(const Plan& plan, Lockstep& stores);

  void run(std::size_t number, const Step& step);
  // Reads all there is.
  void survey();
  // Lets time pass and takes all messages out, until nothing is left.
  void drain();

 private:
  // --- Producing (producing.cc) ---

  void send();
  void publish();
  void cancel();
  void write_record();
  void several();
  void repeat();
  // Gives the transactions ids and durabilities, applies them, and learns from the receipts.
  std::vector<Result<Receipt>> submit(std::vector<Transaction> transactions);
  Result<Receipt> submit(const Transaction& transaction);
  void learn(const Transaction& transaction, const Result<Receipt>& result);
  // Those of settings that are drawn, which may name queues as well; a plan uses the first ones.
  static const std::vector<std::string>& queue_names();
  std::string draw_queue();
  std::string draw_key();
  std::string draw_label();
  std::string draw_topic();
  std::string draw_pattern();
  std::string draw_message_name();
  std::string draw_body();
  Duration draw_wait();
  void draw_content(Content& content);
  Send draw_send();
  Publish draw_publish();
  WriteRecord draw_record();
  TransactionId draw_transaction_id();
  // Sometimes: a cancel, a publication, a record beside whatever the transaction is about.
  void mix_in(Transaction& transaction);

  // --- Consuming (consuming.cc) ---

  void lease();
  void lease_key();
  void seize();
  void repeat_request();
  void pull();
  void renew();
  void settle();
  void turn();
  void ask(const LeaseRequest& request);
  LeaseRequest draw_request();
  std::size_t draw_bytes(const std::string& queue, std::size_t otherwise);
  Held* draw_held(bool keyed);
  Settle draw_settle(const Held& held);
  Outcome draw_outcome(MessageId id);
  TrimHistory draw_trim(const Token& token, std::uint64_t execution, std::uint64_t length);
  Transaction draw_settling();
  void settled(const Settle& settle);
  void forget(const Token& token);
  void take_note(const Message& message);

  // --- Administration and time (administering.cc) ---

  void configure();
  void administer();
  void redrive();
  void drop_dead();
  void resume_lane();
  void subscribe();
  void configure_topic();
  void advance();
  QueueSettings draw_queue_settings();
  std::vector<MessageId> some_dead(const std::string& queue);
  Result<Receipt> administer(Administration administration);

  // --- Reading (reading.cc) ---

  void read();
  void read_messages(const std::string& queue);
  void read_instances(const std::string& queue);
  void read_records();
  void survey_queue(const std::string& queue);
  void survey_instances(const std::string& queue);
  void count_ends();
  void resume_all(const std::string& queue);
  bool take_all(const std::string& queue);

  // --- Flaws (flaws.cc): one flaw a request, so that there is one reason to refuse it ---

  void flaw();
  void bad_send();
  void bad_settle();
  void bad_id();
  void bad_token();
  void bad_request();
  void bad_administration();
  void bad_read();
  Token draw_bad_token();

  void count(const std::string& what) { ++stores_.coverage()[what]; }

  const Plan& plan_;
  Lockstep& stores_;
  Known known_;
  sim::Random random_{0};  // of the current step
  std::size_t step_ = 0;
  std::uint64_t next_body_ = 0;  // of the current step
  std::uint64_t next_transaction_ = 1;
  std::uint64_t next_request_ = 1;
};

}  // namespace strand::differential
