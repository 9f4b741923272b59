#include "store/contract/watches.h"

#include <cstddef>
#include <variant>

#include "base/assert.h"

namespace strand::store {

struct Watches::Entry {
  WatchTarget target;
  std::function<void()> callback;
  std::size_t place = 0;      // in its group
  bool queued = false;        // in calls_
  bool running = false;       // being called
  bool removed = false;       // its Watch is gone: no further call
  bool removes_self = false;  // … and went inside its own call
};

class Watches::Registered final : public Watch::Registration {
 public:
  Registered(Watches& watches, EntryPointer entry) : watches_(watches), entry_(std::move(entry)) {}
  ~Registered() override { watches_.remove(*entry_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  Watches& watches_;
  EntryPointer entry_;
};

Watches::Watches() : thread_([this] { dispatch(); }) {}

Watches::~Watches() {
  {
    const std::lock_guard lock(mutex_);
    STRAND_ASSERT(queues_.empty() && lanes_.empty() && records_.empty(),
                  "every Watch is destroyed before its store");
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

template <class Visit>
void Watches::with_index(const WatchTarget& target, Visit visit) {
  if (const auto* queue = std::get_if<WatchQueue>(&target)) {
    visit(queues_, queue->queue);
  } else if (const auto* lane = std::get_if<WatchLane>(&target)) {
    visit(lanes_, lane->token.epoch());
  } else {
    const auto& record = std::get<WatchRecord>(target);
    visit(records_, RecordName{record.space, record.key});
  }
}

Watch Watches::add(WatchTarget target, std::function<void()> callback) {
  STRAND_ASSERT(callback, "a watch has something to call");
  const auto entry = std::make_shared<Entry>();
  entry->target = std::move(target);
  entry->callback = std::move(callback);
  {
    const std::lock_guard lock(mutex_);
    with_index(entry->target, [&](auto& index, const auto& key) {
      Group& group = index[key];
      entry->place = group.size();
      group.push_back(entry);
    });
  }
  return Watch(std::make_unique<Registered>(*this, entry));
}

void Watches::remove(Entry& entry) {
  std::function<void()> callback;  // let go outside the lock: it may own anything, a Watch as well
  std::unique_lock lock(mutex_);
  entry.removed = true;
  with_index(entry.target, [&](auto& index, const auto& key) {
    const auto found = index.find(key);
    Group& group = found->second;
    group.back()->place = entry.place;
    group[entry.place].swap(group.back());
    group.pop_back();
    if (group.empty()) index.erase(found);
  });
  if (entry.running && std::this_thread::get_id() == thread_.get_id()) {
    entry.removes_self = true;
    return;
  }
  finished_.wait(lock, [&] { return !entry.running; });
  callback.swap(entry.callback);
  lock.unlock();
}

template <class Index, class Key>
void Watches::wake_group(const Index& index, const Key& key) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  for (const EntryPointer& entry : found->second)
    queue_call(entry);
}

void Watches::wake(const Wakes& wakes) {
  if (wakes.empty()) return;
  const std::lock_guard lock(mutex_);
  if (!queues_.empty()) {
    for (const std::string& queue : wakes.queues)
      wake_group(queues_, queue);
  }
  if (!lanes_.empty()) {
    for (const Epoch lane : wakes.lanes)
      wake_group(lanes_, lane);
  }
  if (!records_.empty()) {
    for (const RecordName& record : wakes.records)
      wake_group(records_, record);
  }
}

void Watches::wake_lane(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  wake_group(lanes_, epoch);
}

void Watches::wake_all() {
  const std::lock_guard lock(mutex_);
  const auto wake_index = [&](const auto& index) {
    for (const auto& [key, group] : index) {
      for (const EntryPointer& entry : group)
        queue_call(entry);
    }
  };
  wake_index(queues_);
  wake_index(lanes_);
  wake_index(records_);
}

void Watches::queue_call(const EntryPointer& entry) {
  if (entry->queued) return;
  entry->queued = true;
  calls_.push_back(entry);
  // With more than one waiting, the thread knows already.
  if (calls_.size() == 1) work_.notify_one();
}

void Watches::dispatch() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !calls_.empty(); });
    if (stopping_) return;
    const EntryPointer entry = std::move(calls_.front());
    calls_.pop_front();
    entry->queued = false;
    if (entry->removed) continue;

    entry->running = true;
    lock.unlock();
    entry->callback();
    lock.lock();
    entry->running = false;
    if (entry->removes_self) {
      lock.unlock();
      entry->callback = nullptr;  // nobody else touches it any more; see remove()
      lock.lock();
    } else if (entry->removed) {
      finished_.notify_all();
    }
  }
}

}  // namespace strand::store
