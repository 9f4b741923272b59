#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/strand.h>

namespace strand::faults {

// What clients were told, in the order of commits, and so what a store must show: all facts up to
// the last one that was synced, and of those behind it the first few, without a hole.
class Ledger {
 public:
  // One fact: what stands at a place ("message 7", "record a") from now on; "" for nothing.
  struct Fact {
    std::string place;
    std::string value;
  };
  // What a call will make true if it is applied; told before it is made.
  void intend(std::vector<Fact> facts) { intended_ = std::move(facts); }
  void confirmed(Durability durability);
  // It was not applied. (If that is not known, the next comparison finds out.)
  void refused() { intended_.clear(); }

  // An epoch or an id was shown: never again.
  void shown(std::string_view kind, std::uint64_t number);

  // Compares a store with it, and takes over what it shows. `lossy`: after power loss; else all
  // that was confirmed must be there, synced or not. What is wrong.
  std::vector<std::string> compare(Store& store, bool lossy);
  // Sends and leases once more: numbers must be new.
  std::vector<std::string> compare_numbers(Store& store);

 private:
  using State = std::map<std::string, std::string>;
  State read(Store& store, std::vector<std::string>& wrong) const;
  static void read_queue(Store& store, const std::string& queue, State& state,
                         std::vector<std::string>& wrong);
  static void read_dead(Store& store, const std::string& queue, State& state,
                        std::vector<std::string>& wrong);
  static void read_records(Store& store, State& state, std::vector<std::string>& wrong);
  static void read_histories(Store& store, State& state, std::vector<std::string>& wrong);

  State certain_;
  std::vector<std::vector<Fact>> tail_;  // confirmed, not synced
  std::vector<Fact> intended_;
  std::map<std::string, std::uint64_t> last_;  // of each kind of number
  std::vector<std::string> wrong_;
};

// A client that does a little of everything, as a seed says: sends with and without keys, some with
// large bodies, some unsynced; leases; acks; moves to another queue with a record; retries; dead
// letters; histories.
class Work {
 public:
  Work(std::uint64_t seed, bool heavy, std::shared_ptr<ManualClock> clock, Ledger& ledger);

  // One call. Its error, if it has one that the state of the store does not explain.
  Result<void> step(Store& store);
  // What was leased before is not known any more.
  void forget_leases() { held_.clear(); }

 private:
  Result<void> send(Store& store);
  Result<void> lease(Store& store);
  Result<void> settle(Store& store);
  Result<void> let_time_pass(Store& store);
  Result<void> commit(Store& store, Transaction& transaction, std::vector<Ledger::Fact> facts);
  void move_on(const Lease& lease, Transaction& transaction, std::vector<Ledger::Fact>& facts);
  void add_history(const Lease& lease, Transaction& transaction, std::vector<Ledger::Fact>& facts);
  Bytes body(std::uint64_t number);

  std::mt19937_64 random_;
  const bool heavy_;
  const std::shared_ptr<ManualClock> clock_;
  Ledger& ledger_;
  std::uint64_t last_number_ = 0;
  std::vector<Lease> held_;
};

// The first message of a body, and whether the rest of it is as it was made.
std::uint64_t number_in(std::string_view body);
bool intact(std::string_view body);

}  // namespace strand::faults
