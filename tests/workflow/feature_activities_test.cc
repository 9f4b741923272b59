// Activities: what goes in, what comes out, how they are tried again.

#include <stdexcept>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

struct Order {
  std::uint64_t id = 0;
  std::string article;
  friend bool operator==(const Order&, const Order&) = default;
};
STRAND_JSON(Order, id, article)

struct Payment {
  std::uint64_t order = 0;
  double amount = 0;
};
STRAND_JSON(Payment, order, amount)

struct Decline {
  int code = 0;
};
STRAND_JSON(Decline, code)

const ErrorType<Decline> card_declined{"card_declined"};

int twice(const int& number) { return 2 * number; }
const Activity double_it{"double_it", twice};

Retry quick(std::uint32_t attempts) {
  return {.attempts = attempts, .backoff = Retry::Backoff::fixed, .jitter_percent = 0};
}

// A workflow that calls one activity, and says how that failed.
WorkflowType<std::string()> telling(const Activity<int()>& activity) {
  return {"telling", [activity](Workflow& wf) -> Task<std::string> {
            try {
              co_return std::to_string(co_await wf.call(activity));
            } catch (const ActivityError& error) {
              co_return error.activity() + " " + error.type() + " " + said(error);
            }
          }};
}

TEST_P(WorkflowFeature, Five_activities_run_one_after_another) {
  add(double_it);
  const WorkflowType<int(int)> five{"five", [](Workflow& wf, int number) -> Task<int> {
                                      for (int i = 0; i < 5; ++i)
                                        number = co_await wf.call(double_it, number);
                                      co_return number;
                                    }};
  EXPECT_EQ(run(five, 1), 32);
  EXPECT_EQ(env().attempts(), 5);
  EXPECT_EQ(kinds("a").size(), 12);
  EXPECT_EQ(stats("activities").live(), 0);
}

TEST_P(WorkflowFeature, Structs_go_in_and_come_out) {
  const Activity<Payment(Order)> charge{"charge", [](const Order& order) {
                                          EXPECT_EQ(order, (Order{7, "tea"}));
                                          return Payment{order.id, 12.5};
                                        }};
  add(charge);
  const WorkflowType<Payment(Order)> type{"pay",
                                          [charge](Workflow& wf, Order order) -> Task<Payment> {
                                            co_return co_await wf.call(charge, order);
                                          }};
  const Payment payment = run(type, Order{7, "tea"});
  EXPECT_EQ(payment.order, 7);
  EXPECT_EQ(payment.amount, 12.5);
}

TEST_P(WorkflowFeature, Bytes_pass_untouched) {
  const Bytes wild("\x00\xff\n\"{'\x1f", 7);
  const Activity<Bytes(Bytes)> echo{"echo", [&](const Bytes& bytes) {
                                      EXPECT_EQ(bytes, wild);
                                      return bytes + bytes;
                                    }};
  add(echo);
  const WorkflowType<Bytes(Bytes)> type{"wild", [echo](Workflow& wf, Bytes in) -> Task<Bytes> {
                                          co_return co_await wf.call(echo, in);
                                        }};
  EXPECT_EQ(run(type, wild), wild + wild);
}

TEST_P(WorkflowDetail, An_activity_may_take_nothing_and_return_nothing) {
  int calls = 0;
  const Activity<void()> touch{"touch", [&] { ++calls; }};
  const Activity<void(int)> take{"take", [&](int) { ++calls; }};
  add(touch, take);
  const WorkflowType<void()> type{"void", [=](Workflow& wf) -> Task<void> {
                                    co_await wf.call(touch);
                                    co_await wf.call(take, 3);
                                  }};
  run(type);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(state("a"), InstanceState::completed);
}

