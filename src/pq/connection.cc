#include "pq/connection.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <libpq-fe.h>
#include <poll.h>

#include "base/assert.h"
#include "pq/pipeline.h"
#include "pq/wire.h"

namespace strand::postgres {
namespace {

Failure closed() {
  return {.kind = Failure::Kind::not_sent, .message = "the connection to PostgreSQL is closed"};
}

void note_fatal(void* ended, const PGresult* notice) {
  if (is_fatal(notice)) {
    *static_cast<bool*>(ended) = true;
  }
}

}  // namespace

bool Failure::repeatable() const {
  constexpr std::array<std::string_view, 6> codes{
      "40001", "40P01",                    // serialization failure, deadlock
      "57P01", "57P02", "57P03", "57P05",  // stopped, crashed, not ready yet, idle for too long
  };
  return kind == Kind::refused && std::ranges::find(codes, sqlstate) != codes.end();
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& conninfo, Duration timeout,
                                                     int stop) {
  Result<Handle> handle = connect(conninfo, timeout, stop);
  if (!handle) {
    return std::unexpected(std::move(handle.error()));
  }
  return std::unique_ptr<Connection>(new Connection(std::move(*handle)));
}

Connection::Connection(Handle handle) : handle_(std::move(handle)) {
  PQsetnonblocking(handle_.get(), 1);
  PQsetNoticeReceiver(handle_.get(), note_fatal, &ended_);
  PQenterPipelineMode(handle_.get());
}

Connection::~Connection() = default;

std::vector<GroupResult> Connection::run(std::span<const Group> groups) {
  if (!still_open()) {
    std::vector<GroupResult> results;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      results.emplace_back(std::unexpected(closed()));
    }
    return results;
  }
  Pipeline pipeline(*this, groups);
  const bool alive = pipeline.exchange();
  std::vector<GroupResult> results = pipeline.take_results();
  if (alive) {
    forget_notifications();
  } else {
    handle_.reset();
  }
  return results;
}

GroupResult Connection::run(const Group& group) {
  return std::move(run(std::span(&group, 1)).front());
}

std::expected<void, Failure> Connection::script(const std::string& sql) {
  if (!still_open()) {
    return std::unexpected(closed());
  }
  // Several statements at once exist only outside of the pipeline mode.
  STRAND_ASSERT(PQexitPipelineMode(handle_.get()) == 1, "no exchange is under way");
  auto result = run_script(handle_.get(), sql);
  if (PQstatus(handle_.get()) != CONNECTION_OK || PQenterPipelineMode(handle_.get()) != 1) {
    handle_.reset();
  } else {
    forget_notifications();
  }
  return result;
}

bool Connection::still_open() {
  while (handle_ != nullptr) {
    pollfd watched{PQsocket(handle_.get()), POLLIN, 0};
    const bool readable = ::poll(&watched, 1, 0) > 0;
    if (watched.fd < 0 || (readable && PQconsumeInput(handle_.get()) == 0)) {
      handle_.reset();
    } else if (!readable) {
      break;
    } else {
      forget_notifications();
    }
    if (ended_) {
      handle_.reset();
    }
  }
  return handle_ != nullptr;
}

// Taking them out also has libpq look through what has come.
void Connection::forget_notifications() {
  while (PGnotify* notification = PQnotifies(handle_.get())) {
    PQfreemem(notification);
  }
}

int Connection::backend_pid() const { return handle_ ? PQbackendPID(handle_.get()) : 0; }

}  // namespace strand::postgres
