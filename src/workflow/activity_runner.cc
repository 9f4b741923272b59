#include "workflow/activity_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "workflow/records.h"
#include "workflow/wire.h"

namespace strand::workflow {

namespace {

// Smaller than what any store allows by default.
constexpr std::size_t error_bytes_max = 4000;

std::string fitted(std::string text) {
  if (text.size() > error_bytes_max) text.resize(error_bytes_max);
  return text;
}

// Where the answer goes; none for a message that nobody waits for.
Send* add_reply(const Message& message, std::string_view kind, Transaction& transaction) {
  const auto queue = wire::header(message.headers, wire::reply_queue_header);
  const auto key = wire::header(message.headers, wire::reply_key_header);
  if (queue.empty() || key.empty()) return nullptr;
  Send& send = transaction.sends.emplace_back();
  send.queue = queue;
  send.key = key;
  send.label = wire::header(message.headers, wire::reply_label_header);
  wire::add(send.headers, wire::kind_header, kind);
  wire::add(send.headers, wire::call_header, wire::header(message.headers, wire::call_header));
  return &send;
}

// splitmix64.
std::uint64_t scattered(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

AttemptFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApplicationError& thrown) {
    return {.type = thrown.type(),
            .text = fitted(thrown.what()),
            .details = thrown.details(),
            .final = thrown.is_final()};
  } catch (const std::exception& thrown) {
    return {.type = "exception", .text = fitted(thrown.what())};
  } catch (...) {
    return {.type = "exception", .text = "something was thrown that is no std::exception"};
  }
}

}  // namespace

void add_result(const Message& message, Bytes result, Transaction& transaction) {
  if (Send* send = add_reply(message, wire::result_kind, transaction)) {
    send->body = std::move(result);
  }
}

void add_error(const Message& message, const AttemptFailure& failure, Transaction& transaction) {
  Send* send = add_reply(message, wire::error_kind, transaction);
  if (send == nullptr) return;
  send->body = failure.details;
  wire::add(send->headers, wire::error_header, failure.text);
  wire::add(send->headers, wire::error_type_header, failure.type);
  wire::add(send->headers, wire::error_how_header, to_string(failure.kind));
}

std::optional<Duration> next_attempt_in(const Message& message, const AttemptFailure& failure) {
  const Retry retry = wire::retry_from(wire::header(message.headers, wire::retry_header));
  const std::uint32_t attempt = message.attempts + 1;
  if (failure.final) return std::nullopt;
  if (retry.attempts > 0 && attempt >= retry.attempts) return std::nullopt;
  if (std::ranges::find(retry.not_for, failure.type) != retry.not_for.end()) return std::nullopt;
  const auto id = static_cast<std::uint64_t>(message.id);
  return retry.wait_after(attempt, scattered(id * 31 + attempt));
}

// --- One attempt ---

class ActivityRunner::Attempt final : public ActivityContext {
 public:
  Attempt(ActivityRunner& runner, const ActivityDefinition& activity, const Work& work)
      : runner_(runner),
        activity_(activity),
        message_(work.message()),
        token_(work.lease().token),
        instance_(wire::header(message_.headers, wire::instance_header)),
        call_(wire::header(message_.headers, wire::call_header)),
        heartbeat_time_(wire::milliseconds(message_.headers, wire::heartbeat_header)),
        began_(runner.now()),
        heard_(began_),
        outer_(work.stop_token(), [this] { stop_.request_stop(); }) {
    if (const auto timeout = wire::milliseconds(message_.headers, wire::timeout_header)) {
      ends_at_ = began_ + *timeout;
    }
  }

  [[nodiscard]] const std::string& activity() const override { return activity_.name; }
  [[nodiscard]] const std::string& instance() const override { return instance_; }
  [[nodiscard]] std::string idempotency_key() const override { return call_; }
  [[nodiscard]] std::uint32_t attempt() const override { return message_.attempts + 1; }
  [[nodiscard]] std::stop_token stop_token() const override { return stop_.get_token(); }

  bool heartbeat() override {
    const std::lock_guard lock(mutex_);
    heard_ = runner_.now();
    return !stop_.stop_requested();
  }

  [[nodiscard]] const std::optional<Duration>& heartbeat_time() const { return heartbeat_time_; }
  [[nodiscard]] bool has_time() const { return ends_at_ || heartbeat_time_; }
  // When its time is over, as things stand.
  [[nodiscard]] Duration over_at() {
    const std::lock_guard lock(mutex_);
    Duration at = ends_at_.value_or(Duration::max());
    if (heartbeat_time_) at = std::min(at, heard_ + *heartbeat_time_);
    return at;
  }
  [[nodiscard]] bool is_silent(Duration at) {
    const std::lock_guard lock(mutex_);
    return !ends_at_ || *ends_at_ > at;
  }