TEST_P(WorkflowDetail, An_activity_knows_who_waits_for_it_and_all_attempts_have_one_key) {
  Names seen;
  const Activity<void()> flaky{"flaky",
                               [&](ActivityContext& context) {
                                 seen.push_back(context.idempotency_key());
                                 EXPECT_EQ(context.activity(), "flaky");
                                 EXPECT_EQ(context.instance(), "a");
                                 EXPECT_EQ(context.attempt(), seen.size() % 2 == 1 ? 1 : 2);
                                 if (context.attempt() == 1) throw std::runtime_error("once");
                               },
                               {.retry = quick(2)}};
  add(flaky);
  const WorkflowType<void()> type{"two", [flaky](Workflow& wf) -> Task<void> {
                                    co_await wf.call(flaky);
                                    co_await wf.call(flaky);
                                  }};
  run(type);
  ASSERT_THAT(seen, SizeIs(4));
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[2], seen[3]);
  EXPECT_NE(seen[0], seen[2]);
}

TEST_P(WorkflowFeature, A_typed_error_arrives_with_its_details) {
  const Activity<int()> charge{
      "charge", []() -> int { throw card_declined("the bank said no", Decline{51}).final(); }};
  add(charge);
  const WorkflowType<int()> type{"pay", [charge](Workflow& wf) -> Task<int> {
                                   try {
                                     co_return co_await wf.call(charge);
                                   } catch (const ActivityError& error) {
                                     EXPECT_TRUE(error.is(card_declined));
                                     EXPECT_FALSE(error.details(ErrorType<Decline>{"other"}));
                                     co_return error.details(card_declined)->code;
                                   }
                                 }};
  EXPECT_EQ(run(type), 51);
  EXPECT_EQ(env().attempts(), 1);
}

TEST_P(WorkflowDetail, An_error_that_nobody_catches_fails_the_workflow_with_its_type) {
  const Activity<int()> charge{
      "charge", []() -> int { throw card_declined("the bank said no", Decline{51}).final(); }};
  const WorkflowType<int()> type{
      "pay", [charge](Workflow& wf) -> Task<int> { co_return co_await wf.call(charge); }};
  add(charge, type);
  start(type, "a");
  env().run();
  const Ended end = ended("a");
  EXPECT_EQ(end.state, InstanceState::failed);
  EXPECT_EQ(end.error_type, "card_declined");
  EXPECT_THAT(end.error, AllOf(HasSubstr("charge"), HasSubstr("the bank said no")));
  EXPECT_EQ(end.error_details, R"({"code":51})");
  EXPECT_EQ(info("a").error_type, "card_declined");
}

TEST_P(WorkflowDetail, What_is_thrown_is_told_with_its_text) {
  const Activity<int()> broken{
      "broken", []() -> int { throw std::runtime_error("no route"); }, {.retry = Retry::never()}};
  add(broken);
  EXPECT_EQ(run(telling(broken)), "broken exception failed: activity 'broken' failed: no route");
}

// --- Trying again ---

TEST_P(WorkflowFeature, A_failing_activity_is_tried_as_often_as_it_says) {
  const Activity<int()> broken{
      "broken", []() -> int { throw std::runtime_error("no"); }, {.retry = quick(5)}};
  add(broken);
  EXPECT_THAT(run(telling(broken)), HasSubstr("failed"));
  EXPECT_EQ(env().attempts(), 5);
  EXPECT_EQ(count("a", EventKind::activity_scheduled), 1);
  EXPECT_EQ(stats("activities").dead, 0);
}

TEST_P(WorkflowDetail, An_activity_that_succeeds_at_last_has_succeeded) {
  int attempts = 0;
  const Activity<int()> flaky{"flaky",
                              [&]() -> int {
                                if (++attempts < 4) throw std::runtime_error("not yet");
                                return attempts;
                              },
                              {.retry = quick(4)}};
  add(flaky);
  EXPECT_EQ(run(telling(flaky)), "4");
}

TEST_P(WorkflowDetail, Without_a_limit_it_is_tried_until_it_succeeds) {
  int attempts = 0;
  const Activity<int()> flaky{"flaky",
                              [&]() -> int {
                                if (++attempts < 50) throw std::runtime_error("not yet");
                                return attempts;
                              },
                              {.retry = quick(0)}};
  add(flaky);
  EXPECT_EQ(run(telling(flaky)), "50");
}

