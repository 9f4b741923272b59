#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "queue/json.h"
#include "server/http/queue_settings.h"
#include "server/http/router.h"

// Queues: what is in them, and what they are told to do.

namespace strand::server::http {

namespace {

using shown::put_bytes;
using shown::to_json;

Result<std::optional<QueueInfo>> find_queue(Store& store, const std::string& name) {
  auto queues = store.queues();
  if (!queues) return std::unexpected(std::move(queues.error()));
  const auto found = std::ranges::find(*queues, name, &QueueInfo::name);
  if (found == queues->end()) return std::nullopt;
  return std::move(*found);
}

Result<Response> show_queue(Store& store, const std::string& name) {
  // First, because it has the words for a queue that does not exist.
  const auto stats = store.stats(name);
  if (!stats) return std::unexpected(stats.error());
  const auto info = find_queue(store, name);
  if (!info) return std::unexpected(info.error());
  if (!*info) {
    return failure(Errc::not_found, fmt::format("queue '{}' was removed", base::printable(name)));
  }
  return json_response(to_json(**info, *stats));
}

Result<Response> list(const Call& call) {
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  const std::string after = call.query.text("after").value_or("");
  const auto queues = call.store().queues();
  if (!queues) return std::unexpected(queues.error());
  boost::json::array items;
  std::string last;
  bool more = false;
  for (const QueueInfo& info : *queues) {
    if (info.name <= after || !call.permit.sees(info.name)) continue;
    if (items.size() == *limit) {
      more = true;
      break;
    }
    const auto stats = call.store().stats(info.name);
    if (!stats && stats.error().code == Errc::not_found) continue;  // removed meanwhile
    if (!stats) return std::unexpected(stats.error());
    items.push_back(to_json(info, *stats));
    last = info.name;
  }
  return json_response(page_json(std::move(items), more, last));
}

Result<Response> show(const Call& call) {
  const std::string& queue = call.path[0];
  if (!call.permit.sees(queue)) return std::unexpected(call.permit.refusal(Role::receive, queue));
  return show_queue(call.store(), queue);
}

Result<Response> configure(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  const auto info = find_queue(call.store(), queue);
  if (!info) return std::unexpected(info.error());
  QueueSettings settings = *info ? (*info)->settings : QueueSettings{};
  if (auto read = call.read_body(settings_members(settings)); !read)
    return std::unexpected(read.error());
  // Whoever is told of dead letters is sent messages.
  if (settings.dead_notice_to && (!*info || settings != (*info)->settings)) {
    if (auto may = call.need(Role::send, settings.dead_notice_to->queue); !may)
      return std::unexpected(may.error());
  }
  const auto done = administer(call.store(), ConfigureQueue{.queue = queue, .settings = settings});
  if (!done) return std::unexpected(done.error());
  return show_queue(call.store(), queue);
}

// `what` names the count.
Result<Response> change(const Call& call, Administration administration, std::string_view what) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  const auto affected = administer(call.store(), std::move(administration));
  if (!affected) return std::unexpected(affected.error());
  return json_response({{"queue", queue}, {what, *affected}});
}

Result<Response> remove(const Call& call) {
  const auto force = call.query.flag("force");
  if (!force) return std::unexpected(force.error());
  return change(call, RemoveQueue{.queue = call.path[0], .force = force->value_or(false)},
                "removed");
}

Result<Response> purge(const Call& call) {
  return change(call, PurgeQueue{.queue = call.path[0], .key = call.query.text("key")}, "purged");
}

Result<Response> set_paused(const Call& call, bool paused) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  const auto done = paused ? administer(call.store(), PauseQueue{.queue = queue})
                           : administer(call.store(), ResumeQueue{.queue = queue});
  if (!done) return std::unexpected(done.error());
  return json_response({{"queue", queue}, {"paused", paused}});
}

Result<Response> resume_lane(const Call& call) {
  return change(call, ResumeLane{.queue = call.path[0], .key = call.path[1]}, "resumed");
}

