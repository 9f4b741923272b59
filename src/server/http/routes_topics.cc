#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <strand/topics.h>

#include "queue/json.h"
#include "server/http/router.h"

// Topics and subscriptions.

namespace strand::server::http {

namespace {

using shown::to_json;

// One page of a list that the store returns whole; `name` is what it is sorted by.
template <class T>
Result<Response> page_of(const Call& call, const Result<std::vector<T>>& all,
                         std::string T::* name) {
  if (!all) return std::unexpected(all.error());
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  const std::string after = call.query.text("after").value_or("");
  boost::json::array items;
  std::string last;
  for (const T& item : *all) {
    if (item.*name <= after || !call.permit.sees(item.*name)) continue;
    if (items.size() == *limit) return json_response(page_json(std::move(items), true, last));
    items.push_back(to_json(item));
    last = item.*name;
  }
  return json_response(page_json(std::move(items), false, last));
}

Result<Response> list_topics(const Call& call) {
  return page_of(call, call.store().topics(), &Topic::name);
}

Result<Response> list_subscriptions(const Call& call) {
  return page_of(call, call.store().subscriptions(), &Subscription::queue);
}

Result<Response> configure_topic(const Call& call) {
  const std::string& topic = call.path[0];
  if (auto may = call.need(Role::admin, topic); !may) return std::unexpected(may.error());
  std::optional<Duration> retain;
  if (auto read = call.read_body({member("retain_ms", retain)}); !read)
    return std::unexpected(read.error());
  if (!retain) return failure(Errc::invalid_argument, "the body: retain_ms: missing");
  const auto affected = administer(
      call.store(), ConfigureTopic{.topic = topic, .settings = TopicSettings{.retain = *retain}});
  if (!affected) return std::unexpected(affected.error());
  return json_response({{"topic", topic}, {"retain_ms", retain->count()}, {"affected", *affected}});
}

Result<Response> subscribe(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  std::string pattern;
  std::optional<Time> from;
  auto read = call.read_body({member("pattern", pattern), member("from", from)});
  // Who subscribes gets what is published there.
  if (read) read = call.need(Role::receive, pattern);
  if (!read) return std::unexpected(read.error());
  const auto affected = Topics(call.store()).subscribe(queue, pattern, from);
  if (!affected) return std::unexpected(affected.error());
  return json_response({{"queue", queue}, {"pattern", pattern}, {"affected", *affected}});
}

Result<Response> unsubscribe(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  const auto affected = administer(call.store(), Unsubscribe{.queue = queue});
  if (!affected) return std::unexpected(affected.error());
  return json_response({{"queue", queue}, {"affected", *affected}});
}

}  // namespace

std::vector<Route> topic_routes() {
  const std::vector<Parameter> paging = {
      {"after", "string", "The `next` of the page before"},
      {"limit", "integer", "At most so many items: 1 to 1000, else 100"}};
  return {
      {.method = "GET",
       .path = "/api/v1/topics",
       .what = "Lists topics that retain messages.",
       .query = paging,
       .answers = "TopicPage",
       .answer = list_topics},
      {.method = "PUT",
       .path = "/api/v1/topics/{topic}",
       .what = "Says how long a topic keeps messages for new subscriptions.",
       .takes = "TopicSettings",
       .answers = "TopicChanged",
       .answer = configure_topic},
      {.method = "GET",
       .path = "/api/v1/subscriptions",
       .what = "Lists subscriptions.",
       .query = paging,
       .answers = "SubscriptionPage",
       .answer = list_subscriptions},
      {.method = "PUT",
       .path = "/api/v1/subscriptions/{queue}",
       .what = "Sends what is published on matching topics to a queue.",
       .takes = "Subscribe",
       .answers = "SubscriptionChanged",
       .answer = subscribe},
      {.method = "DELETE",
       .path = "/api/v1/subscriptions/{queue}",
       .what = "Ends the subscription of a queue, which stays with what it holds.",
       .answers = "SubscriptionChanged",
       .answer = unsubscribe},
  };
}

}  // namespace strand::server::http
