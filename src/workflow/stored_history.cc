#include "workflow/stored_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "workflow/records.h"

namespace strand::workflow {

Result<std::vector<HistoryEvent>> decode_history(const History& history) {
  std::vector<HistoryEvent> events;
  events.reserve(history.events.size());
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    auto event = decode_event(history.events[i]);
    if (!event) {
      return failure(event.error().code,
                     fmt::format("event {} of instance '{}': {}", history.first + i,
                                 base::printable(history.execution.key), event.error().message));
    }
    events.push_back(*std::move(event));
  }
  return events;
}

bool is_whole(const History& history) {
  return history.first + history.events.size() >= history.execution.length;
}

Result<History> read_history(Store& store, const std::string& queue, const std::string& key,
                             const History* begun) {
  History whole = begun != nullptr ? *begun : History{};
  while (begun == nullptr || !is_whole(whole)) {
    begun = &whole;
    auto page = store.history({.queue = queue,
                               .key = key,
                               .execution = whole.execution.number,
                               .from = whole.first + whole.events.size()});
    if (!page && page.error().code == Errc::not_found) return History{};
    if (!page) return page;
    if (whole.events.empty()) {
      whole = *std::move(page);
    } else {
      std::ranges::move(page->events, std::back_inserter(whole.events));
    }
  }
  return whole;
}

Result<History> read_to_replay(Store& store, const std::string& queue, const std::string& key,
                               const History* begun) {
  if (begun != nullptr && is_whole(*begun)) return *begun;
  const auto places = read_checkpoints(store, key);
  if (!places) return std::unexpected(places.error());
  if (!*places || (*places)->events.empty()) return read_history(store, queue, key, begun);
  const std::uint64_t last = (*places)->events.back();
  HistoryQuery query{.queue = queue, .key = key, .execution = (*places)->execution, .from = last};
  auto tail = store.history(query);
  if (!tail && tail.error().code != Errc::not_found) return tail;
  const bool is_it = tail && !tail->execution.outcome && tail->first == last &&
                     (begun == nullptr || begun->execution.number == tail->execution.number);
  if (!is_it) return read_history(store, queue, key, begun);
  return read_history(store, queue, key, &*tail);
}

}  // namespace strand::workflow