// The times at which an activity that always fails is tried, from the first attempt on.
class Attempts {
 public:
  explicit Attempts(WorkflowTest& env, Retry retry)
      : activity{"broken",
                 [this, &env]() -> int {
                   times_.push_back(env.now());
                   throw std::runtime_error("no");
                 },
                 {.retry = std::move(retry)}} {}
  [[nodiscard]] std::vector<Duration> waits() const {
    std::vector<Duration> result;
    for (std::size_t i = 1; i < times_.size(); ++i)
      result.push_back(times_[i] - times_[i - 1]);
    return result;
  }

 private:
  std::vector<Time> times_;

 public:
  const Activity<int()> activity;
};

TEST_P(WorkflowDetail, Fixed_waits_are_all_the_same) {
  const Attempts attempts(
      env(), {.attempts = 4, .backoff = Retry::Backoff::fixed, .first = 10s, .jitter_percent = 0});
  add(attempts.activity);
  run(telling(attempts.activity));
  EXPECT_THAT(attempts.waits(), ElementsAre(10s, 10s, 10s));
}

TEST_P(WorkflowDetail, Linear_waits_grow_by_the_first_one) {
  const Attempts attempts(
      env(), {.attempts = 4, .backoff = Retry::Backoff::linear, .first = 10s, .jitter_percent = 0});
  add(attempts.activity);
  run(telling(attempts.activity));
  EXPECT_THAT(attempts.waits(), ElementsAre(10s, 20s, 30s));
}

TEST_P(WorkflowFeature, Exponential_waits_grow_by_the_factor_up_to_the_maximum) {
  const Attempts attempts(
      env(), {.attempts = 6, .first = 1s, .factor = 3.0, .max = 20s, .jitter_percent = 0});
  add(attempts.activity);
  run(telling(attempts.activity));
  EXPECT_THAT(attempts.waits(), ElementsAre(1s, 3s, 9s, 20s, 20s));
}

TEST_P(WorkflowDetail, Jitter_lengthens_a_wait_by_no_more_than_it_says) {
  const Attempts attempts(
      env(),
      {.attempts = 40, .backoff = Retry::Backoff::fixed, .first = 100s, .jitter_percent = 20});
  add(attempts.activity);
  run(telling(attempts.activity));
  ASSERT_THAT(attempts.waits(), SizeIs(39));
  std::set<Duration> different;
  for (const Duration wait : attempts.waits()) {
    EXPECT_GE(wait, 100s);
    EXPECT_LE(wait, 120s);
    different.insert(wait);
  }
  EXPECT_GT(different.size(), 10);
}

