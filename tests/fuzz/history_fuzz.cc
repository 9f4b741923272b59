// Histories of workflows: an event is read or refused, and a history of whatever events is replayed
// or refused, by code that knows nothing of it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <strand/history.h>
#include <strand/saga.h>
#include <strand/workflow.h>

#include "base/text.h"
#include "fuzz/target.h"
#include "workflow/checkpoint.h"
#include "workflow/instance.h"
#include "workflow/records.h"
#include "workflow/turn.h"

namespace strand::fuzz {

namespace {

using namespace std::chrono_literals;

const Activity<std::string(std::string)> work{"work"};
const Activity<std::string(std::string)> undo{"undo"};
const Activity<std::string(std::string)> look{"look", [](const std::string& x) { return x; }};

// Uses a bit of everything.
Task<std::string> run_program(Workflow& wf, std::string input) {
  auto timer = wf.sleep_until(Time{1h});
  if (const auto restored = wf.restored<std::string>()) input = *restored;
  co_await wf.checkpoint(input);
  Saga saga{wf};
  const auto answering = wf.answer("input", [&] { return input; });
  std::string text = co_await saga.step(work, input, undo);
  text += co_await wf.local(look, "here");
  if (wf.patched("change")) wf.set("key", text);
  const auto first = co_await wf.first_of(wf.event<std::string>("go"), wf.sleep(1h));
  if (first.index() == 1) throw ApplicationError("late", "nobody came");
  co_await wf.all_of(wf.call(work, std::get<0>(first)), wf.call(work, wf.uuid()));
  if (text == "again") co_return co_await wf.continue_as_new(text);
  co_return text;
}
const WorkflowType<std::string(std::string)> program{"program", run_program};

class NobodyOutside final : public workflow::Outside {
 public:
  Known look_up(const std::string&) override { return {}; }
  ActivityContext& local_context(const workflow::ActivityDefinition&) override { std::abort(); }
  bool checkpoint_is_due(const workflow::SinceCheckpoint&, const CheckpointOptions&) override {
    std::abort();
  }
};

// Each event has two bytes in front that say how long it is.
std::vector<HistoryEvent> read_events(std::string_view bytes) {
  std::vector<HistoryEvent> events;
  while (bytes.size() > 2) {
    const std::size_t size =
        static_cast<unsigned char>(bytes[0]) * 256U + static_cast<unsigned char>(bytes[1]);
    bytes.remove_prefix(2);
    const std::string_view one = bytes.substr(0, size);
    bytes.remove_prefix(one.size());
    auto event = decode_event(one);
    if (!event) {
      FUZZ_REQUIRE(event.error().code == Errc::corrupt, "what is no event is damaged");
      continue;
    }
    const auto again = decode_event(encode_event(*event));
    FUZZ_REQUIRE(again && *again == *event, "an event that was read is written and read again");
    FUZZ_REQUIRE(base::is_plain_text(describe(*event)), "an event is shown as one plain line");
    events.push_back(*std::move(event));
  }
  return events;
}

void run(std::string_view bytes) {
  std::ignore = workflow::decode_record("id", bytes);
  std::ignore = workflow::decode_saga(bytes);
  std::ignore = workflow::decode_step(bytes);
  std::ignore = workflow::parse_label(bytes);
  const std::vector<HistoryEvent> events = read_events(bytes);
  std::ignore = workflow::underway(events);
  std::ignore = workflow::started_of(events);
  std::ignore = workflow::decode_checkpoints("id", bytes);
  for (const HistoryEvent& event : events) {
    const auto checkpoint = workflow::read_checkpoint(event);
    if (!checkpoint) continue;
    const auto again = workflow::read_checkpoint(workflow::to_event(*checkpoint));
    FUZZ_REQUIRE(again && *again == *checkpoint, "a checkpoint is written and read again");
  }
  NobodyOutside nobody;
  workflow::Instance instance(program.definition(), {.id = "id", .queue = "workflow"}, nobody);
  const auto replayed = instance.replay(events);
  FUZZ_REQUIRE(replayed || replayed.error().code == Errc::history_mismatch,
               "a history is replayed, or it differs");
  FUZZ_REQUIRE(instance.decisions().events.empty(), "a replay decides nothing new");
  FUZZ_REQUIRE(instance.decisions().sends.empty() && instance.decisions().records.empty(),
               "and does nothing");
}

const Target target("history", run, 20'000);

}  // namespace

}  // namespace strand::fuzz
