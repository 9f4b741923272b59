#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <strand/error.h>
#include <strand/routing.h>
#include <strand/time.h>

#include "store/disk/place.h"

// Worker processes of `strand bench workflow --scenario routing`: the program once more, with a
// command that is not shown (`strand bench routing-worker`).

namespace strand::cli {

inline constexpr std::array<std::pair<std::string_view, Routing>, 5> routing_names = {
    {{"none", Routing::none},
     {"automatic", Routing::automatic},
     {"affinity", Routing::affinity},
     {"cache_aware", Routing::cache_aware},
     {"consistent_hash", Routing::consistent_hash}}};
std::string_view name_of(Routing strategy);
Result<Routing> parse_routing(std::string_view name);

struct RoutingWorkerOptions {
  std::string owner;
  Routing strategy = Routing::none;
  Duration idle_timeout = std::chrono::milliseconds{200};
  Duration turn_lease = std::chrono::seconds{2};
  Duration heartbeat = std::chrono::milliseconds{500};
  Duration grace = RoutingOptions{}.grace;
};

// What a worker has done so far, by its own metrics.
struct RoutingCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t lanes_moved = 0;

  friend bool operator==(const RoutingCounts&, const RoutingCounts&) = default;
};

// What the process does. Reads the URL of the store, which may hold a password, from standard
// input, and says "ready"; then answers each line with its counts, as JSON, until the input ends.
Result<void> run_routing_worker(const RoutingWorkerOptions& options);

// The other end of it. The process does not outlive this object, nor the one that has made it.
class RoutingWorker {
 public:
  static Result<RoutingWorker> start(const std::string& url, const RoutingWorkerOptions& options);
  RoutingWorker(RoutingWorker&& other) noexcept
      : id_(std::exchange(other.id_, -1)),
        in_(std::move(other.in_)),
        out_(std::move(other.out_)),
        text_(std::move(other.text_)) {}
  RoutingWorker& operator=(RoutingWorker&&) = delete;
  ~RoutingWorker();

  Result<void> wait_until_ready();
  Result<RoutingCounts> counts();
  // With SIGKILL.
  void kill();
  // Lets it end by itself.
  Result<void> stop();

 private:
  RoutingWorker(pid_t id, disk::File in, disk::File out)
      : id_(id), in_(std::move(in)), out_(std::move(out)) {}
  Result<std::string> read_line();
  Result<void> write_line(std::string_view line);

  pid_t id_;
  disk::File in_;   // its standard input
  disk::File out_;  // its standard output
  std::string text_;
};

}  // namespace strand::cli
