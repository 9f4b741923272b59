#pragma once

#include <algorithm>
#include <random>

#include <strand/time.h>

namespace strand::postgres {

// How long to wait before the next attempt to connect: 10 ms, then each time twice as long, up to
// 1 s. Of that between a half and the whole, so that clients which lost their server at the same
// time do not come back at the same time.
class Backoff {
 public:
  Duration next() {
    const Duration whole = delay_;
    delay_ = std::min(2 * delay_, longest);
    std::uniform_int_distribution<Duration::rep> part(whole.count() / 2, whole.count());
    return Duration(part(random_));
  }
  void reset() { delay_ = shortest; }

 private:
  static constexpr Duration shortest{10};
  static constexpr Duration longest{1000};

  Duration delay_ = shortest;
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace strand::postgres
