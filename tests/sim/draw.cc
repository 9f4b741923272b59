// What clients ask for. Few names, so that requests meet each other.

#include "sim/client.h"

namespace strand::sim {

using std::chrono::milliseconds;

std::string Client::draw_queue() {
  static const std::vector<std::string> names = {"jobs", "mail", "wf"};
  if (role_ == Role::workflow && !random_.one_in(4)) return "wf";
  return names[static_cast<std::size_t>(random_.below(world_.plan().queue_count))];
}

std::string Client::draw_key() {
  return "k" + std::to_string(random_.below(world_.plan().key_count));
}

std::string Client::draw_label() {
  return random_.pick(std::vector<std::string>{"", "red", "blue"});
}

std::string Client::draw_topic() {
  return random_.pick(std::vector<std::string>{"order", "order.paid", "order.paid.eu", "user.new"});
}

std::string Client::draw_pattern() {
  return random_.pick(std::vector<std::string>{"#", "order.#", "order.*", "*", "user.new",
                                               "*.paid.*", "order.paid"});
}

std::string Client::draw_body() {
  std::string body = "m" + std::to_string(gossip_.bodies++);
  if (random_.one_in(6)) body.append(static_cast<std::size_t>(random_.below(700)), 'x');
  return body;
}

Duration Client::draw_wait() {
  const auto pace = static_cast<std::int64_t>(world_.plan().pace_ms);
  return milliseconds{random_.pick(std::vector<std::int64_t>{0, 1, pace, pace * 3, pace * 10, 1000,
                                                             5000, random_.between(0, 20'000)})};
}

Content Client::draw_content() {
  Content content;
  if (!random_.one_in(4)) content.key = draw_key();
  content.body = draw_body();
  if (random_.one_in(5)) content.headers.push_back({"h" + std::to_string(random_.below(3)), "v"});
  if (random_.one_in(3)) content.priority = static_cast<Priority>(random_.below(4));
  if (random_.one_in(4)) content.delay = draw_wait();
  if (random_.one_in(6)) content.ttl = draw_wait() + milliseconds{1};
  if (random_.one_in(5)) content.dedup_id = "d" + std::to_string(random_.below(4));
  return content;
}

Send Client::draw_send() {
  Send send;
  static_cast<Content&>(send) = draw_content();
  send.queue = draw_queue();
  if (random_.one_in(4)) send.label = draw_label();
  if (random_.one_in(4)) send.name = "n" + std::to_string(random_.below(4));
  if (random_.one_in(5)) send.max_attempts = static_cast<std::uint32_t>(random_.below(3));
  if (random_.one_in(5)) {
    send.dead_notice_to = Address{draw_queue(), std::nullopt};
    if (!random_.one_in(3)) send.dead_notice_to->key = draw_key();
  }
  return send;
}

Publish Client::draw_publish() {
  Publish publish;
  static_cast<Content&>(publish) = draw_content();
  publish.topic = draw_topic();
  return publish;
}

WriteRecord Client::draw_record() {
  WriteRecord write;
  write.space = "s" + std::to_string(random_.below(2));
  write.key = "r" + std::to_string(random_.below(3));
  if (!random_.one_in(5)) write.value = "v" + std::to_string(gossip_.bodies++);
  if (!random_.one_in(3)) {
    const auto known = gossip_.records.find({write.space, write.key});
    write.expected = known == gossip_.records.end() ? Version{0} : known->second;
  }
  return write;
}

LeaseRequest Client::draw_request() {
  LeaseRequest request;
  request.queue = draw_queue();
  if (random_.one_in(4)) {
    for (std::uint64_t n = random_.below(3); n > 0; --n)
      request.labels.push_back(draw_label());
  }
  if (random_.one_in(2)) request.owner = "o" + std::to_string(number_ % 3);
  if (random_.one_in(2)) request.request = RequestId{number_, next_request_++};
  request.lanes = random_.one_in(2) ? 1 : static_cast<std::uint32_t>(random_.between(1, 6));
  request.messages = static_cast<std::uint32_t>(random_.one_in(2) ? 100 : random_.between(1, 5));
  if (random_.one_in(5)) request.bytes = static_cast<std::size_t>(random_.between(0, 900));
  if (random_.one_in(2)) request.lease = draw_wait() + milliseconds{1};
  if (random_.one_in(role_ == Role::workflow ? 2 : 8)) request.history_from = random_.below(3);
  if (random_.one_in(3)) request.history_limit = static_cast<std::size_t>(random_.below(4));
  return request;
}

std::vector<MessageId> Client::draw_dead(const std::string& queue) {
  const std::vector<MessageId>& known = gossip_.dead[queue];
  std::vector<MessageId> ids;
  for (const MessageId id : known) {
    if (random_.one_in(2)) ids.push_back(id);
  }
  if (ids.empty()) ids.push_back(known.empty() ? MessageId{1} : known.front());
  return ids;
}

Administration Client::draw_administration() {
  const std::string queue = draw_queue();
  switch (random_.below(24)) {
    case 0:
    case 1:
    case 2:
      return ConfigureQueue{queue, draw_settings(random_)};
    case 3:
      return PauseQueue{queue};
    case 4:
    case 5:
      return ResumeQueue{queue};
    case 6:
    case 7:
    case 8:
      return ResumeLane{queue, draw_key(), std::nullopt};
    case 9:
      if (gossip_.unkeyed.empty()) return ResumeLane{queue, std::nullopt, MessageId{1}};
      return ResumeLane{gossip_.unkeyed.back().first, std::nullopt, gossip_.unkeyed.back().second};
    case 10:
      return PurgeQueue{queue, std::nullopt};
    case 11:
      return PurgeQueue{queue, draw_key()};
    case 12:
      return RemoveQueue{queue, random_.one_in(2)};
    case 13:
    case 14:
      return Redrive{queue, draw_dead(queue), std::nullopt};
    case 15:
      return Redrive{queue, draw_dead(queue), draw_queue()};
    case 16:
      return DropDead{queue, draw_dead(queue)};
    case 17:
    case 18:
      return Subscribe{queue, draw_pattern(), std::nullopt};
    case 19:
      return Subscribe{queue, draw_pattern(), world_.client_now() - draw_wait()};
    case 20:
      return Unsubscribe{queue};
    default:
      return ConfigureTopic{draw_topic(), TopicSettings{draw_wait()}};
  }
}

}  // namespace strand::sim
