#include "store/local/pipeline.h"

#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/planted.h"

namespace strand::local {

using engine::CommitNumber;

namespace {

// Whoever waits for an outcome asks for it as soon as it is there. This many failures later, it
// must have been asked for; a store that fails for weeks must not fill the memory with them.
constexpr std::size_t failed_max = 10'000;

}  // namespace

Pipeline::Pipeline(engine::Backend& backend, const Limits& limits, const engine::Identity& identity)
    : backend_(backend), limits_(limits), identity_(identity) {}

Result<void> Pipeline::open(Time wall) {
  STRAND_ASSERT(!engine_ && !broken_, "a pipeline is opened once");
  auto loaded = load(wall, 0, engine::Loading::open);
  if (!loaded) return std::unexpected(std::move(loaded).error());
  engine_ = std::move(*loaded);
  taken_ = written_ = engine_->loaded_commit();
  return {};
}

Result<std::unique_ptr<engine::Engine>> Pipeline::load(Time now, CommitNumber commit_after,
                                                       engine::Loading why) {
  auto loaded = std::make_unique<engine::Engine>(limits_, backend_);
  if (auto read = loaded->load(now, identity_, commit_after, why); !read) {
    return std::unexpected(std::move(read).error());
  }
  return loaded;
}

bool Pipeline::all_written() const { return engine_ && !in_flight_ && !engine_->has_decisions(); }

CommitNumber Pipeline::decided() const {
  // A broken pipeline has decided nothing since its last outcome.
  return engine_ && engine_->has_decisions() ? engine_->gathering() : taken_;
}

std::optional<Result<void>> Pipeline::outcome(CommitNumber commit) const {
  if (commit > written_) return std::nullopt;
  if (commit < forgotten_) {
    return failure(Errc::unknown_outcome, "what became of it was not asked for in time");
  }
  if (const auto found = failed_.find(commit); found != failed_.end()) {
    return std::unexpected(found->second);
  }
  return Result<void>{};
}

bool Pipeline::can_take() const { return engine_ && !in_flight_ && engine_->has_decisions(); }

const engine::Decisions& Pipeline::take() {
  STRAND_ASSERT(can_take(), "one batch is in flight at a time, and it has something in it");
  in_flight_ = engine_->take();
  STRAND_ASSERT(in_flight_->commit > taken_, "commit numbers only grow");
  taken_ = in_flight_->commit;
  return *in_flight_;
}

Pipeline::Woken Pipeline::complete(const Result<void>& written, Time now) {
  STRAND_ASSERT(in_flight_, "only a batch that was taken is completed");
  if (written) {
    written_ = in_flight_->commit;
    engine_->written(written_);
    Woken woken{.wakes = std::move(in_flight_->wakes), .everyone = false};
    in_flight_.reset();
    return woken;
  }

  const CommitNumber flying = in_flight_->commit;
  const CommitNumber gathered = engine_->gathering();
  STRAND_ASSERT(gathered > flying, "what gathers comes after what is in flight");
  in_flight_.reset();
  // From here on, this number stands for "all that can be read now", which is durable.
  taken_ = written_ = gathered + 1;
  const std::string why = written.error().message;
  if (!STRAND_PLANTED("batch-behind-a-failure-confirmed")) {
    fail(gathered,
         {Errc::unavailable,
          fmt::format("not applied, because the write before it failed ({}); repeat it", why)});
  }

  if (auto rebuilt = rebuild(now); !rebuilt) {
    fail(flying, {Errc::unknown_outcome,
                  fmt::format("the write failed ({}), and the store could not be read again to see "
                              "whether it was applied ({})",
                              why, rebuilt.error().message)});
  } else if (engine_->loaded_commit() < flying) {
    fail(flying,
         {Errc::unavailable, fmt::format("not applied: the write failed ({}); repeat it", why)});
  }
  // Those who wait must look again: what they saw may be gone, or the store with it.
  return Woken{.wakes = {}, .everyone = true};
}

Result<void> Pipeline::rebuild(Time now) {
  engine_.reset();
  auto reopened = backend_.reopen();
  if (!reopened) {
    broken_ = reopened.error();
    return reopened;
  }
  auto loaded = load(now, taken_, engine::Loading::rebuild);
  if (!loaded) {
    broken_ = loaded.error();
    return std::unexpected(std::move(loaded).error());
  }
  STRAND_ASSERT((*loaded)->loaded_commit() < taken_, "what is stored was taken from this pipeline");
  engine_ = std::move(*loaded);
  broken_.reset();
  ++rebuilds_;
  return {};
}

Result<void> Pipeline::recover(Time now) {
  STRAND_ASSERT(broken_, "only what is broken is recovered");
  return rebuild(now);
}

void Pipeline::fail(CommitNumber commit, Error error) {
  failed_.insert_or_assign(commit, std::move(error));
  if (failed_.size() > failed_max) {
    forgotten_ = failed_.begin()->first + 1;
    failed_.erase(failed_.begin());
  }
}

}  // namespace strand::local
