#include "server/metrics.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include <prometheus/text_serializer.h>

#include "base/text.h"

namespace strand::server {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricType type_of(Metric::Kind kind) {
  switch (kind) {
    case Metric::Kind::counter:
      return MetricType::Counter;
    case Metric::Kind::gauge:
      return MetricType::Gauge;
    case Metric::Kind::distribution:
      return MetricType::Histogram;
  }
  return MetricType::Untyped;
}

// Counts of their own bounds become counts of all up to a bound.
ClientMetric::Histogram histogram_of(const Distribution& distribution) {
  ClientMetric::Histogram result;
  result.sample_count = distribution.count;
  result.sample_sum = distribution.sum;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < distribution.bounds.size(); ++i) {
    sum += distribution.counts[i];
    result.bucket.push_back({.cumulative_count = sum, .upper_bound = distribution.bounds[i]});
  }
  result.bucket.push_back({.cumulative_count = distribution.count,
                           .upper_bound = std::numeric_limits<double>::infinity()});
  return result;
}

ClientMetric sample_of(const Metric& metric) {
  ClientMetric sample;
  for (const auto& [name, value] : metric.labels) {
    sample.label.push_back({name, base::is_utf8(value) ? value : base::escaped(value)});
  }
  sample.counter.value = metric.value;
  sample.gauge.value = metric.value;
  if (metric.kind == Metric::Kind::distribution) {
    sample.histogram = histogram_of(metric.distribution);
  }
  return sample;
}

}  // namespace

prometheus::Counter& Metrics::counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Gauge& Metrics::gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& bounds, const Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels, bounds);
}

std::shared_ptr<void> Metrics::add(Source source) {
  const std::lock_guard lock(sources_->mutex);
  const std::uint64_t number = sources_->next++;
  sources_->all.emplace(number, std::move(source));
  return {sources_.get(), [sources = sources_, number](void*) {
            const std::lock_guard removing(sources->mutex);
            sources->all.erase(number);
          }};
}

std::string Metrics::text() {
  // By name: what several sources tell of one family stands together, as the format wants it.
  std::map<std::string, MetricFamily> families;
  for (MetricFamily& family : registry_.Collect()) {
    if (family.metric.empty()) continue;
    const std::string name = family.name;
    families.emplace(name, std::move(family));
  }
  {
    const std::lock_guard lock(sources_->mutex);
    for (const auto& [number, source] : sources_->all) {
      for (const Metric& metric : source()) {
        MetricFamily& family = families[metric.name];
        if (family.name.empty()) {
          family.name = metric.name;
          family.help = metric.help;
          family.type = type_of(metric.kind);
        }
        family.metric.push_back(sample_of(metric));
      }
    }
  }
  std::vector<MetricFamily> all;
  for (auto& [name, family] : families) {
    // So that two looks can be compared.
    std::ranges::sort(family.metric, {}, &ClientMetric::label);
    all.push_back(std::move(family));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, all);
  return out.str();
}

const std::vector<double>& Metrics::latency_bounds() {
  static const std::vector<double> bounds = {0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002,
                                             0.005,   0.01,   0.02,   0.05,   0.1,   0.2,
                                             0.5,     1,      2,      5,      10};
  return bounds;
}

const std::vector<double>& Metrics::size_bounds() {
  static const std::vector<double> bounds = {1,   2,   5,   10,   20,   50,
                                             100, 200, 500, 1000, 2000, 10'000};
  return bounds;
}

}  // namespace strand::server
