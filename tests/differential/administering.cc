// Settings, administration, and the passing of time.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "differential/workload.h"
#include "sim/plan.h"

namespace strand::differential {

using std::chrono::milliseconds;

QueueSettings Workload::draw_queue_settings() {
  QueueSettings settings = sim::draw_settings(random_);
  if (!plan_.traits.same_ids) settings.backoff_jitter_percent = 0;
  return settings;
}

Result<Receipt> Workload::administer(Administration administration) {
  const std::size_t kind = administration.index();
  Transaction transaction;
  transaction.admin = std::move(administration);
  Result<Receipt> result = submit(transaction);
  static const std::vector<std::string> names = {
      "configured", "paused",  "queue resumed", "lane resumed", "purged",          "queue removed",
      "redriven",   "dropped", "subscribed",    "unsubscribed", "topic configured"};
  if (result) count(names.at(kind) + (result->affected > 0 ? " some" : ""));
  return result;
}

void Workload::configure() {
  std::string queue = draw_queue();
  // As long as there is a queue without settings, it gets some: the first steps set the stage.
  if (const auto queues = stores_.queues(); queues && queues->size() < plan_.queue_count) {
    std::set<std::string> there;
    for (const QueueInfo& info : *queues)
      there.insert(info.name);
    for (std::size_t i = plan_.queue_count; i-- > 0;) {
      if (!there.contains(queue_names().at(i))) queue = queue_names().at(i);
    }
  }
  std::ignore = administer(ConfigureQueue{queue, draw_queue_settings()});
}

void Workload::administer() {
  const std::string queue = draw_queue();
  switch (random_.below(12)) {
    case 0:
    case 1:
      std::ignore = administer(PauseQueue{queue});
      return;
    case 2:
    case 3:
    case 4:
      std::ignore = administer(ResumeQueue{queue});
      return;
    case 5:
      std::ignore = administer(PurgeQueue{queue, std::nullopt});
      return;
    case 6:
    case 7:
      std::ignore = administer(PurgeQueue{queue, draw_key()});
      return;
    case 8:
      std::ignore = administer(RemoveQueue{queue, random_.one_in(2)});
      return;
    case 9:
      std::ignore = administer(Unsubscribe{queue});
      return;
    case 10:
      std::ignore = administer(ResumeLane{queue, draw_key(), std::nullopt});
      return;
    default:
      std::ignore = administer(ConfigureQueue{queue, draw_queue_settings()});
      return;
  }
}

// Dead letters that there are: an operator looks before.
std::vector<MessageId> Workload::some_dead(const std::string& queue) {
  std::vector<MessageId> ids;
  const Result<Page<DeadLetter>> letters = stores_.dead_letters({.queue = queue});
  if (!letters) return ids;
  for (const DeadLetter& letter : letters->items) {
    if (ids.empty() || random_.one_in(2)) ids.push_back(letter.id);
  }
  if (random_.one_in(4)) ids = std::vector(ids.rbegin(), ids.rend());
  return ids;
}

void Workload::redrive() {
  const std::string queue = draw_queue();
  std::vector<MessageId> ids = some_dead(queue);
  if (ids.empty()) return settle();
  std::optional<std::string> to;
  if (random_.one_in(3)) to = draw_queue();
  const bool elsewhere = to && *to != queue;
  const Result<Receipt> result = administer(Redrive{queue, std::move(ids), std::move(to)});
  if (result && elsewhere) count("redriven elsewhere");
}

void Workload::drop_dead() {
  const std::string queue = draw_queue();
  std::vector<MessageId> ids = some_dead(queue);
  if (ids.empty()) return settle();
  std::ignore = administer(DropDead{queue, std::move(ids)});
}

void Workload::resume_lane() {
  const std::string queue = draw_queue();
  const auto parked = stores_.peek({.queue = queue, .state = MessageState::parked});
  if (!parked || parked->items.empty()) return settle();
  const PeekedMessage message = random_.pick(parked->items);
  if (message.key) {
    std::ignore = administer(ResumeLane{queue, message.key, std::nullopt});
  } else {
    std::ignore = administer(ResumeLane{queue, std::nullopt, message.id});
  }
}

void Workload::subscribe() {
  Subscribe subscribe{.queue = draw_queue(), .pattern = draw_pattern(), .from = {}};
  if (random_.one_in(2)) std::ignore = administer(Unsubscribe{subscribe.queue});
  if (!random_.one_in(3)) subscribe.from = stores_.now() - 20 * draw_wait();
  std::ignore = administer(subscribe);
}

void Workload::configure_topic() {
  std::ignore = administer(ConfigureTopic{draw_topic(), TopicSettings{draw_wait() * 20}});
}

void Workload::advance() {
  const Time now = stores_.now();
  known_.times.erase(known_.times.begin(), known_.times.upper_bound(now));
  const std::uint64_t kind = random_.below(20);
  if (kind < 9 && !known_.times.empty()) {
    // To one of the next things that are due, or the millisecond before or after it.
    const std::uint64_t reach = std::min<std::uint64_t>(known_.times.size(), 3);
    const Time due = *std::next(known_.times.begin(), static_cast<long>(random_.below(reach)));
    count("advanced to what is due");
    return stores_.advance_to(due + milliseconds{random_.one_in(2) ? 0 : random_.between(-1, 1)});
  }
  if (kind < 10) return stores_.advance(milliseconds{0});
  if (kind < 12) return stores_.advance(milliseconds{random_.between(1, 5)});
  if (kind < 16) return stores_.advance(draw_wait());
  if (kind < 18) return stores_.advance(milliseconds{random_.between(1, 90'000)});
  if (kind < 19) return stores_.advance(std::chrono::minutes{random_.between(1, 20)});
  return stores_.advance(random_.one_in(3) ? std::chrono::hours{2} : std::chrono::seconds{61});
}

}  // namespace strand::differential
