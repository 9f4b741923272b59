#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/engine/ready_index.h"

namespace strand::engine {

// Finds the subscriptions whose pattern matches a topic. A look-up costs by the segments of the
// topic and its matches, not by the number of patterns.
class TopicTrie {
 public:
  void add(std::string_view pattern, Queue& queue);
  void remove(std::string_view pattern, Queue& queue);
  // Each queue once, by name.
  [[nodiscard]] std::vector<Queue*> match(std::string_view topic) const;

 private:
  struct Node {
    std::unordered_map<std::string, std::unique_ptr<Node>, TransparentHash, std::equal_to<>>
        children;
    std::vector<Queue*> ends;  // patterns that end here
    std::vector<Queue*> rest;  // patterns that end in '#' here

    [[nodiscard]] bool empty() const { return children.empty() && ends.empty() && rest.empty(); }
  };
  static void collect(const Node& node, std::string_view topic, bool at_end,
                      std::vector<Queue*>& found);
  static bool remove_below(Node& node, std::string_view pattern, bool at_end, Queue& queue);

  Node root_;
};

// Whether the pattern matches the topic; the same rule, for one pair.
bool topic_matches(std::string_view pattern, std::string_view topic);

}  // namespace strand::engine
