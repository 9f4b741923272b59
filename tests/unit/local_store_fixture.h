#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "store/local/local_store.h"
#include "unit/requests.h"
#include "unit/scripted_backend.h"
#include "unit/signals.h"

namespace strand {

// A manual clock that tells how many calls are inside a store.
//
// Every call reads the clock once it holds the store's lock, and keeps the lock until it has
// decided and sleeps or writes. So whoever gets the lock after `entered` has counted a call finds
// that call's decisions. Only threads that say so are counted.
class CallCountingClock final : public Clock {
 public:
  [[nodiscard]] Time wall() const override { return clock_.wall(); }
  [[nodiscard]] Duration monotonic() const override {
    const Duration now = clock_.monotonic() + unnoticed_.load();
    if (counted_) entered_.raise();
    if (std::this_thread::get_id() != test_thread_) read_elsewhere_.raise();
    return now;
  }
  [[nodiscard]] bool manual() const override { return true; }
  [[nodiscard]] std::shared_ptr<void> on_advance(std::function<void()> advanced) override {
    // The store gives the handle back first of all when it is closed.
    auto handle = clock_.on_advance(std::move(advanced));
    return {handle.get(), [this, handle](void*) { closing_.raise(); }};
  }

  void advance(Duration step) { clock_.advance(step); }
  void set_wall(Time wall) { clock_.set_wall(wall); }
  // Time passes, and the store's timer is slow to notice: whoever calls next does. The timer must
  // be asleep.
  void pass_unnoticed(Duration step) { unnoticed_ = unnoticed_.load() + step; }
  // From now on, the calls of this thread are counted.
  static void count_this_thread() { counted_ = true; }
  [[nodiscard]] const Signal& entered() const { return entered_; }
  // How often a store has begun to close.
  [[nodiscard]] const Signal& closing() const { return closing_; }
  // How often other threads than the test's have read the clock.
  [[nodiscard]] const Signal& read_elsewhere() const { return read_elsewhere_; }

 private:
  static inline thread_local bool counted_ = false;
  ManualClock clock_;
  std::atomic<Duration> unnoticed_ = Duration{0};
  const std::thread::id test_thread_ = std::this_thread::get_id();
  mutable Signal entered_;
  mutable Signal read_elsewhere_;
  Signal closing_;
};

// A LocalStore on a disk that obeys the test.
class LocalStoreFixture : public ::testing::Test {
 protected:
  using Fault = ScriptedBackend::Fault;

  void SetUp() override { open(); }

  void open() {
    auto backend = std::make_unique<ScriptedBackend>(contents_);
    backend_ = backend.get();
    auto opened = local::LocalStore::open(std::move(backend), clock_, Limits{},
                                          {.store = 1, .secret = {2, 3}});
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  void close() { store_.reset(); }
  void reopen() {
    close();
    open();
  }

  Store& store() { return *store_; }
  ScriptedBackend& disk() { return *backend_; }
  CallCountingClock& clock() { return *clock_; }

  // Does something that sets the timer, and returns when the timer sleeps again: it reads the clock
  // to see what is due, and again to see how long it may sleep.
  template <class Act>
  auto set_timer_by(Act act) {
    const std::size_t reads = clock().read_elsewhere().count();
    auto result = act();
    EXPECT_TRUE(clock().read_elsewhere().reaches(reads + 2)) << "the timer was not set";
    return result;
  }

  // Live messages that are on the disk, whether or not the store is open.
  std::size_t messages_on_disk() {
    std::size_t count = 0;
    EXPECT_TRUE(contents_->scan(engine::Family::message, {}, {}, [&](auto, auto) {
      ++count;
      return true;
    }));
    return count;
  }

  std::uint64_t ready(const std::string& queue) {
    const auto stats = store().stats(queue);
    return stats ? stats->ready : 0;
  }
  Lease lease_one(const std::string& queue) {
    auto leases = store().lease(from(queue));
    if (!leases || leases->size() != 1) {
      ADD_FAILURE() << "no lease: " << (leases ? "nothing is ready" : leases.error().message);
      return {};
    }
    return std::move(leases->front());
  }

 private:
  std::shared_ptr<CallCountingClock> clock_ = std::make_shared<CallCountingClock>();
  ScriptedBackend::Contents contents_ = std::make_shared<memory::MemoryBackend>();
  ScriptedBackend* backend_ = nullptr;  // owned by the store
  std::unique_ptr<Store> store_;
};

}  // namespace strand
