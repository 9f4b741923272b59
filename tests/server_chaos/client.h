#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <strand/store.h>

#include "server_chaos/record.h"

namespace strand::server_chaos {

// What a client makes of a connection that is lost.
enum class Manner : std::uint8_t {
  trusting,   // leaves ids and repeats to RemoteStore, which must bring every answer in the end
  repeating,  // gives everything an id of its own, and repeats it until it is answered
  doubting,   // has no ids and little patience, and must live with unknown outcomes
};

// One thread's way to a served store, which writes down what it asked for and was told.
//
// Failure: an answer that its manner does not allow goes into the record as wrong; what the caller
//          gets then is nothing.
class Client {
 public:
  // `confirmed` counts what was confirmed to all clients. `client` is no other client's number.
  Client(Store& store, std::string name, Manner manner, std::uint64_t client,
         std::atomic<std::uint64_t>& confirmed);

  [[nodiscard]] Manner manner() const { return manner_; }
  [[nodiscard]] const std::string& name() const { return record_.client; }
  // From now on by this handle, for a client that has closed the one before.
  void use(Store& store) { store_ = &store; }

  // In order, in one call. True if all were applied.
  bool apply(std::vector<Transaction> transactions);
  bool apply(Transaction transaction);
  std::vector<Lease> lease(LeaseRequest request);
  std::optional<Pulled> pull(const Lease& lease, PullLimits limits);
  void renew(const Lease& lease, Duration length);
  // None: not to be had now.
  std::optional<QueueStats> stats(const std::string& queue);
  // Waits until the queue may have something, or for so long.
  void wait(const std::string& queue, Duration at_most);

  // When the thread has ended.
  ClientRecord take_record() { return std::move(record_); }

 private:
  using Stamp = std::chrono::steady_clock::time_point;
  using Results = std::vector<Result<Receipt>>;

  // None: not answered, and not to be repeated.
  template <class Ask>
  auto ask(const char* what, const Ask& ask);
  bool may_repeat(const char* what, Stamp begin, const Error& error);
  void complain(const char* what, const Error& error);
  void give_ids(std::vector<Transaction>& transactions);
  void note(const model::Call& call, const Transaction& transaction, const Result<Receipt>& result);
  void note_together(std::span<const Result<Receipt>> results);
  [[nodiscard]] static model::Call call_since(Stamp begin);

  Store* store_;
  const Manner manner_;
  const std::uint64_t client_;
  std::atomic<std::uint64_t>& confirmed_;
  ClientRecord record_;
  std::uint64_t requests_ = 0;
  std::uint64_t numbers_ = 0;
};

}  // namespace strand::server_chaos
