#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <strand/activity.h>
#include <strand/task.h>

namespace strand {

class Workflow;

namespace workflow {

class Instance;
struct Fiber;

// One thing that a workflow waits for. Ends once: with a value or with an error.
//
// Threads: belongs to the turn that runs its instance.
class Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Instance& instance) : instance_(instance) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call();

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  // Resumes the coroutine when this is done.
  void wait(std::coroutine_handle<> coroutine);
  // Calls back when this is done; at once if it is.
  void observe(std::function<void()> callback);

  // It ends, as cancelled, unless it has ended.
  void cancel(const std::string& reason);
  // What else that means: whoever made the call says it.
  std::function<void(const std::string& reason)> on_cancel;
  // After on_cancel it ends by itself, when it has cleaned up.
  bool cleans_up = false;
  // For a call that is made of others: one of them is done.
  std::function<void(std::size_t part)> on_part;

  // Somebody knows how it ends, or will.
  void claim();

  void fail(std::exception_ptr error);
  // Takes what came as its value.
  virtual void accept(std::string_view body) = 0;

 protected:
  void finish();

 private:
  struct Waiter {
    std::coroutine_handle<> coroutine;
    std::shared_ptr<Fiber> fiber;
  };
  Instance& instance_;
  bool done_ = false;
  bool claimed_ = false;
  bool unclaimed_ = false;  // it is done, and nobody has looked
  std::exception_ptr error_;
  std::vector<Waiter> waiters_;
  std::vector<std::function<void()>> observers_;
};

// A call for a value of that type.
template <class T>
class CallFor final : public Call {
 public:
  using Call::Call;
  void set(T value) {
    if (done()) return;
    value_.emplace(std::move(value));
    finish();
  }
  void accept(std::string_view body) override {
    if constexpr (std::same_as<T, Bytes> || json::Convertible<T>) {
      auto value = from_body<T>(body);
      if (value) {
        set(*std::move(value));
      } else {
        fail(std::make_exception_ptr(
            WorkflowError(WorkflowError::Kind::failed, "invalid_result", value.error().message)));
      }
    } else {
      fail(std::make_exception_ptr(
          WorkflowError(WorkflowError::Kind::failed, "invalid_result", "not a value for a body")));
    }
  }
  [[nodiscard]] T copy() const {
    rethrow();
    return *value_;
  }
  T take() {
    rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class CallFor<void> final : public Call {
 public:
  using Call::Call;
  void set() {
    if (!done()) finish();
  }
  void accept(std::string_view) override { set(); }
  void copy() const { rethrow(); }
  void take() const { rethrow(); }
};

}  // namespace workflow

// Something that has begun and will have a value: an activity that was called, a timer, an event
// that is waited for, a coroutine that was spawned.
//
//   strand::Future<Payment> paid = wf.call(charge_card, order);    // begins
//   Payment payment = co_await paid;                               // waits; may throw
//
// A future that is not awaited goes on all the same.
//
// Threads:   belongs to its workflow.
// Ownership: a handle; copies mean the same thing. Not to be kept beyond its workflow.
template <class T>
class [[nodiscard("await it, or keep it for later")]] Future {
 public:
  explicit Future(std::shared_ptr<workflow::CallFor<T>> call) : call_(std::move(call)) {}

  [[nodiscard]] bool done() const {
    if (call_->done()) call_->claim();
    return call_->done();
  }
  // Ends it, unless it has ended: an activity is taken from its queue, or told to stop; a timer is
  // dropped; a child (unless it is to be kept), or what was spawned, is cancelled. Awaiting it
  // throws Cancelled.
  void cancel(const std::string& reason = "cancelled by the workflow") { call_->cancel(reason); }

  template <bool take>
  struct Awaiter {
    std::shared_ptr<workflow::CallFor<T>> call;
    bool await_ready() const noexcept {
      call->claim();
      return call->done();
    }
    void await_suspend(std::coroutine_handle<> waiting) const { call->wait(waiting); }
    T await_resume() const {
      if constexpr (take) {
        return call->take();
      } else {
        return call->copy();
      }
    }
  };
  Awaiter<false> operator co_await() const& { return {call_}; }
  Awaiter<true> operator co_await() && { return {call_}; }

  // For the library.
  [[nodiscard]] const std::shared_ptr<workflow::CallFor<T>>& call() const { return call_; }

 private:
  std::shared_ptr<workflow::CallFor<T>> call_;
};

}  // namespace strand
