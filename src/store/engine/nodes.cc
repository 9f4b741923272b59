#include "store/engine/nodes.h"

#include "base/assert.h"

namespace strand::engine {

MessageNode* Lane::first_visible() {
  MessageNode* first = nullptr;
  for (VisibleSet& set : visible) {
    if (set.empty()) continue;
    MessageNode& head = *set.begin();
    if (first == nullptr || head.place() < first->place()) first = &head;
  }
  const auto limit = barrier();
  return first != nullptr && limit && first->place() >= *limit ? nullptr : first;
}

std::optional<std::uint8_t> Lane::best_priority() const {
  const auto limit = barrier();
  for (std::size_t p = 0; p < priority_count; ++p) {
    if (visible[p].empty()) continue;
    if (!limit || visible[p].begin()->place() < *limit) return static_cast<std::uint8_t>(p);
  }
  return std::nullopt;
}

std::vector<MessageNode*> Lane::free_messages() {
  std::vector<MessageNode*> messages;
  messages.reserve(visible_count + waiting_count);
  for (VisibleSet& set : visible) {
    for (MessageNode& message : set)
      messages.push_back(&message);
  }
  for (MessageNode& message : waiting)
    messages.push_back(&message);
  return messages;
}

MessageNode* LeaseNode::find(MessageId id) {
  // Messages are mostly settled in the order in which they were handed out.
  for (std::size_t tries = 0; tries < 4 && next_guess < messages.size(); ++tries) {
    MessageNode* guess = messages[next_guess++].message;
    if (guess != nullptr && guess->id == id) return guess;
  }
  if (messages.size() <= 16) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      MessageNode* message = messages[i].message;
      if (message == nullptr || message->id != id) continue;
      next_guess = i + 1;
      return message;
    }
    return nullptr;
  }
  if (!by_id) {
    by_id = std::make_unique<boost::unordered_flat_map<std::uint64_t, MessageNode*>>();
    for (const Carried& entry : messages) {
      if (entry.message != nullptr) {
        by_id->emplace(static_cast<std::uint64_t>(entry.message->id), entry.message);
      }
    }
  }
  const auto found = by_id->find(static_cast<std::uint64_t>(id));
  if (found == by_id->end()) return nullptr;
  next_guess = found->second->lease_index + 1;
  return found->second;
}

void LeaseNode::add(MessageNode& message, std::uint64_t pull) {
  STRAND_ASSERT(message.lease == nullptr, "a message is carried by one lease");
  message.lease = this;
  message.where = Where::leased;
  message.lease_index = static_cast<std::uint32_t>(messages.size());
  messages.push_back({.message = &message, .pull = pull});
  ++carried;
  if (by_id) by_id->emplace(static_cast<std::uint64_t>(message.id), &message);
}

void LeaseNode::remove(MessageNode& message) {
  STRAND_ASSERT(message.lease == this && messages[message.lease_index].message == &message,
                "a message knows its lease and its index there");
  messages[message.lease_index].message = nullptr;
  --carried;
  if (by_id) by_id->erase(static_cast<std::uint64_t>(message.id));
  message.lease = nullptr;
  message.where = Where::nowhere;
  // Each closing of the holes costs what as many removals have paid for.
  if (messages.size() < 32 || carried * 2 > messages.size()) return;
  std::erase_if(messages, [](const Carried& entry) { return entry.message == nullptr; });
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i].message->lease_index = static_cast<std::uint32_t>(i);
  }
  next_guess = 0;
}

}  // namespace strand::engine
