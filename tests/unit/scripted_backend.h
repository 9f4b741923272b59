#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/engine/backend.h"
#include "store/memory/memory_backend.h"
#include "unit/signals.h"

namespace strand {

// A backend in memory whose writes can be held up and made to fail, as a disk's can. (The simulator
// has one of its own, which also loses power, but knows no threads.)
//
// Threads: the controls may be called concurrently with everything else.
class ScriptedBackend final : public engine::Backend {
 public:
  using Contents = std::shared_ptr<memory::MemoryBackend>;

  explicit ScriptedBackend(Contents contents = std::make_shared<memory::MemoryBackend>())
      : contents_(std::move(contents)) {}

  // --- Controls ---

  enum class Fault {
    before,  // nothing of the batch is written
    after,   // all of the batch is written, and yet the write fails
  };
  void fail_next_write(Fault fault) {
    const std::lock_guard lock(mutex_);
    write_fault_ = fault;
  }
  void fail_all_writes() {
    const std::lock_guard lock(mutex_);
    write_faults_ = true;
  }
  void fail_reopens(std::size_t count) {
    const std::lock_guard lock(mutex_);
    reopen_faults_ = count;
  }
  // No fault is left to come.
  void heal() {
    const std::lock_guard lock(mutex_);
    write_fault_.reset();
    write_faults_ = false;
    reopen_faults_ = 0;
  }
  // How much room there is left, from now on.
  void set_free_bytes(std::uint64_t bytes) { free_bytes_ = bytes; }
  // Until released, writes stop before they do anything.
  void hold_writes() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release_writes() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    released_.notify_all();
  }

  // How many were begun.
  [[nodiscard]] const Signal& writes() const { return writes_; }
  [[nodiscard]] std::size_t synced_writes() const { return synced_writes_.count(); }
  [[nodiscard]] std::size_t reopens() const { return reopens_.count(); }
  [[nodiscard]] const Signal& reopening() const { return reopens_; }
  // Messages that have come and gone by one batch. Those that were written, in order.
  struct Written {
    std::size_t came = 0;
    std::size_t gone = 0;
  };
  [[nodiscard]] std::vector<Written> written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }
  // Messages that have gone by all of them.
  [[nodiscard]] const Signal& gone() const { return gone_; }

  // --- The backend ---

  [[nodiscard]] bool in_memory() const override { return true; }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes() const override { return free_bytes_; }

  Result<std::optional<std::string>> get(engine::Family family,
                                         std::string_view key) const override {
    return contents_->get(family, key);
  }
  Result<void> scan(engine::Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override {
    return contents_->scan(family, first, last, visit);
  }
  Result<void> write(const engine::MutationBatch& batch, Durability durability) override {
    writes_.raise();
    if (durability == Durability::sync) synced_writes_.raise();
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return !held_; });
    std::optional<Fault> fault = std::exchange(write_fault_, std::nullopt);
    if (write_faults_) fault = Fault::before;
    lock.unlock();
    if (fault != Fault::before) {
      if (auto written = contents_->write(batch, durability); !written) return written;
      note(batch);
    }
    if (fault) return failure(Errc::io_error, "injected write fault");
    return {};
  }
  Result<void> reopen() override {
    reopens_.raise();
    const std::lock_guard lock(mutex_);
    if (reopen_faults_ == 0) return contents_->reopen();
    --reopen_faults_;
    return failure(Errc::io_error, "injected reopen fault");
  }

 private:
  void note(const engine::MutationBatch& batch) {
    Written written;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const engine::Mutation mutation = batch[i];
      if (mutation.family != engine::Family::message) continue;
      (mutation.kind == engine::Mutation::Kind::put ? written.came : written.gone)++;
    }
    const std::lock_guard lock(mutex_);
    written_.push_back(written);
    for (std::size_t i = 0; i < written.gone; ++i)
      gone_.raise();
  }

  std::atomic<std::uint64_t> free_bytes_ = UINT64_MAX;
  Contents contents_;
  Signal writes_;
  Signal synced_writes_;
  Signal reopens_;
  Signal gone_;
  mutable std::mutex mutex_;
  std::vector<Written> written_;
  std::condition_variable released_;
  bool held_ = false;
  std::optional<Fault> write_fault_;
  bool write_faults_ = false;
  std::size_t reopen_faults_ = 0;
};

}  // namespace strand
