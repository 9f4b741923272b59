#pragma once

namespace strand::postgres {

// Wakes whoever waits in poll(): its descriptor becomes readable, for good.
//
// Threads: every method may be called concurrently.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  void give() const;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace strand::postgres
