#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "store/contract/wakes.h"

namespace strand::store {

// The callbacks that wait for something to change, and the one thread that calls them.
//
// A callback that is woken while it waits for its call is called once; one that is woken while it
// runs is called again. So a slow callback delays others, but nothing piles up.
//
// Threads:   every method may be called concurrently, and from callbacks. wake() never waits for a
//            callback, so it may be called under locks that callbacks take.
// Ownership: every Watch must be destroyed before this is.
class Watches {
 public:
  Watches();
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  [[nodiscard]] Watch add(WatchTarget target, std::function<void()> callback);
  void wake(const Wakes& wakes);
  void wake_lane(Epoch epoch);
  void wake_all();

 private:
  struct Entry;
  class Registered;
  using EntryPointer = std::shared_ptr<Entry>;
  using Group = std::vector<EntryPointer>;  // those with the same target
  using RecordName = std::pair<std::string, std::string>;

  // Calls visit(index, key) with the index that holds the target, and its key there.
  template <class Visit>
  void with_index(const WatchTarget& target, Visit visit);
  template <class Index, class Key>
  void wake_group(const Index& index, const Key& key);
  void remove(Entry& entry);
  void queue_call(const EntryPointer& entry);
  void dispatch();

  std::mutex mutex_;
  std::condition_variable work_;      // for the thread: calls_ is not empty, or stopping_
  std::condition_variable finished_;  // for remove(): a call has ended
  // An entry is in exactly one of the three; no group is empty.
  std::unordered_map<std::string, Group> queues_;
  std::unordered_map<Epoch, Group> lanes_;
  std::map<RecordName, Group> records_;
  std::deque<EntryPointer> calls_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strand::store
