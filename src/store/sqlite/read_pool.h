#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <strand/error.h>

#include "store/sqlite/connection.h"

namespace strand::sqlite {

// Connections for reading, each used by one thread at a time.
//
// A connection goes on with the state that it has seen for as long as nothing newer can have been
// committed: starting anew costs more than most reads do. No read shows less than one that ended
// before it did.
//
// Threads: every method may be called concurrently, clear() not beside a read.
class ReadPool {
 public:
  static constexpr std::size_t connections_max = 4;

  // Each connection may cache `cache_bytes`.
  ReadPool(Place place, std::size_t cache_bytes)
      : place_(std::move(place)), cache_bytes_(cache_bytes) {}

  // A connection inside a read transaction that shows at least all that was committed when it was
  // asked for.
  // Waits while all of them are in use. Given back when destroyed.
  class Reading {
   public:
    Reading(Reading&&) = default;
    Reading& operator=(Reading&&) = delete;
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading();
    Connection& operator*() const { return *held_->connection; }
    Connection* operator->() const { return &**this; }
    // The connection met an error: it is closed instead of given back.
    void discard() { held_->connection.reset(); }

   private:
    friend class ReadPool;
    struct Held {
      std::optional<Connection> connection;
      bool in_transaction = false;
      std::uint64_t commits = 0;  // what the transaction shows at least, as `commits_` counts
    };
    Reading(ReadPool& pool, std::unique_ptr<Held> held) : pool_(&pool), held_(std::move(held)) {}
    ReadPool* pool_;
    std::unique_ptr<Held> held_;
  };
  Result<Reading> read();

  // Around each commit, whatever becomes of it. In between, some reads show it and some do not: all
  // that begin then start anew, lest one that shows it be followed by one that does not.
  void commit_begins() { commits_.fetch_add(1); }
  void commit_ends() { commits_.fetch_add(1); }
  // Lets go of old states that nobody reads, which keep the log from starting over.
  void forget_states();
  void clear();

 private:
  using Held = Reading::Held;
  Result<void> prepare(Held& held);
  void give_back(std::unique_ptr<Held> held);

  const Place place_;
  const std::size_t cache_bytes_;
  std::atomic<std::uint64_t> commits_ = 0;  // begun and ended: odd while there is one
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Held>> idle_;
  std::size_t in_use_ = 0;
};

}  // namespace strand::sqlite