TEST(Retry, Waits_do_not_overflow) {
  const Retry retry{.attempts = 0, .first = 1h, .factor = 10.0, .max = 24h, .jitter_percent = 100};
  for (const std::uint32_t attempt : {1U, 10U, 1'000U, 4'000'000'000U}) {
    for (const std::uint64_t random : {std::uint64_t{0}, std::uint64_t{1'000}, ~std::uint64_t{0}}) {
      EXPECT_GE(retry.wait_after(attempt, random), 1h) << attempt;
      EXPECT_LE(retry.wait_after(attempt, random), 48h) << attempt;
    }
  }
}

TEST_P(WorkflowDetail, An_error_that_is_final_is_not_tried_again) {
  const Activity<int()> broken{"broken",
                               []() -> int { throw ApplicationError("hopeless", "never").final(); },
                               {.retry = quick(9)}};
  add(broken);
  EXPECT_THAT(run(telling(broken)), HasSubstr("hopeless"));
  EXPECT_EQ(env().attempts(), 1);
}

TEST_P(WorkflowDetail, Types_of_errors_can_be_final_by_policy) {
  Retry retry = quick(9);
  retry.not_for = {"other", "hopeless"};
  int attempts = 0;
  const Activity<int()> broken{"broken",
                               [&]() -> int {
                                 if (++attempts < 3) throw ApplicationError("passing", "again");
                                 throw ApplicationError("hopeless", "never");
                               },
                               {.retry = retry}};
  add(broken);
  EXPECT_THAT(run(telling(broken)), HasSubstr("hopeless"));
  EXPECT_EQ(attempts, 3);
}

TEST_P(WorkflowDetail, A_call_may_have_options_of_its_own) {
  const Activity<int()> broken{
      "broken", []() -> int { throw std::runtime_error("no"); }, {.retry = quick(9)}};
  add(broken);
  const WorkflowType<int()> type{"pay", [broken](Workflow& wf) -> Task<int> {
                                   ActivityOptions options = broken.options();
                                   options.retry = quick(2);
                                   try {
                                     co_return co_await wf.call(broken, options);
                                   } catch (const ActivityError&) {
                                     co_return -1;
                                   }
                                 }};
  EXPECT_EQ(run(type), -1);
  EXPECT_EQ(env().attempts(), 2);
}

TEST_P(WorkflowFeature, An_activity_that_takes_too_long_is_tried_again_and_then_times_out) {
  int attempts = 0;
  const Activity<int()> slow{"slow",
                             [&]() -> int {
                               ++attempts;
                               throw ActivityTimesOut{};
                             },
                             {.retry = quick(3), .timeout = 1s}};
  add(slow);
  EXPECT_THAT(run(telling(slow)), AllOf(HasSubstr("timeout"), HasSubstr("timed_out: ")));
  EXPECT_EQ(attempts, 3);
}

TEST_P(WorkflowFeature, Progress_of_an_attempt_is_there_for_the_next) {
  const Activity<int()> counting{"counting",
                                 [](ActivityContext& context) -> int {
                                   const int done = context.progress<int>().value_or(0) + 1;
                                   EXPECT_TRUE(context.heartbeat(done));
                                   if (done < 3) throw std::runtime_error("interrupted");
                                   return done;
                                 },
                                 {.retry = quick(5), .heartbeat = 10s}};
  add(counting);
  EXPECT_EQ(run(telling(counting)), "3");
}

TEST_P(WorkflowDetail, An_input_that_cannot_be_read_fails_at_once) {
  // Two programs that do not agree on a type.
  const Activity<int(std::string)> asked{"size"};
  add(Activity<int(Order)>{"size", [](const Order&) { return 1; }});
  const WorkflowType<std::string()> type{
      "type", [asked](Workflow& wf) -> Task<std::string> {
        try {
          co_return std::to_string(co_await wf.call(asked, "text"));
        } catch (const ActivityError& error) {
          co_return error.type();
        }
      }};
  EXPECT_EQ(run(type), "invalid_input");
  EXPECT_EQ(env().attempts(), 1);
}

TEST_P(WorkflowDetail, A_result_that_cannot_be_read_is_an_error_of_the_call) {
  const Activity<int()> asked{"size"};
  add(Activity<Order()>{"size", [] { return Order{}; }});
  const WorkflowType<std::string()> type{"type", [asked](Workflow& wf) -> Task<std::string> {
                                           try {
                                             co_return std::to_string(co_await wf.call(asked));
                                           } catch (const WorkflowError& error) {
                                             co_return error.type();
                                           }
                                         }};
  EXPECT_EQ(run(type), "invalid_result");
}

TEST_P(WorkflowDetail, A_workflow_whose_input_cannot_be_read_fails) {
  const WorkflowType<int(Order)> type{"order", [](Workflow&, Order) -> Task<int> { co_return 1; }};
  add(type);
  StartRequest request;
  request.name = "order";
  request.id = "a";
  request.input = "no json";
  ASSERT_TRUE(Answer(workflows().start(request)).value());
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("a").error_type, "invalid_input");
}

TEST_P(WorkflowFeature, A_message_that_is_dropped_from_its_queue_fails_its_call) {
  const Activity<int()> elsewhere{"elsewhere", {.queue = "far", .label = "gpu"}};
  const auto type = telling(elsewhere);
  add(type);
  start(type, "a");
  while (info("a").state == InstanceState::pending)
    env().step();
  ASSERT_THAT(waiting("far"), SizeIs(1));
  EXPECT_EQ(waiting("far").front().label, "elsewhere@gpu");
  Transaction purge;
  purge.admin = PurgeQueue{.queue = "far"};
  ASSERT_TRUE(Answer(store().apply(purge)));
  env().run();
  EXPECT_THAT(ended("a").result, AllOf(HasSubstr("crashed: "), HasSubstr("purged")));
}

// --- Local activities ---

TEST_P(WorkflowFeature, A_local_activity_runs_in_its_turn_and_its_result_is_recorded) {
  int runs = 0;
  const Activity<int(int)> local{"local", [&](int n) {
                                   ++runs;
                                   return n + 1;
                                 }};
  const WorkflowType<int()> type{"local", [local](Workflow& wf) -> Task<int> {
                                   const int number = co_await wf.local(local, 4);
                                   co_await wf.sleep(1h);
                                   co_await wf.sleep(1h);
                                   co_return number;
                                 }};
  EXPECT_EQ(run(type), 5);
  // A turn that is lost takes its local activities with it; one that is replayed does not.
  EXPECT_EQ(runs, mode() == Mode::crash_every_turn ? 2 : 1);
  EXPECT_EQ(env().attempts(), 0);
  EXPECT_EQ(count("a", EventKind::local_activity), 1);
  EXPECT_EQ(count("a", EventKind::activity_scheduled), 0);
}

TEST_P(WorkflowFeature, A_local_activity_that_fails_is_tried_again_after_its_waits) {
  std::set<Time> times;
  const Activity<int()> flaky{
      "flaky",
      [&]() -> int {
        times.insert(env().now());
        if (times.size() < 3) throw ApplicationError("busy", "later");
        return 9;
      },
      {.retry = {
           .attempts = 3, .backoff = Retry::Backoff::linear, .first = 1min, .jitter_percent = 0}}};
  const WorkflowType<int()> type{
      "local", [flaky](Workflow& wf) -> Task<int> { co_return co_await wf.local(flaky); }};
  EXPECT_EQ(run(type), 9);
  ASSERT_THAT(times, SizeIs(3));
  EXPECT_EQ(*times.rbegin() - *times.begin(), 3min);
  EXPECT_EQ(count("a", EventKind::local_activity), 3);
  EXPECT_EQ(count("a", EventKind::timer_fired), 2);
}

TEST_P(WorkflowDetail, A_local_activity_fails_for_good_as_another_does) {
  const Activity<int()> broken{
      "broken",
      []() -> int { throw card_declined("the bank said no", Decline{51}); },
      {.retry = quick(3)}};
  const WorkflowType<int()> type{"local", [broken](Workflow& wf) -> Task<int> {
                                   try {
                                     co_return co_await wf.local(broken);
                                   } catch (const ActivityError& error) {
                                     co_return error.details(card_declined)->code;
                                   }
                                 }};
  EXPECT_EQ(run(type), 51);
  EXPECT_EQ(count("a", EventKind::local_activity), 3);
}

TEST_P(WorkflowDetail, A_local_activity_that_waits_for_its_next_attempt_can_be_cancelled) {
  const Activity<int()> broken{
      "broken", []() -> int { throw std::runtime_error("no"); }, {.retry = quick(0)}};
  const WorkflowType<int()> type{"local", [broken](Workflow& wf) -> Task<int> {
                                   auto call = wf.local(broken);
                                   co_await wf.sleep(90s);
                                   call.cancel();
                                   co_await wf.sleep(1h);
                                   try {
                                     co_return co_await call;
                                   } catch (const Cancelled&) {
                                     co_return -1;
                                   }
                                 }};
  EXPECT_EQ(run(type), -1);
  EXPECT_EQ(took("a"), 1h + 90s);
  EXPECT_LE(count("a", EventKind::local_activity), 91);
}

}  // namespace
}  // namespace strand::workflow_tests
