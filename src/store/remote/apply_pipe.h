#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include <strand/store.h>

#include "store/remote/connection.h"

namespace strand::remote {

// Transactions of all threads on one stream.
//
// What is applied while a request has no answer yet gathers, and goes out as the next one: so a
// crowd of threads costs a few requests, and a lone one does not wait. When the connection breaks,
// all requests without an answer are sent again on the next one, in order. Each transaction has an
// id, so that none is done twice.
//
// Threads: every method may be called concurrently; callers wait for their own answers, and the one
//          that finds the stream broken opens the next.
// Failure: after the patience of the connection, `unknown_outcome`; or `unavailable` for what never
//          left. What was given up is not sent again.
class ApplyPipe {
 public:
  explicit ApplyPipe(Connection& connection);
  // No call may be running.
  ~ApplyPipe();
  ApplyPipe(const ApplyPipe&) = delete;
  ApplyPipe& operator=(const ApplyPipe&) = delete;

  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions);

 private:
  class Stream;
  struct Job;
  // One request: the transactions of one or more jobs.
  struct Request;

  struct Numbers {
    std::uint64_t next = 1;
    std::set<std::uint64_t> unanswered;
  };

  TransactionId new_id(Time now);
  Result<v1::Transaction> wire_form(const Transaction& transaction);
  void run(const std::shared_ptr<Job>& job);
  void answered(const v1::ApplyResponse& response);
  // These need the lock.
  [[nodiscard]] bool may_send_more() const;
  void send_next();
  void open_stream();
  void begin_again();
  void give_up(Job& job);
  void forget_given_up();
  void fail_all(const Error& error, bool answered_others);
  static bool is_awaited(const Request& request);
  static bool says_answered(const Job& job, const v1::TransactionId& id);
  static void doubt(Result<Receipt>& result, bool our_id);

  Connection& connection_;
  std::uint64_t client_ = 0;

  std::mutex mutex_;  // for everything below
  Numbers numbers_;
  std::deque<std::shared_ptr<Job>> gathered_;                   // to be sent
  std::map<std::uint64_t, std::unique_ptr<Request>> requests_;  // by sequence; without an answer
  std::deque<std::uint64_t> unsent_;  // of those: to be sent on this stream
  std::uint64_t last_sequence_ = 0;
  std::unique_ptr<Stream> stream_;
  bool writing_ = false;
  Steady::time_point reopen_at_{};
  Duration pause_{0};
  std::condition_variable ended_;  // a stream is over
};

}  // namespace strand::remote
