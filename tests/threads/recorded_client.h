#pragma once

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "model/recorder.h"

namespace strand {

// One thread's way to a store: every call and its answer go into a log of the thread's own.
class RecordedClient {
 public:
  RecordedClient(Store& store, model::Recorder& recorder) : store_(store), log_(recorder.log()) {}

  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) {
    model::Call call = begin();
    std::vector<Result<Receipt>> answers = store_.apply(transactions);
    end(call);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      log_.add(model::Recorder::Applied{
          .call = call, .transaction = transactions[i], .answer = answers[i]});
    }
    return answers;
  }
  Result<Receipt> apply(const Transaction& transaction) {
    return std::move(apply(std::span(&transaction, 1)).front());
  }

  Result<std::vector<Lease>> lease(const LeaseRequest& request) {
    model::Call call = begin();
    Result<std::vector<Lease>> leases = store_.lease(request);
    end(call);
    if (leases) {
      for (const Lease& lease : *leases) {
        log_.add(model::Recorder::Leased{.call = call, .lease = lease});
      }
    }
    return leases;
  }

  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) {
    model::Call call = begin();
    Result<Pulled> pulled = store_.pull(token, cursor, limits);
    end(call);
    if (pulled) {
      log_.add(
          model::Recorder::PulledMore{.call = call, .token = token, .messages = pulled->messages});
    }
    return pulled;
  }

  Result<Time> renew(const Token& token, Duration lease) {
    model::Call call = begin();
    Result<Time> expires_at = std::move(store_.renew(std::span(&token, 1), lease).front());
    end(call);
    if (expires_at) {
      log_.add(model::Recorder::Renewed{.call = call, .token = token, .expires_at = *expires_at});
    }
    return expires_at;
  }

  Result<QueueStats> stats(const std::string& queue) {
    model::Call call = begin();
    Result<QueueStats> stats = store_.stats(queue);
    end(call);
    if (stats) {
      log_.add(model::Recorder::Counted{.call = call, .queue = queue, .stats = *stats});
    }
    return stats;
  }

  Store& store() { return store_; }

 private:
  static model::Call begin() {
    model::Call call;
    call.begin = std::chrono::steady_clock::now();
    return call;
  }
  void end(model::Call& call) {
    call.end = std::chrono::steady_clock::now();
    call.store_time = store_.now();
  }

  Store& store_;
  model::Recorder::Log& log_;
};

// What a queue holds now; for the end, when nobody changes it any more.
inline model::Remains remains_of(Store& store, const std::string& queue) {
  model::Remains remains{.queue = queue, .stats = store.stats(queue).value()};
  DeadLettersQuery dead{.queue = queue, .limit = 1000};
  for (bool more = true; more;
       dead.after = remains.dead.empty() ? dead.after : remains.dead.back().id) {
    auto page = store.dead_letters(dead).value();
    more = page.more;
    remains.dead.insert(remains.dead.end(), page.items.begin(), page.items.end());
  }
  PeekQuery left{.queue = queue, .limit = 1000};
  for (bool more = true; more;
       left.after = remains.left.empty() ? left.after : remains.left.back().id) {
    auto page = store.peek(left).value();
    more = page.more;
    remains.left.insert(remains.left.end(), page.items.begin(), page.items.end());
  }
  return remains;
}

}  // namespace strand
