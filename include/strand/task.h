#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

// GCC before 13 destroys temporaries inside a co_await expression twice: aggregates and lambdas
// that are passed to an awaited call. Nothing here can make that safe.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#error "Workflows need clang, or GCC 13 and later: GCC 12 destroys temporaries of co_await twice."
#endif

namespace strand {

template <class T = void>
class Task;

namespace workflow {

// Memory of a coroutine, counted for the instance that runs.
void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes) noexcept;

// What the promises of all tasks have in common: who waits for it, and how it failed.
class TaskPromise {
 public:
  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { free_frame(frame, bytes); }

  // A task does not run before somebody awaits it.
  std::suspend_always initial_suspend() noexcept { return {}; }

  struct GoOn {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      return done.promise().continuation_;
    }
    void await_resume() noexcept {}
  };
  GoOn final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  void set_continuation(std::coroutine_handle<> continuation) { continuation_ = continuation; }

 protected:
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
  std::exception_ptr error_;
};

template <class T>
class TaskResult : public TaskPromise {
 public:
  template <class U>
    requires std::convertible_to<U&&, T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskResult<void> : public TaskPromise {
 public:
  void return_void() {}
  void take() { rethrow(); }
};

}  // namespace workflow

// What a coroutine of a workflow returns: `Task<Receipt> checkout(Workflow& wf, Order order)`.
//
//   Hold hold = co_await reserve(wf, order);    // runs it, here and now
//   auto both = co_await wf.all_of(reserve(wf, a), reserve(wf, b));    // at the same time
//
// It runs when it is awaited, and exceptions come out of the co_await, as from a function. Its
// parameters should be values: a reference must live as long as the coroutine, and what it refers
// to is often gone at the first co_await.
//
// Threads:   none; belongs to the turn that runs its workflow.
// Ownership: owns the coroutine, which ends with it.
template <class T>
class [[nodiscard("a task runs when it is awaited")]] Task {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): a name of the language
  struct promise_type : workflow::TaskResult<T> {
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  struct Awaiter {
    std::coroutine_handle<promise_type> coroutine;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) const noexcept {
      coroutine.promise().set_continuation(waiting);
      return coroutine;
    }
    T await_resume() const { return coroutine.promise().take(); }
  };
  Awaiter operator co_await() && noexcept { return {coroutine_}; }

  // For the library: resumed by hand, it begins.
  [[nodiscard]] std::coroutine_handle<> handle() const { return coroutine_; }

 private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace strand
