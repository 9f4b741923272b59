#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "store/engine/backend.h"
#include "store/memory/id_table.h"

namespace strand::memory {

// Keeps everything in this process. For tests, for caches of work that can be lost, and as the
// plainest statement of what a backend does.
//
// Threads:    as Backend says: reads may run beside each other and beside write().
// Durability: none beyond the process; `sync` and `async` are the same.
// Failure:    write() never fails. Running out of memory ends the process.
// Limits:     a waiting message costs its value, and about 30 bytes.
class MemoryBackend final : public engine::Backend {
 public:
  [[nodiscard]] bool in_memory() const override { return true; }
  Result<std::optional<std::string>> get(engine::Family family,
                                         std::string_view key) const override;
  Result<void> scan(engine::Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override;
  Result<void> write(const engine::MutationBatch& batch, Durability durability) override;
  // Keeps everything: there is no disk that could disagree.
  Result<void> reopen() override { return {}; }

 private:
  using Table = std::map<std::string, std::string, std::less<>>;

  void apply(const engine::Mutation& mutation);
  void put(engine::Family family, std::string_view key, std::string_view value);
  void erase(engine::Family family, std::string_view key);
  void erase_prefix(engine::Family family, std::string_view prefix);
  void erase_range(engine::Family family, std::string_view first, std::string_view last);
  void bury(const engine::Mutation& mutation);
  Table& table(engine::Family family) { return tables_[static_cast<std::size_t>(family)]; }
  [[nodiscard]] const Table& table(engine::Family family) const {
    return tables_[static_cast<std::size_t>(family)];
  }
  // None for families that have a Table.
  static std::optional<std::size_t> id_table_of(engine::Family family);
  IdTable* id_table(engine::Family family);
  [[nodiscard]] const IdTable* id_table(engine::Family family) const;

  [[nodiscard]] std::shared_lock<std::shared_mutex> read_lock() const;

  // Readers pass through `turn_`, and the writer keeps it while it waits for them to leave: without
  // it, readers that overlap without end would keep the writer out for good.
  mutable std::mutex turn_;
  mutable std::shared_mutex mutex_;
  // Families with keys of 8 bytes that many entries have, and the others.
  std::array<IdTable, 4> id_tables_;
  std::array<Table, engine::family_count> tables_;
};

// Opens the contents of that name in this process, which stay when the backend is destroyed; an
// empty name stands for contents of its own. Fails with `in_use` while another backend has them,
// with `not_found` if there are none and `create` is false.
Result<std::unique_ptr<engine::Backend>> open_memory(std::string_view name, bool create);

}  // namespace strand::memory
