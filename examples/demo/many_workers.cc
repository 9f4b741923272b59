#include <chrono>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "scenes.h"

// Scene 1: real threads, because this is the promise that matters most.

namespace demo {

namespace {

constexpr int customers = 20;
constexpr int steps = 25;
constexpr int workers = 4;

// What the workers saw, written down by all of them.
class Diary {
 public:
  void begin(const std::string& customer) {
    const std::lock_guard lock(mutex_);
    if (pages_[customer].held) overlaps_ = true;
    pages_[customer].held = true;
  }
  void note(const std::string& customer, const std::string& step) {
    const std::lock_guard lock(mutex_);
    Page& page = pages_[customer];
    if (step != std::to_string(page.next_step)) disorder_ = true;
    ++page.next_step;
  }
  void end(const std::string& customer) {
    const std::lock_guard lock(mutex_);
    pages_[customer].held = false;
  }

  [[nodiscard]] bool overlaps() const { return overlaps_; }
  [[nodiscard]] bool disorder() const { return disorder_; }

 private:
  struct Page {
    bool held = false;
    int next_step = 1;
  };
  std::mutex mutex_;
  std::map<std::string, Page> pages_;
  bool overlaps_ = false;
  bool disorder_ = false;
};

// Leases lanes and acks what they carry until nothing is ready; returns how many messages it had.
int work(strand::Store& store, Diary& diary) {
  int handled = 0;
  while (true) {
    const auto leases = need(store.lease({.queue = "orders", .messages = 5}));
    if (leases.empty()) return handled;
    const strand::Lease& lease = leases.front();
    diary.begin(*lease.key);
    for (const strand::Message& message : lease.messages) {
      diary.note(*lease.key, message.body);
      ++handled;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});  // the work
    diary.end(*lease.key);  // before the ack: from then on the lane may be another worker's
    need(ack(store, lease));
  }
}

}  // namespace

void many_workers(Stage& stage) {
  std::cout << "\n1. One key, one lane; many lanes, many workers\n";
  std::vector<strand::Send> messages;
  for (int step = 1; step <= steps; ++step) {
    for (int customer = 1; customer <= customers; ++customer) {
      messages.push_back(
          message("orders", "customer-" + std::to_string(customer), std::to_string(step)));
    }
  }
  send(stage.store(), std::move(messages));
  say(std::to_string(customers * steps) + " messages of " + std::to_string(customers) +
      " customers are sent in one transaction; " + std::to_string(workers) + " threads serve them");

  Diary diary;
  std::vector<std::future<int>> running;
  for (int worker = 0; worker < workers; ++worker) {
    running.push_back(std::async(std::launch::async, [&] { return work(stage.store(), diary); }));
  }
  int handled = 0;
  std::string shares;
  for (std::future<int>& worker : running) {
    const int share = worker.get();
    handled += share;
    shares += (shares.empty() ? "" : ", ") + std::to_string(share);
  }
  say("their shares, as it came out: " + shares);
  claim(handled == customers * steps, "every message was handled, once");
  claim(!diary.disorder(), "each customer's messages came in the order in which they were sent");
  claim(!diary.overlaps(), "no customer was in the hands of two workers at a time");
}

}  // namespace demo