Result<Response> resume_message(const Call& call) {
  const auto id = parse_id(call.path[1]);
  if (!id) return std::unexpected(id.error());
  return change(call, ResumeLane{.queue = call.path[0], .id = *id}, "resumed");
}

Result<Response> peek(const Call& call) {
  PeekQuery query{.queue = call.path[0]};
  if (auto may = call.need(Role::receive, query.queue); !may) return std::unexpected(may.error());
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  const auto after = call.query.id("after");
  if (!after) return std::unexpected(after.error());
  query.after = *after;
  query.key = call.query.text("key");
  if (const auto text = call.query.text("state")) {
    const auto state = shown::parse_message_state(*text);
    if (!state) return std::unexpected(state.error());
    query.state = *state;
  }
  const auto page = read_slices<PeekedMessage>(
      *limit, [&](const std::vector<PeekedMessage>& before, std::size_t count) {
        if (!before.empty()) query.after = before.back().id;
        query.limit = count;
        return call.store().peek(query);
      });
  if (!page) return std::unexpected(page.error());
  boost::json::array items;
  for (const PeekedMessage& message : page->items)
    items.push_back(to_json(message));
  const std::string next =
      page->items.empty() ? "" : fmt::to_string(shown::number(page->items.back().id));
  return json_response(page_json(std::move(items), page->more, next));
}

}  // namespace

std::vector<Route> queue_routes() {
  const std::string base = "/api/v1/queues";
  const std::string one = base + "/{queue}";
  const std::vector<Parameter> paging = {
      {"after", "string", "The `next` of the page before"},
      {"limit", "integer", "At most so many items: 1 to 1000, else 100"}};
  std::vector<Parameter> peeking = {
      {"key", "string", "Only the lane of this key, in its order"},
      {"state", "string", "Only ready, delayed, backoff, waiting, leased or parked ones"}};
  peeking.insert(peeking.end(), paging.begin(), paging.end());
  return {
      {.method = "GET",
       .path = base,
       .what = "Lists queues with their counts and settings.",
       .query = paging,
       .answers = "QueuePage",
       .answer = list},
      {.method = "GET",
       .path = one,
       .what = "Shows the counts and settings of a queue.",
       .answers = "Queue",
       .answer = show},
      {.method = "PUT",
       .path = one,
       .what = "Changes settings of a queue, which is created if it does not exist. Those that are "
               "not named stay.",
       .takes = "QueueSettings",
       .answers = "Queue",
       .answer = configure},
      {.method = "DELETE",
       .path = one,
       .what = "Removes a queue with everything in it.",
       .query = {{"force", "boolean", "Even if it has leases or open executions"}},
       .answers = "Changed",
       .answer = remove},
      {.method = "POST",
       .path = one + "/pause",
       .what = "Hands out nothing until it is resumed.",
       .answers = "Paused",
       .answer = [](const Call& call) { return set_paused(call, true); }},
      {.method = "POST",
       .path = one + "/resume",
       .what = "Lets a paused queue go on.",
       .answers = "Paused",
       .answer = [](const Call& call) { return set_paused(call, false); }},
      {.method = "POST",
       .path = one + "/purge",
       .what = "Drops the messages of a queue, or of one lane, that are not leased.",
       .query = {{"key", "string", "Only the lane of this key"}},
       .answers = "Changed",
       .answer = purge},
      {.method = "POST",
       .path = one + "/lanes/{key}/resume",
       .what = "Lets a parked lane go on.",
       .answers = "Changed",
       .answer = resume_lane},
      {.method = "GET",
       .path = one + "/messages",
       .what = "Lists live messages, where each stands, and when it is tried next.",
       .query = peeking,
       .answers = "MessagePage",
       .answer = peek},
      {.method = "POST",
       .path = one + "/messages/{id}/resume",
       .what = "Lets a parked message that has no key go on.",
       .answers = "Changed",
       .answer = resume_message},
  };
}

}  // namespace strand::server::http
