#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <strand/metrics.h>

namespace strand::server {

// All figures of a server, as Prometheus reads them. Their names are in docs/metrics.md, and are
// promises.
//
// There are two ways in. What is counted while it happens asks once for a counter, gauge or
// histogram, and keeps the reference. What is known elsewhere is added as a source, which is asked
// whenever somebody looks: so are queues, the process, and a WorkflowWorker of this process:
//
//   const auto shown = metrics.add([&worker] { return worker.metrics(); });
//
// Threads: every method may be called concurrently, and references be used by any thread. A source
//          is called by one thread at a time, and never after its handle is gone.
// Limits:  labels must come from a set that is bounded by the code, or by settings. Never from a
//          request.
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;
  using Source = std::function<std::vector<Metric>()>;

  // These live as long as this object. The same name and labels give the same one.
  prometheus::Counter& counter(const std::string& name, const std::string& help,
                               const Labels& labels = {});
  prometheus::Gauge& gauge(const std::string& name, const std::string& help,
                           const Labels& labels = {});
  // `bounds` in order; all histograms of a name have the same.
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const std::vector<double>& bounds, const Labels& labels = {});

  // Until the handle is dropped, which waits for a call that is running.
  [[nodiscard]] std::shared_ptr<void> add(Source source);

  // In Prometheus' text format. Label values that are no UTF-8 are shown escaped. Takes as long as
  // its sources, and those may ask the store.
  [[nodiscard]] std::string text();

  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  // Bounds from 50 µs to 10 s.
  static const std::vector<double>& latency_bounds();
  // Bounds from 1 to 10,000.
  static const std::vector<double>& size_bounds();

 private:
  struct Sources {
    std::mutex mutex;
    std::map<std::uint64_t, Source> all;
    std::uint64_t next = 0;
  };

  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
  std::shared_ptr<Sources> sources_ = std::make_shared<Sources>();
};

}  // namespace strand::server
