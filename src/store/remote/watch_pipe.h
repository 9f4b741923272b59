#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <strand/store.h>

#include "store/contract/watches.h"
#include "store/remote/connection.h"

namespace strand::remote {

// Watches of all threads on one stream.
//
// A watch returns at once. When the server says that it is in place, it is called: so it covers
// whatever was committed meanwhile. After a reconnect all of them are put in place again, and each
// is called once more. Those with the same target share one watch of the server.
//
// Threads:   every method may be called concurrently, and from callbacks. Two of its own: one that
//            opens streams, and the one that calls back.
// Ownership: every Watch must be destroyed before this is.
class WatchPipe {
 public:
  explicit WatchPipe(Connection& connection);
  ~WatchPipe();
  WatchPipe(const WatchPipe&) = delete;
  WatchPipe& operator=(const WatchPipe&) = delete;

  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback);

 private:
  class Stream;
  class Registered;
  struct Entry {
    std::uint64_t id = 0;
    WatchTarget target;
    std::size_t watches = 0;
  };

  void release(const std::string& name);
  void run();
  // These need the lock.
  void send_next();
  void happened(const v1::WatchEvent& event);
  void wake(const WatchTarget& target);

  Connection& connection_;
  store::Watches watches_;

  std::mutex mutex_;                            // for everything below
  std::map<std::string, Entry> entries_;        // by the name of the target
  std::map<std::uint64_t, std::string> by_id_;  // names
  std::deque<v1::WatchRequest> outgoing_;       // for the stream
  std::uint64_t last_id_ = 0;
  std::unique_ptr<Stream> stream_;
  bool writing_ = false;
  bool stopping_ = false;
  Duration pause_{0};
  std::condition_variable changed_;
  std::thread thread_;  // from the first watch on
};

}  // namespace strand::remote
