#include "store/postgres/pool.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/assert.h"
#include "pq/backoff.h"

namespace strand::postgres {
namespace {

// One attempt to connect; what answers at all answers within this.
constexpr Duration attempt_max = std::chrono::seconds(10);
// Longer than anybody waits, and no overflow.
constexpr Duration wait_max = std::chrono::hours(24 * 365);

Error script_error(const Failure& failure) {
  const std::string message =
      fmt::format("PostgreSQL does not take the settings of a session: {}", failure.message);
  const bool may_help = failure.kind != Failure::Kind::refused || failure.repeatable();
  return {may_help ? Errc::unavailable : Errc::invalid_argument, message};
}

}  // namespace

PooledConnection& PooledConnection::operator=(PooledConnection&& other) noexcept {
  if (this != &other) {
    give_back();
    pool_ = other.pool_;
    connection_ = std::move(other.connection_);
  }
  return *this;
}

PooledConnection::~PooledConnection() { give_back(); }

void PooledConnection::give_back() {
  if (connection_ != nullptr) {
    pool_->give_back(std::move(connection_));
  }
}

Pool::Pool(std::string conninfo, std::size_t size_max, std::string on_connect)
    : conninfo_(std::move(conninfo)), size_max_(size_max), on_connect_(std::move(on_connect)) {
  STRAND_ASSERT(size_max_ > 0, "a pool has room for a connection");
}

Pool::~Pool() { STRAND_ASSERT(in_use_ == 0, "connections do not outlive their pool"); }

Result<PooledConnection> Pool::acquire(Duration wait) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + std::min(wait, wait_max);
  Backoff backoff;
  std::optional<Error> last;
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      ++in_use_;
      lock.unlock();
      if (connection->still_open()) {
        return PooledConnection(*this, std::move(connection));
      }
      give_back(std::move(connection));
      lock.lock();
      continue;
    }
    if (in_use_ == size_max_) {
      if (!room_.wait_until(lock, deadline, [&] { return closed_ || in_use_ < size_max_; })) {
        return failure(Errc::unavailable,
                       last ? last->message
                            : fmt::format("all {} connections to PostgreSQL are in use; try again "
                                          "later, or allow more",
                                          size_max_));
      }
      continue;
    }
    ++in_use_;
    lock.unlock();
    Result<std::unique_ptr<Connection>> opened = open(deadline);
    if (opened) {
      return PooledConnection(*this, std::move(*opened));
    }
    lock.lock();
    --in_use_;
    room_.notify_one();
    const SteadyTime now = std::chrono::steady_clock::now();
    if (opened.error().code != Errc::unavailable || now >= deadline) {
      return std::unexpected(std::move(opened.error()));
    }
    last = std::move(opened.error());
    given_back_.wait_until(lock, std::min(deadline, now + backoff.next()),
                           [&] { return closed_ || !idle_.empty(); });
  }
  return failure(Errc::unavailable, "the store is closing");
}

Result<std::unique_ptr<Connection>> Pool::open(SteadyTime deadline) const {
  const auto left = std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now());
  auto connection = Connection::open(conninfo_, std::min(left, attempt_max), stop_.descriptor());
  if (connection && !on_connect_.empty()) {
    if (const auto done = (*connection)->script(on_connect_); !done) {
      return std::unexpected(script_error(done.error()));
    }
  }
  return connection;
}

void Pool::give_back(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  --in_use_;
  if (connection->usable() && !closed_) {
    idle_.push_back(std::move(connection));
  }
  room_.notify_one();
  given_back_.notify_one();
}

void Pool::close() {
  std::vector<std::unique_ptr<Connection>> closing;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  closing.swap(idle_);
  stop_.give();
  room_.notify_all();
  given_back_.notify_all();
}

std::size_t Pool::size() const {
  const std::lock_guard lock(mutex_);
  return idle_.size() + in_use_;
}

}  // namespace strand::postgres
