#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "queue/json.h"
#include "server/http/live_stats.h"
#include "server/http/router.h"
#include "workflow/records.h"
#include "workflow/wire.h"

// What is known of the store as a whole: counts, and who works on it.

namespace strand::server::http {

Result<StatsSnapshot> read_stats(Store& store) {
  const auto queues = store.queues();
  if (!queues) return std::unexpected(queues.error());
  StatsSnapshot snapshot{.at = store.now()};
  for (const QueueInfo& info : *queues) {
    const auto stats = store.stats(info.name);
    if (!stats && stats.error().code == Errc::not_found) continue;  // removed meanwhile
    if (!stats) return std::unexpected(stats.error());
    const boost::json::object object = {
        {"name", info.name}, {"paused", info.paused}, {"stats", shown::to_json(*stats)}};
    snapshot.queues.emplace_back(info.name, boost::json::serialize(object));
  }
  return snapshot;
}

std::string stats_text(const StatsSnapshot& snapshot, const Permit& permit) {
  std::string text = fmt::format(R"({{"at":"{}","queues":[)", format_time(snapshot.at));
  bool first = true;
  for (const auto& [name, shown] : snapshot.queues) {
    if (!permit.sees(name)) continue;
    if (!std::exchange(first, false)) text += ',';
    text += shown;
  }
  return text + "]}";
}

namespace {

Result<Response> stats(const Call& call) {
  const auto snapshot = read_stats(call.store());
  if (!snapshot) return std::unexpected(snapshot.error());
  Response response;
  response.body = stats_text(*snapshot, call.permit);
  return response;
}

std::string_view kind_of(Metric::Kind kind) {
  switch (kind) {
    case Metric::Kind::counter:
      return "counter";
    case Metric::Kind::gauge:
      return "gauge";
    case Metric::Kind::distribution:
      break;
  }
  return "distribution";
}

boost::json::object to_json(const Metric& metric) {
  boost::json::object labels;
  for (const auto& [name, value] : metric.labels)
    labels[name] = value;
  boost::json::object object = {
      {"name", metric.name}, {"kind", kind_of(metric.kind)}, {"labels", std::move(labels)}};
  if (metric.kind == Metric::Kind::distribution) {
    object["count"] = metric.distribution.count;
    object["sum"] = metric.distribution.sum;
  } else {
    object["value"] = metric.value;
  }
  return object;
}

// Workers say that they live by records, if they are routed to by their names.
Result<Response> workers(const Call& call) {
  if (auto may = call.need(Role::receive, workflow::workers_space); !may)
    return std::unexpected(may.error());
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  const auto page = call.store().records({.space = std::string(workflow::workers_space),
                                          .after = call.query.text("after").value_or(""),
                                          .limit = *limit});
  if (!page) return std::unexpected(page.error());
  boost::json::array items;
  const Time now = call.store().now();
  for (const Record& record : page->items) {
    const Time heard{
        Duration{static_cast<std::int64_t>(workflow::wire::number(record.value).value_or(0))}};
    boost::json::object item;
    shown::put_bytes(item, "name", record.key);
    item["heard_at"] = format_time(heard);
    item["silent_ms"] = std::max(now - heard, Duration{0}).count();
    items.push_back(std::move(item));
  }
  boost::json::array cache;
  if (call.surroundings.worker_metrics) {
    for (const Metric& metric : call.surroundings.worker_metrics())
      cache.push_back(to_json(metric));
  }
  const std::string next = page->items.empty() ? "" : page->items.back().key;
  boost::json::object answer = page_json(std::move(items), page->more, next);
  answer["figures"] = std::move(cache);
  return json_response(answer);
}

}  // namespace

std::vector<Route> store_routes() {
  return {
      {.method = "GET",
       .path = "/api/v1/stats",
       .what = "The counts of all queues.",
       .answers = "Stats",
       .answer = stats},
      {.method = "GET",
       .path = "/api/v1/stats/stream",
       .what = "The counts of all queues again and again, as server-sent events: `stats` with what "
               "GET /api/v1/stats answers, and one `end` when the server stops.",
       .query = {{"interval_ms", "integer", "Between two events: 250 to 60000, else 1000"}},
       .content_type = "text/event-stream",
       .live = true},
      {.method = "GET",
       .path = "/api/v1/workers",
       .what = "The workers of workflows that say that they live, and the figures of those in this "
               "process, caches included.",
       .query = {{"after", "string", "The `next` of the page before"},
                 {"limit", "integer", "At most so many items: 1 to 1000, else 100"}},
       .answers = "WorkerPage",
       .answer = workers},
  };
}

}  // namespace strand::server::http
