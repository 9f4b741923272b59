#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <strand/store.h>

#include "store/engine/backend.h"
#include "store/engine/engine.h"

namespace strand::local {

// The way from a decision of the engine to a durable one, without threads: LocalStore drives it
// under its lock, the simulator drives it under virtual time.
//
// Use: call the engine; note gathering(); when nothing is in flight, take() a batch, write it to
// the backend (outside the lock), and hand the result to complete(). An answer may be shown when
// outcome(noted number) is a success. While a batch is in flight, the next gathers.
//
// When a write fails, complete() throws the engine away, reopens the backend, reads it again and
// finds out by the persisted commit number whether the batch was applied (S21). Batches gathered
// behind it are failed. If the backend cannot be read, the pipeline is broken until recover()
// succeeds.
//
// Threads: none; the owner serialises all calls. The backend's write() may run meanwhile.
class Pipeline {
 public:
  // `backend` must outlive the pipeline. `identity` is used if the store is new.
  Pipeline(engine::Backend& backend, const Limits& limits, const engine::Identity& identity);

  // Reads the store. Called once, before anything else. `wall` is the wall clock.
  Result<void> open(Time wall);

  // The engine of now; replaced by a failed write. Must not be called while broken().
  engine::Engine& engine() { return *engine_; }

  // Whether a transaction that needs_all_written() may be applied: nothing gathered, nothing in
  // flight.
  [[nodiscard]] bool all_written() const;

  // The commit number that covers everything decided so far.
  [[nodiscard]] engine::CommitNumber decided() const;

  // What became of a commit number returned by decided(): nothing while it is not known; success;
  // `unavailable` (not applied) or `unknown_outcome`.
  [[nodiscard]] std::optional<Result<void>> outcome(engine::CommitNumber commit) const;

  [[nodiscard]] bool in_flight() const { return in_flight_.has_value(); }
  [[nodiscard]] bool can_take() const;
  // Starts the next batch. Valid, and not to be changed, until complete(). It may have no
  // mutations (only wakes): then there is nothing to write, and complete() takes a success.
  const engine::Decisions& take();

  // The batch in flight was written, or not. `now` is the time for a rebuilt engine.
  // Returns whom to wake; after a rebuild `everyone` is set.
  struct Woken {
    engine::Wakes wakes;
    bool everyone = false;
  };
  Woken complete(const Result<void>& written, Time now);

  [[nodiscard]] bool broken() const { return broken_.has_value(); }
  // Tries again to read the store. Everyone is to be woken after a success.
  Result<void> recover(Time now);

  // How often the engine was rebuilt after a failed write.
  [[nodiscard]] std::uint64_t rebuilds() const { return rebuilds_; }

 private:
  Result<std::unique_ptr<engine::Engine>> load(Time now, engine::CommitNumber commit_after,
                                               engine::Loading why);
  // Throws the engine away and reads the store again; sets broken_ if that fails.
  Result<void> rebuild(Time now);
  void fail(engine::CommitNumber commit, Error error);

  engine::Backend& backend_;
  Limits limits_;
  engine::Identity identity_;
  std::unique_ptr<engine::Engine> engine_;  // none before open(), and while broken
  std::optional<engine::Decisions> in_flight_;
  // The last batch taken, and the last one with an outcome; both start anew, above all numbers that
  // were ever given out, when the engine is rebuilt.
  engine::CommitNumber taken_ = 0;
  engine::CommitNumber written_ = 0;
  // Outcomes that are no success. The oldest are forgotten: commits up to forgotten_ read as
  // unknown.
  std::map<engine::CommitNumber, Error> failed_;
  engine::CommitNumber forgotten_ = 0;
  std::optional<Error> broken_;
  std::uint64_t rebuilds_ = 0;
};

}  // namespace strand::local
