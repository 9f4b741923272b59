#include "store/engine/topic_trie.h"

#include <algorithm>

#include "base/planted.h"
#include "store/engine/queue.h"

namespace strand::engine {

namespace {

struct Split {
  std::string_view segment;
  std::string_view rest;
  bool last;
};

Split split(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {.segment = text, .rest = {}, .last = true};
  return {.segment = text.substr(0, dot), .rest = text.substr(dot + 1), .last = false};
}

}  // namespace

void TopicTrie::add(std::string_view pattern, Queue& queue) {
  Node* node = &root_;
  while (true) {
    const Split part = split(pattern);
    if (part.segment == "#") {
      node->rest.push_back(&queue);
      return;
    }
    std::unique_ptr<Node>& child = node->children[std::string(part.segment)];
    if (!child) child = std::make_unique<Node>();
    node = child.get();
    if (part.last) {
      node->ends.push_back(&queue);
      return;
    }
    pattern = part.rest;
  }
}

void TopicTrie::remove(std::string_view pattern, Queue& queue) {
  remove_below(root_, pattern, false, queue);
}

// Returns whether nothing is left below `node`.
bool TopicTrie::remove_below(Node& node, std::string_view pattern, bool at_end, Queue& queue) {
  if (at_end) {
    std::erase(node.ends, &queue);
    return node.empty();
  }
  const Split part = split(pattern);
  if (part.segment == "#") {
    std::erase(node.rest, &queue);
  } else if (const auto child = node.children.find(part.segment); child != node.children.end()) {
    if (remove_below(*child->second, part.rest, part.last, queue)) node.children.erase(child);
  }
  return node.empty();
}

void TopicTrie::collect(const Node& node, std::string_view topic, bool at_end,
                        std::vector<Queue*>& found) {
  const bool missed = at_end && STRAND_PLANTED("hash-needs-one-segment");
  if (!missed) found.insert(found.end(), node.rest.begin(), node.rest.end());
  if (at_end) {
    found.insert(found.end(), node.ends.begin(), node.ends.end());
    return;
  }
  const Split part = split(topic);
  for (const std::string_view segment : {part.segment, std::string_view("*")}) {
    const auto child = node.children.find(segment);
    if (child != node.children.end()) collect(*child->second, part.rest, part.last, found);
  }
}

std::vector<Queue*> TopicTrie::match(std::string_view topic) const {
  std::vector<Queue*> found;
  collect(root_, topic, false, found);
  std::ranges::sort(found, {},
                    [](const Queue* queue) -> const std::string& { return queue->name; });
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

bool topic_matches(std::string_view pattern, std::string_view topic) {
  bool pattern_ended = false;
  bool topic_ended = false;
  while (!pattern_ended) {
    const Split wanted = split(pattern);
    if (wanted.segment == "#") return true;
    if (topic_ended) return false;
    const Split found = split(topic);
    if (wanted.segment != "*" && wanted.segment != found.segment) return false;
    pattern = wanted.rest;
    pattern_ended = wanted.last;
    topic = found.rest;
    topic_ended = found.last;
  }
  return topic_ended;
}

}  // namespace strand::engine
