#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include <strand/routing.h>
#include <strand/workflow.h>

namespace strand::workflow_faults {

inline constexpr const char* last_word = "end";

// A workflow whose result is all the words that it was sent, in order. `on_word` is called for
// each, in a replay as well.
inline WorkflowType<Bytes()> collecting(std::function<void(const std::string&)> on_word = {}) {
  return {"collecting", [on_word = std::move(on_word)](Workflow& wf) -> Task<Bytes> {
            Bytes text;
            for (int count = 1;; ++count) {
              const Bytes word = co_await wf.event<Bytes>("word");
              if (on_word) on_word(word);
              if (word == last_word) co_return text;
              text += word + " ";
              wf.set_status(std::to_string(count));
            }
          }};
}

inline Routing strategy_named(const std::string& name) {
  if (name == "automatic") return Routing::automatic;
  if (name == "consistent_hash") return Routing::consistent_hash;
  throw std::runtime_error("there is no strategy " + name);
}

}  // namespace strand::workflow_faults
