#include "store/sqlite/read_pool.h"

#include <utility>

#include <fmt/format.h>

namespace strand::sqlite {

ReadPool::Reading::~Reading() {
  if (held_) pool_->give_back(std::move(held_));
}

Result<ReadPool::Reading> ReadPool::read() {
  std::unique_ptr<Held> held;
  {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return !idle_.empty() || in_use_ < connections_max; });
    if (!idle_.empty()) {
      held = std::move(idle_.back());
      idle_.pop_back();
    }
    ++in_use_;
  }
  if (!held) held = std::make_unique<Held>();
  Reading reading(*this, std::move(held));
  if (auto ready = prepare(*reading.held_); !ready) {
    reading.discard();
    return std::unexpected(std::move(ready).error());
  }
  return reading;
}

Result<void> ReadPool::prepare(Held& held) {
  if (!held.connection) {
    auto opened = Connection::open(place_, Connection::Access::read);
    if (!opened) return std::unexpected(std::move(opened).error());
    held.connection = *std::move(opened);
    held.in_transaction = false;
    auto set = held.connection->run(
        fmt::format("PRAGMA cache_size=-{}; PRAGMA mmap_size=0", cache_bytes_ / 1024));
    if (!set) return set;
  }
  // Read before the transaction begins: what it shows can only be newer.
  const std::uint64_t commits = commits_.load();
  if (held.in_transaction && held.commits == commits && commits % 2 == 0) return {};
  if (held.in_transaction) {
    if (auto ended = held.connection->run(Connection::Step::commit); !ended) return ended;
    held.in_transaction = false;
  }
  if (auto begun = held.connection->run(Connection::Step::begin_read); !begun) return begun;
  held.in_transaction = true;
  held.commits = commits;
  return {};
}

void ReadPool::give_back(std::unique_ptr<Held> held) {
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
    if (held->connection) idle_.push_back(std::move(held));
  }
  given_back_.notify_one();
}

void ReadPool::forget_states() {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [](const std::unique_ptr<Held>& held) {
    if (!held->in_transaction) return false;
    held->in_transaction = false;
    return !held->connection->run(Connection::Step::commit).has_value();
  });
}

void ReadPool::clear() {
  const std::lock_guard lock(mutex_);
  idle_.clear();
}

}  // namespace strand::sqlite
