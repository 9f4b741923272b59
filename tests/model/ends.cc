// How messages and leases end, and what they leave behind.

#include <string>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {

void State::charge(Item& item, const std::string& reason) {
  ++item.message.attempts;
  item.failures.push_back(Failure{now_, reason});
  if (item.failures.size() > limits_.failures_kept_max) item.failures.erase(item.failures.begin());
}

bool State::is_over(const Item& item) const {
  return item.message.expires_at && *item.message.expires_at <= now_;
}

bool State::exhausted(const QueueState& queue, const Item& item) {
  const std::uint32_t most = item.max_attempts.value_or(queue.settings.max_attempts);
  return most != 0 && item.message.attempts >= most;
}

void State::bury(const std::string& queue, const LaneKey& key, Uid uid, const std::string& reason,
                 const std::string& end) {
  QueueState& q = queue_at(queue);
  LaneState& lane = q.lanes.at(key);
  Item item = take(lane, uid);
  item.retry_at.reset();
  item.blocks = false;
  const Item copy = item;
  q.dead.emplace(uid, DeadItem{std::move(item), key.key, now_, reason});
  send_notice(queue, copy, end, reason);
  tidy(queue, key);
}

void State::expire(const std::string& queue, const LaneKey& key, Uid uid) {
  QueueState& q = queue_at(queue);
  if (q.settings.on_expired == OnExpired::dead) {
    bury(queue, key, uid, "expired", "dead");
    return;
  }
  const Item item = take(q.lanes.at(key), uid);
  ++q.expired;
  send_notice(queue, item, "expired", "");
  tidy(queue, key);
}

void State::send_notice(const std::string& queue, const Item& item, const std::string& end,
                        const std::string& reason) {
  std::optional<Address> to = item.notice_to;
  // A dead letter's queue may want to know as well, but not of a notice, and without its headers.
  if (!to && end == "dead" && !item.notice) to = queue_at(queue).settings.dead_notice_to;
  if (!to || to->queue == removing_) return;
  Content notice;
  notice.key = to->key;
  if (item.notice_to) notice.headers = item.message.headers;
  const auto add = [&](std::string_view name, std::string value) {
    notice.headers.push_back(Header{std::string(name), std::move(value)});
  };
  add(notice_id_header, std::to_string(static_cast<std::uint64_t>(item.message.id)));
  add(notice_queue_header, queue);
  if (item.message.name) add(notice_name_header, *item.message.name);
  add(notice_end_header, end);
  if (!reason.empty()) add(notice_reason_header, reason);
  Item arriving = new_item(notice, queue_at(to->queue).settings, Duration{0});
  arriving.notice = true;
  accept(to->queue, notice.key, "", std::move(arriving));
}

void State::give_back(const std::string& queue, const LaneKey& key, Uid uid) {
  Item& item = item_at(queue_at(queue).lanes.at(key), uid);
  item.holder = Epoch{};
  if (is_over(item)) expire(queue, key, uid);
}

std::vector<Uid> State::carried(const Hold& hold) {
  std::vector<Uid> out;
  for (const Item& item : queue_at(hold.queue).lanes.at(hold.lane).items) {
    if (item.holder == hold.token.epoch()) out.push_back(item.uid);
  }
  return out;
}

void State::end_hold(Epoch epoch) {
  const auto it = holds_.find(epoch);
  const Hold hold = it->second;
  const std::vector<Uid> uids = carried(hold);
  holds_.erase(it);
  stirred.holds.insert(epoch);
  // What ends now sends its notice before the lane is free.
  for (const Uid uid : uids)
    give_back(hold.queue, hold.lane, uid);
  queue_at(hold.queue).lanes.at(hold.lane).holder = Epoch{};
  tidy(hold.queue, hold.lane);
  refresh(hold.queue);
}

}  // namespace strand::model
