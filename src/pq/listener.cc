#include "pq/listener.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "base/assert.h"
#include "pq/backoff.h"
#include "pq/wire.h"

namespace strand::postgres {
namespace {

constexpr Duration connect_max = std::chrono::seconds(10);
// A connection that lived for so long was a good one: the next attempt comes soon.
constexpr Duration good_after = std::chrono::seconds(1);

}  // namespace

Listener::Listener(ListenerOptions options, OnNotify on_notify, OnReconnect on_reconnect)
    : options_(std::move(options)),
      on_notify_(std::move(on_notify)),
      on_reconnect_(std::move(on_reconnect)),
      thread_([this] { run(); }) {}

Listener::~Listener() {
  STRAND_ASSERT(thread_.get_id() != std::this_thread::get_id(),
                "a listener is not destroyed by its own callback");
  stop_.give();
  thread_.join();
}

std::string Listener::last_trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Listener::run() {
  Backoff backoff;
  do {
    const Handle handle = begin();
    if (handle == nullptr) {
      continue;
    }
    const auto since = std::chrono::steady_clock::now();
    connected_ = true;
    on_reconnect_();
    hear(handle.get());
    connected_ = false;
    if (std::chrono::steady_clock::now() - since >= good_after) {
      backoff.reset();
    }
  } while (pause(backoff.next()));
}

Handle Listener::begin() {
  Result<Handle> handle = connect(options_.conninfo, connect_max, stop_.descriptor());
  if (!handle) {
    note_trouble(std::move(handle.error().message));
    return nullptr;
  }
  PGconn* connection = handle->get();
  PQsetnonblocking(connection, 1);
  const std::unique_ptr<char, decltype(&PQfreemem)> channel(
      PQescapeIdentifier(connection, options_.channel.data(), options_.channel.size()), &PQfreemem);
  if (channel == nullptr) {
    note_trouble(last_words(connection));
    return nullptr;
  }
  for (const std::string& script : {options_.on_connect, fmt::format("LISTEN {}", channel.get())}) {
    if (script.empty()) {
      continue;
    }
    if (auto done = run_script(connection, script, stop_.descriptor()); !done) {
      note_trouble(std::move(done.error().message));
      return nullptr;
    }
  }
  return std::move(*handle);
}

void Listener::hear(pg_conn* connection) {
  while (true) {
    call_back(connection);
    switch (move_bytes(connection, true, stop_.descriptor())) {
      case Traffic::stopped:
        return;
      case Traffic::gone:
        // What came before the end.
        call_back(connection);
        note_trouble(last_words(connection));
        return;
      case Traffic::flushed:
      case Traffic::moved:
        break;
    }
  }
}

void Listener::call_back(pg_conn* connection) {
  while (PGnotify* raw = PQnotifies(connection)) {
    const std::unique_ptr<PGnotify, decltype(&PQfreemem)> notification(raw, &PQfreemem);
    on_notify_(notification->extra);
  }
}

void Listener::note_trouble(std::string message) {
  const std::lock_guard lock(mutex_);
  trouble_ = std::move(message);
}

bool Listener::pause(Duration duration) const {
  pollfd stopped{stop_.descriptor(), POLLIN, 0};
  return ::poll(&stopped, 1, static_cast<int>(duration.count())) <= 0;
}

}  // namespace strand::postgres
