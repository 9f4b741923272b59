#include <utility>

#include <strand/future.h>
#include <strand/workflow.h>

#include "workflow/instance.h"

namespace strand::workflow {

Call::~Call() {
  if (unclaimed_) instance_.count_unclaimed(-1);
}

void Call::claim() {
  claimed_ = true;
  if (std::exchange(unclaimed_, false)) instance_.count_unclaimed(-1);
}

void Call::wait(std::coroutine_handle<> coroutine) {
  waiters_.push_back({coroutine, instance_.current()});
}

void Call::observe(std::function<void()> callback) {
  if (done_) {
    callback();
  } else {
    observers_.push_back(std::move(callback));
  }
}

void Call::cancel(const std::string& reason) {
  if (done_ || instance_.closing()) return;
  const auto alive = shared_from_this();
  if (on_cancel) on_cancel(reason);
  if (!done_ && !cleans_up) fail(std::make_exception_ptr(Cancelled(reason)));
}

void Call::fail(std::exception_ptr error) {
  if (done_) return;
  error_ = std::move(error);
  finish();
}

// Those who wait go on later, one after the other, in the order in which they began to wait.
void Call::finish() {
  done_ = true;
  if (!claimed_) {
    unclaimed_ = true;
    instance_.count_unclaimed(1);
  }
  const auto alive = shared_from_this();
  for (const auto& observer : std::exchange(observers_, {}))
    observer();
  for (Waiter& waiter : std::exchange(waiters_, {}))
    instance_.resume_later(waiter.coroutine, std::move(waiter.fiber));
}

namespace {

void cancel_all(const std::vector<std::shared_ptr<Call>>& parts, const std::string& reason) {
  for (const auto& part : parts)
    part->cancel(reason);
}

// The whole owns its parts, and they know of it: not the other way round, or none would ever go.
void observe_parts(const std::shared_ptr<Call>& whole,
                   const std::vector<std::shared_ptr<Call>>& parts) {
  for (std::size_t i = 0; i < parts.size() && !whole->done(); ++i) {
    parts[i]->claim();
    parts[i]->observe([weak = std::weak_ptr(whole), i] {
      if (const auto alive = weak.lock(); alive && !alive->done()) alive->on_part(i);
    });
  }
}

}  // namespace

void gather(const std::shared_ptr<Call>& whole, std::vector<std::shared_ptr<Call>> parts,
            Others others, std::function<void()> succeed) {
  if (parts.empty()) {
    succeed();
    return;
  }
  const auto shared = std::make_shared<const std::vector<std::shared_ptr<Call>>>(std::move(parts));
  whole->on_cancel = [shared](const std::string& reason) { cancel_all(*shared, reason); };
  whole->on_part = [whole = whole.get(), shared, others, succeed = std::move(succeed),
                    missing = shared->size()](std::size_t i) mutable {
    const Call& part = *(*shared)[i];
    if (part.error()) {
      whole->fail(part.error());
      if (others == Others::cancel) cancel_all(*shared, "another one has failed");
    } else if (--missing == 0) {
      succeed();
    }
  };
  observe_parts(whole, *shared);
}

void race(const std::shared_ptr<Call>& whole, std::vector<std::shared_ptr<Call>> parts,
          Others others, std::function<void(std::size_t)> succeed) {
  const auto shared = std::make_shared<const std::vector<std::shared_ptr<Call>>>(std::move(parts));
  whole->on_cancel = [shared](const std::string& reason) { cancel_all(*shared, reason); };
  whole->on_part = [whole = whole.get(), shared, others,
                    succeed = std::move(succeed)](std::size_t i) {
    const Call& part = *(*shared)[i];
    if (part.error()) {
      whole->fail(part.error());
    } else {
      succeed(i);
    }
    if (others == Others::cancel) cancel_all(*shared, "another one was first");
  };
  observe_parts(whole, *shared);
}

}  // namespace strand::workflow
