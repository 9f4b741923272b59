#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <strand/body.h>
#include <strand/message.h>
#include <strand/time.h>
#include <strand/workflow_error.h>

namespace strand {

// How often, and after which waits, something that failed is tried again.
struct Retry {
  enum class Backoff : std::uint8_t {
    fixed,        // first, first, first, …
    linear,       // first, 2 first, 3 first, …
    exponential,  // first, factor first, factor² first, …
  };
  std::uint32_t attempts = 4;  // the first try included; 0: without end
  Backoff backoff = Backoff::exponential;
  Duration first = std::chrono::seconds{1};
  double factor = 2.0;
  Duration max = std::chrono::minutes{5};  // no wait is longer
  std::uint32_t jitter_percent = 10;       // a wait is longer by up to so much
  std::vector<std::string> not_for = {};   // types of errors that are final

  static Retry never() { return {.attempts = 1}; }
  // After the failure of that attempt (1 is the first). `random` decides about the jitter.
  [[nodiscard]] Duration wait_after(std::uint32_t attempt, std::uint64_t random) const;
};

struct ActivityOptions {
  // Where its messages wait. Workers lease from the queues, and with the labels, that they are
  // told.
  std::string queue = "activities";
  std::string label = {};
  Retry retry = {};
  std::optional<Duration> timeout = {};    // of one attempt, from its start to its end
  std::optional<Duration> heartbeat = {};  // an attempt that is silent for so long has failed
  Priority priority = Priority::normal;
};

// What an activity sees of its surroundings, if it wants to: a first parameter `ActivityContext&`.
//
// Threads: those of the activity.
class ActivityContext {
 public:
  ActivityContext() = default;
  ActivityContext(const ActivityContext&) = delete;
  ActivityContext& operator=(const ActivityContext&) = delete;
  virtual ~ActivityContext() = default;

  [[nodiscard]] virtual const std::string& activity() const = 0;
  [[nodiscard]] virtual const std::string& instance() const = 0;  // that waits for it
  // The same for all attempts of one call: what makes an effect elsewhere happen once.
  [[nodiscard]] virtual std::string idempotency_key() const = 0;
  [[nodiscard]] virtual std::uint32_t attempt() const = 0;  // 1 is the first
  // Set when the result is not wanted any more: cancelled, timed out, the lease lost, the worker
  // told to hurry.
  [[nodiscard]] virtual std::stop_token stop_token() const = 0;

  // Says that it is alive; false if it should stop. What is passed is kept for the next attempt.
  virtual bool heartbeat() = 0;
  template <Sendable T>
  bool heartbeat(const T& progress) {
    auto body = to_body(progress);
    return body ? heartbeat_with(*std::move(body)) : heartbeat();
  }
  // What the last heartbeat of an earlier attempt has passed, if it can be read as a T.
  template <class T>
  std::optional<T> progress() {
    const std::optional<Bytes> kept = kept_progress();
    if (!kept) return std::nullopt;
    auto value = from_body<T>(*kept);
    return value ? std::optional<T>(*std::move(value)) : std::nullopt;
  }

 protected:
  virtual bool heartbeat_with(Bytes progress) = 0;
  virtual std::optional<Bytes> kept_progress() = 0;
};

namespace workflow {

// An activity without its types: what workers work with. Throws what the function throws.
struct ActivityDefinition {
  std::string name = {};
  ActivityOptions options = {};
  std::function<Bytes(ActivityContext&, std::string_view input)> run = {};  // none: done elsewhere
};

// A body as the argument of a function; what is no T is an error that trying again cannot mend.
template <class T>
T decode_input(std::string_view body) {
  auto value = from_body<T>(body);
  if (!value) throw ApplicationError("invalid_input", value.error().message).final();
  return *std::move(value);
}

template <class T>
Bytes encode(const T& value) {
  auto body = to_body(value);
  if (!body) throw ApplicationError("invalid_value", body.error().message).final();
  return *std::move(body);
}

// Calls a function with or without a context and an argument.
template <class R, class F, class... In>
Bytes run_activity(F& function, ActivityContext& context, std::string_view input) {
  const auto call = [&](auto&&... arguments) -> decltype(auto) {
    if constexpr (std::invocable<F&, ActivityContext&, decltype(arguments)...>) {
      return function(context, std::forward<decltype(arguments)>(arguments)...);
    } else {
      return function(std::forward<decltype(arguments)>(arguments)...);
    }
  };
  const auto with_input = [&]() -> decltype(auto) {
    if constexpr (sizeof...(In) == 0) {
      return call();
    } else {
      return call(decode_input<In...>(input));
    }
  };
  if constexpr (std::is_void_v<R>) {
    with_input();
    return {};
  } else {
    return encode<R>(with_input());
  }
}

template <class F>
struct FunctionTypes;
template <class R, class... In>
struct FunctionTypes<R (*)(In...)> {
  using Signature = R(std::remove_cvref_t<In>...);
};
template <class R, class... In>
struct FunctionTypes<R (*)(ActivityContext&, In...)> {
  using Signature = R(std::remove_cvref_t<In>...);
};
template <class R, class F, class... In>
struct FunctionTypes<R (F::*)(In...)> : FunctionTypes<R (*)(In...)> {};
template <class R, class F, class... In>
struct FunctionTypes<R (F::*)(In...) const> : FunctionTypes<R (*)(In...)> {};

}  // namespace workflow

// Something that a workflow has done by a worker: a name for the world, a function, and its types.
//
//   Payment charge(const Order& order);                      throws if it fails
//   const strand::Activity charge_card{"charge_card", charge, {.timeout = 30s}};
//
//   const strand::Activity<Payment(Order)> charge_card{"charge_card"};    done by somebody else
//
// The function takes one value or none, in front of it an ActivityContext& if it wants one, and
// returns a value or nothing. It runs at least once: a crash lets it run again.
template <class Signature>
class Activity;

template <class R, class... In>
  requires(sizeof...(In) <= 1)
class Activity<R(In...)> {
 public:
  explicit Activity(std::string name, ActivityOptions options = {}) {
    definition_->name = std::move(name);
    definition_->options = std::move(options);
  }
  template <class F>
    requires(std::invocable<F&, In...> || std::invocable<F&, ActivityContext&, In...>)
  Activity(std::string name, F function, ActivityOptions options = {})
      : Activity(std::move(name), std::move(options)) {
    definition_->run = [function = std::move(function)](ActivityContext& context,
                                                        std::string_view input) mutable {
      return workflow::run_activity<R, F, In...>(function, context, input);
    };
  }

  [[nodiscard]] const std::string& name() const { return definition_->name; }
  [[nodiscard]] const ActivityOptions& options() const { return definition_->options; }
  [[nodiscard]] std::shared_ptr<const workflow::ActivityDefinition> definition() const {
    return definition_;
  }

 private:
  std::shared_ptr<workflow::ActivityDefinition> definition_ =
      std::make_shared<workflow::ActivityDefinition>();
};

template <class F>
Activity(std::string, F*, ActivityOptions = {})
    -> Activity<typename workflow::FunctionTypes<F*>::Signature>;
template <class F>
Activity(const char*, F*, ActivityOptions = {})
    -> Activity<typename workflow::FunctionTypes<F*>::Signature>;
template <class F>
  requires requires { &F::operator(); }
Activity(std::string, F, ActivityOptions = {})
    -> Activity<typename workflow::FunctionTypes<decltype(&F::operator())>::Signature>;

}  // namespace strand
