#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/store.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

namespace strand {

// Thrown by a mock: the attempt has taken longer than it was given.
struct ActivityTimesOut {};

// Where workflows are tested: a store in memory, a clock that jumps to whatever is next, activities
// that are mocked. One thread does everything, in the same order every time; nothing sleeps.
//
//   strand::WorkflowTest test;
//   test.add(checkout);
//   test.mock(charge_card, [](const Order&) { return Payment{.id = 7}; });
//   auto order = test.workflows().start(checkout, "order-1", Order{…}).value();
//   test.run();                                    // 24 hours of waiting take no time
//   EXPECT_EQ(order.wait().value().value().payment, 7);
//
// Threads: one.
class WorkflowTest {
 public:
  enum class Mode : std::uint8_t {
    normal,
    // Replays every turn from scratch and compares each decision, with its arguments, with the
    // first run. Code that is not deterministic parks its instance at once.
    always_replay,
    // Each turn is run, lost before its commit, and run again by somebody else.
    crash_every_turn,
    // Instances stay in memory between turns, as those of a worker do, and each turn is compared
    // with a replay as well.
    cached,
  };
  // `store`: instead of one in memory; opened with clock(). Given by a function because it needs
  // it.
  using OpenStore = std::function<std::unique_ptr<Store>(std::shared_ptr<Clock> clock)>;

  explicit WorkflowTest(Mode mode = Mode::always_replay, const OpenStore& store = {});
  ~WorkflowTest();
  WorkflowTest(const WorkflowTest&) = delete;
  WorkflowTest& operator=(const WorkflowTest&) = delete;

  void add(const AnyWorkflow& workflow);
  void add(const AnyActivity& activity);
  // Instead of the function that an activity has, if it has one.
  template <class R, class... In, class F>
  void mock(const Activity<R(In...)>& activity, F function) {
    add(Activity<R(In...)>(activity.name(), std::move(function), activity.options()));
  }

  // Of all turns from now on; without it, as of a worker.
  void set_checkpoints(const CheckpointPolicy& policy);

  [[nodiscard]] Workflows& workflows();
  [[nodiscard]] Store& store();
  [[nodiscard]] const std::shared_ptr<ManualClock>& clock() const { return clock_; }
  [[nodiscard]] Time now();

  // Does all there is to do, and lets time pass to where there is more, until there is nothing more
  // to wait for.
  void run();
  // The same, but time passes by so much and no more.
  void run_for(Duration duration);
  // One turn or one activity. False: nothing is ready.
  bool step();

  // What was done: turns committed, attempts of activities.
  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  [[nodiscard]] std::uint64_t attempts() const { return attempts_; }
  // In the order in which activities were tried: their names.
  [[nodiscard]] const std::vector<std::string>& activities_tried() const { return tried_; }

 private:
  struct Parts;
  bool run_turn();
  bool run_activity();

  Mode mode_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Parts> parts_;
  std::uint64_t turns_ = 0;
  std::uint64_t attempts_ = 0;
  std::vector<std::string> tried_;
};

}  // namespace strand
