#include "sim/faulty_backend.h"

#include <stdexcept>

namespace strand::sim {
namespace {

using engine::Family;
using engine::Mutation;
using engine::MutationBatch;

constexpr std::size_t dead_key_bytes = 12;

std::size_t index(Family family) { return static_cast<std::size_t>(family); }

std::unexpected<Error> broken(const char* what) { return failure(Errc::io_error, what); }

}  // namespace

void FaultyBackend::apply(Image& image, const MutationBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Mutation mutation = batch[i];
    auto& table = image.at(index(mutation.family));
    switch (mutation.kind) {
      case Mutation::Kind::put:
        table.insert_or_assign(std::string(mutation.key), std::string(mutation.value));
        break;
      case Mutation::Kind::erase:
        if (const auto it = table.find(mutation.key); it != table.end()) table.erase(it);
        break;
      case Mutation::Kind::bury: {
        auto& messages = image.at(index(Family::message));
        const auto message = messages.find(mutation.key);
        if (message == messages.end()) throw std::logic_error("buried a message that is not there");
        std::string value(mutation.value.substr(dead_key_bytes));
        value += message->second;
        messages.erase(message);
        image.at(index(Family::dead))
            .insert_or_assign(std::string(mutation.value.substr(0, dead_key_bytes)),
                              std::move(value));
        break;
      }
      case Mutation::Kind::erase_prefix: {
        auto it = table.lower_bound(mutation.key);
        while (it != table.end() && it->first.starts_with(mutation.key))
          it = table.erase(it);
        break;
      }
      case Mutation::Kind::erase_range:
        table.erase(table.lower_bound(mutation.key), table.lower_bound(mutation.value));
        break;
    }
  }
}

bool FaultyBackend::read_fails() const {
  if (reads_to_fail_ == 0) return false;
  --reads_to_fail_;
  return true;
}

Result<std::optional<std::string>> FaultyBackend::get(Family family, std::string_view key) const {
  if (read_fails()) return broken("a simulated read failed");
  const auto& table = shown_.at(index(family));
  const auto it = table.find(key);
  if (it == table.end()) return std::nullopt;
  return it->second;
}

Result<void> FaultyBackend::scan(Family family, std::string_view first, std::string_view last,
                                 const Visit& visit) const {
  if (read_fails()) return broken("a simulated scan failed");
  const auto& table = shown_.at(index(family));
  for (auto it = table.lower_bound(first); it != table.end(); ++it) {
    if (!last.empty() && it->first >= last) break;
    if (!visit(it->first, it->second)) break;
  }
  return {};
}

void FaultyBackend::prepare(engine::CommitNumber commit, WriteFault fault) {
  next_commit_ = commit;
  next_fault_ = fault;
}

void FaultyBackend::sync() {
  for (const Batch& batch : unsynced_) {
    apply(durable_, batch.mutations);
    durable_commit_ = batch.commit;
  }
  unsynced_.clear();
}

Result<void> FaultyBackend::write(const MutationBatch& batch, Durability durability) {
  // The engine's side of the contract: no write after a failure without a reopen.
  if (needs_reopen_) throw std::logic_error("written to a failed backend that was not reopened");
  const WriteFault fault = std::exchange(next_fault_, WriteFault::none);
  if (fault == WriteFault::before) {
    needs_reopen_ = true;
    return broken("a simulated write failed");
  }
  apply(shown_, batch);
  unsynced_.push_back(Batch{next_commit_, batch});
  if (fault == WriteFault::none) {
    if (durability == Durability::sync) sync();
    return {};
  }
  needs_reopen_ = true;
  if (fault == WriteFault::after) sync();
  drop_last_ = fault == WriteFault::sync_dropped;
  return broken("a simulated write failed after doing it");
}

Result<void> FaultyBackend::reopen() {
  if (reopens_to_fail_ > 0) {
    --reopens_to_fail_;
    return broken("a simulated reopen failed");
  }
  if (std::exchange(drop_last_, false) && !unsynced_.empty()) {
    lose_power(unsynced_.size() - 1);
  }
  sync();
  needs_reopen_ = false;
  remember_open();
  return {};
}

void FaultyBackend::crash() {
  if (std::exchange(drop_last_, false) && !unsynced_.empty()) lose_power(unsynced_.size() - 1);
  sync();
  needs_reopen_ = false;
  reads_to_fail_ = 0;
  reopens_to_fail_ = 0;
  remember_open();
}

void FaultyBackend::lose_power(std::uint64_t survivors) {
  unsynced_.resize(std::min<std::size_t>(unsynced_.size(), survivors));
  sync();
  shown_ = durable_;
  drop_last_ = false;
  needs_reopen_ = false;
}

void FaultyBackend::betray() {
  unsynced_.clear();
  durable_ = opened_;
  durable_commit_ = opened_commit_;
  lose_power(0);
}

engine::CommitNumber FaultyBackend::shown_commit() const {
  return unsynced_.empty() ? durable_commit_ : unsynced_.back().commit;
}

}  // namespace strand::sim
