#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <strand/error.h>
#include <strand/transaction.h>

#include "store/engine/mutations.h"

namespace strand::engine {

// What has been written, to be read back. Shows whole batches only, in the order of their commits.
//
// Threads: reads may run beside each other and beside Backend::write.
class Archive {
 public:
  Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  virtual ~Archive() = default;

  // Whether entries take memory of this process.
  [[nodiscard]] virtual bool in_memory() const { return false; }

  // The value under `key`, or nothing.
  virtual Result<std::optional<std::string>> get(Family family, std::string_view key) const = 0;

  // Calls `visit` for each entry with first <= key < last, in byte order of keys, until it returns
  // false. An empty `last` has no upper end. `visit` must not call back into the archive.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  virtual Result<void> scan(Family family, std::string_view first, std::string_view last,
                            const Visit& visit) const = 0;
};

// Persists what the engine decides. One backend belongs to one engine.
//
// Threads:    write() and reopen() are called by one thread at a time; reads may run beside
// write(),
//             never beside reopen().
// Durability: write(sync) returns after the data would survive power loss, and so does everything
//             written before it. write(async) returns after the data would survive the process.
// Failure:    a failed write leaves either all of the batch or none of it. After any failure the
//             caller calls reopen() before it writes again.
class Backend : public Archive {
 public:
  // Applies the whole batch atomically, its mutations in order.
  virtual Result<void> write(const MutationBatch& batch, Durability durability) = 0;

  // How much room the disk has left; nothing if there is no disk, or it cannot be told.
  //
  // Threads: may be called beside everything else.
  [[nodiscard]] virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }

  // Closes and opens again what is on disk. What can be read afterwards is durable: after a failed
  // sync, what was read is rewritten into new, synced files, because the operating system may have
  // dropped pages that it still shows. Leaves nothing of a batch that is not there as a whole.
  virtual Result<void> reopen() = 0;
};

// A backend in front of another one: whatever it does not override is done by the one behind.
class ForwardingBackend : public Backend {
 public:
  [[nodiscard]] bool in_memory() const override { return behind_->in_memory(); }
  Result<std::optional<std::string>> get(Family family, std::string_view key) const override {
    return behind_->get(family, key);
  }
  Result<void> scan(Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override {
    return behind_->scan(family, first, last, visit);
  }
  Result<void> write(const MutationBatch& batch, Durability durability) override {
    return behind_->write(batch, durability);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes() const override {
    return behind_->free_bytes();
  }
  Result<void> reopen() override { return behind_->reopen(); }

 protected:
  explicit ForwardingBackend(std::shared_ptr<Backend> behind) : behind_(std::move(behind)) {}
  [[nodiscard]] Backend& behind() const { return *behind_; }

 private:
  const std::shared_ptr<Backend> behind_;
};

}  // namespace strand::engine
