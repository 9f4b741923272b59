#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/strand.h>
#include <strand/workflow_test.h>

#include "conformance/suite.h"

namespace strand {

void PrintTo(InstanceState state, std::ostream* out);
void PrintTo(EventKind kind, std::ostream* out);
void PrintTo(SagaStatus status, std::ostream* out);
void PrintTo(StepStatus status, std::ostream* out);
void PrintTo(WorkflowError::Kind kind, std::ostream* out);

namespace workflow_tests {

using namespace std::chrono_literals;
using conformance::Answer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Mode = WorkflowTest::Mode;
using Names = std::vector<std::string>;

// One way to run the tests of features: a mode of the environment, on a kind of store.
struct Way {
  std::string name;
  Mode mode{};
  conformance::StoreUnderTest store;
};
void PrintTo(const Way& way, std::ostream* out);
// In memory in all modes; once on each other kind of store, or on none but the quickest of them.
std::vector<Way> ways();
std::vector<Way> quick_ways();

// What a workflow can do, in the environment that users have for their tests. Time is virtual; one
// thread does everything.
//
// After each test the books of every queue balance.
class WorkflowFeature : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override;
  void TearDown() override;

  WorkflowTest& env() { return *env_; }
  Workflows& workflows() { return env_->workflows(); }
  Store& store() { return env_->store(); }
  [[nodiscard]] Mode mode() const { return GetParam().mode; }

  // Adds what it is given: workflows and activities.
  template <class... Parts>
  void add(const Parts&... parts) {
    (env_->add(parts), ...);
  }

  template <class R, class In>
  InstanceHandle<R> start(const WorkflowType<R(In)>& type, std::string id,
                          const std::type_identity_t<In>& input, StartOptions options = {}) {
    return Answer(workflows().start(type, std::move(id), input, options)).value();
  }
  template <class R>
  InstanceHandle<R> start(const WorkflowType<R()>& type, std::string id,
                          StartOptions options = {}) {
    return Answer(workflows().start(type, std::move(id), options)).value();
  }

  // How an instance has ended. One that has not ends the test.
  Ended ended(const std::string& id, std::source_location where = std::source_location::current());
  template <class R>
  R value_of(InstanceHandle<R> handle,
             std::source_location where = std::source_location::current()) {
    return Answer(handle.wait(Duration{0})).value(where).value();
  }
  // Adds a workflow, starts an instance "a" of it, runs it to its end: its result.
  template <class R, class... In>
  R run(const WorkflowType<R(In...)>& type, const std::type_identity_t<In>&... input) {
    add(type);
    const auto handle = start(type, "a", input...);
    env_->run();
    return value_of<R>(handle);
  }

  InstanceInfo info(const std::string& id,
                    std::source_location where = std::source_location::current());
  InstanceState state(const std::string& id) { return info(id).state; }
  // From its start to its end.
  Duration took(const std::string& id) {
    const InstanceInfo found = info(id);
    return found.ended_at.value_or(Time::max()) - found.created_at;
  }
  std::vector<HistoryEvent> history(const std::string& id, std::uint64_t execution = 0,
                                    std::source_location where = std::source_location::current());
  std::vector<EventKind> kinds(const std::string& id, std::uint64_t execution = 0,
                               std::source_location where = std::source_location::current());
  // How many events of that kind.
  std::size_t count(const std::string& id, EventKind kind);
  template <Sendable T>
  void send_event(const std::string& id, const std::string& event, const T& value) {
    const auto sent = workflows().send_event(id, event, value);
    ASSERT_TRUE(Answer(sent));
  }
  // The value that a key of the state has, for those who look from outside; "none" without one.
  std::string shown(const std::string& id, const std::string& key);

  // What waits in a queue.
  std::vector<PeekedMessage> waiting(const std::string& queue);
  conformance::Bodies bodies_in(const std::string& queue);
  QueueStats stats(const std::string& queue);

 private:
  std::string url_;
  std::unique_ptr<WorkflowTest> env_;
};

// The same for what has more to do with the code than with the store: not on the stores that take
// long to open.
class WorkflowDetail : public WorkflowFeature {};

// The kind of an error with its text: what workflows that are tested have as a result.
std::string said(const WorkflowError& error);

// Waits in the queue "nobody" until it is cancelled: its first attempt fails, the next is years
// away, and there are twenty of them.
extern const Activity<int()> never_done;

}  // namespace workflow_tests
}  // namespace strand