  // Who is first decides what becomes of the attempt: the function, or the clock.
  [[nodiscard]] bool decide() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(decided_, true);
  }
  void tell_to_stop() { stop_.request_stop(); }
  [[nodiscard]] const Message& message() const { return message_; }
  [[nodiscard]] const Token& token() const { return token_; }
  [[nodiscard]] const ActivityDefinition& definition() const { return activity_; }

 protected:
  bool heartbeat_with(Bytes progress) override {
    Transaction transaction;
    transaction.durability = Durability::async;
    transaction.records.push_back(put_record(progress_space, call_, std::move(progress)));
    // What is not kept costs the next attempt some work, and this one nothing.
    std::ignore = runner_.store_.apply(transaction);
    return heartbeat();
  }

  std::optional<Bytes> kept_progress() override {
    const auto record = runner_.store_.record(progress_space, call_);
    if (!record || !*record || STRAND_PLANTED("progress-forgotten")) return std::nullopt;
    return (*record)->value;
  }

 private:
  ActivityRunner& runner_;
  const ActivityDefinition& activity_;
  const Message message_;
  const Token token_;
  const std::string instance_;
  const std::string call_;
  const std::optional<Duration> heartbeat_time_;
  const Duration began_;
  std::optional<Duration> ends_at_;

  std::mutex mutex_;  // for what follows
  Duration heard_;
  bool decided_ = false;

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> outer_;
};

ActivityRunner::ActivityRunner(Store& store, Activities activities, std::shared_ptr<Clock> clock,
                               Counts& counts)
    : store_(store),
      activities_(std::move(activities)),
      clock_(std::move(clock)),
      counts_(counts),
      clock_handle_(clock_->on_advance([this] { alarm_.ring(); })),
      watcher_([this] { watch_times(); }) {}

ActivityRunner::~ActivityRunner() {
  alarm_.stop();
  watcher_.join();
}

Verdict ActivityRunner::handle(Work& work) {
  const Message& message = work.message();
  const auto name = wire::header(message.headers, wire::activity_header);
  const auto found = activities_.find(name);
  if (found == activities_.end()) {
    return Verdict::dead(fmt::format("this worker knows no activity '{}'", base::printable(name)));
  }
  const auto attempt = std::make_shared<Attempt>(*this, *found->second, work);
  // Its death is to be noticed as soon as its silence.
  if (attempt->heartbeat_time()) {
    std::ignore = work.lease_for(std::max(*attempt->heartbeat_time(), Duration{1}));
  }
  if (attempt->has_time()) watch(attempt);

  const auto began = std::chrono::steady_clock::now();
  std::optional<Bytes> result;
  std::optional<AttemptFailure> failure;
  try {
    result = found->second->run(*attempt, message.body);
  } catch (...) {
    failure = failure_of(std::current_exception());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  counts_.activity_seconds.add(took.count());
  if (attempt->has_time()) forget(attempt);
  if (!attempt->decide()) return Verdict::release();  // too late: its lease is over

  if (result) {
    ++counts_.activities_completed;
    add_result(message, *std::move(result), work.transaction());
    return Verdict::ok();
  }
  if (const auto wait = next_attempt_in(message, *failure)) {
    ++counts_.activities_retried;
    return Verdict::retry(failure->text, wait);
  }
  ++counts_.activities_failed;
  add_error(message, *failure, work.transaction());
  return Verdict::ok();
}

// --- Those that take too long ---

void ActivityRunner::watch(const std::shared_ptr<Attempt>& attempt) {
  const std::lock_guard lock(mutex_);
  running_.push_back(attempt);
  alarm_.ring();
}

void ActivityRunner::forget(const std::shared_ptr<Attempt>& attempt) {
  const std::lock_guard lock(mutex_);
  std::erase(running_, attempt);
}

void ActivityRunner::watch_times() {
  std::optional<Duration> nap;
  while (true) {
    if (nap && clock_->manual()) nap.reset();  // it rings when it moves
    if (!alarm_.sleep(nap)) return;
    std::vector<std::shared_ptr<Attempt>> over;
    nap.reset();
    {
      const std::lock_guard lock(mutex_);
      const Duration reached = now();
      std::erase_if(running_, [&](const std::shared_ptr<Attempt>& attempt) {
        const Duration at = attempt->over_at();
        if (at <= reached && !STRAND_PLANTED("activity-time-without-end")) {
          over.push_back(attempt);
          return true;
        }
        const Duration left = std::max(at - reached, Duration{1});
        nap = nap ? std::min(*nap, left) : left;
        return false;
      });
    }
    for (const auto& attempt : over)
      end_time(*attempt);
  }
}

// The function may never come back: its message is settled without it.
void ActivityRunner::end_time(Attempt& attempt) {
  if (!attempt.decide()) return;
  ++counts_.activities_timed_out;
  attempt.tell_to_stop();
  const bool silent = attempt.is_silent(now());
  const AttemptFailure failure{
      .kind = WorkflowError::Kind::timed_out,
      .type = "timeout",
      .text = silent ? fmt::format("no heartbeat within {}",
                                   format_duration(attempt.heartbeat_time().value_or(Duration{0})))
                     : std::string("the attempt took longer than it was given")};
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = attempt.token();
  Outcome& outcome = settle.outcomes.emplace_back(Outcome{.id = attempt.message().id});
  if (const auto wait = next_attempt_in(attempt.message(), failure)) {
    outcome.kind = Outcome::Kind::retry;
    outcome.delay = *wait;
    outcome.reason = failure.text;
  } else {
    add_error(attempt.message(), failure, transaction);
  }
  // If it is refused, the lease is over, and somebody else has the message.
  std::ignore = store_.apply(transaction);
}

}  // namespace strand::workflow
