// An SQLite store on a disk that fails (S21): what a failed write leaves, and what reopen() makes
// durable.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "store/engine/records.h"
#include "store/sqlite/sqlite_backend.h"
#include "unit/faulty_vfs.h"
#include "unit/fresh_folder.h"

namespace strand::sqlite {
namespace {

using engine::Family;
using engine::MutationBatch;
using Event = FaultyVfs::Event;

class SqliteFaults : public ::testing::Test {
 protected:
  Result<void> put(std::uint64_t id, std::string_view body, Durability durability) {
    MutationBatch batch;
    batch.put(Family::body, engine::number_key(id), body);
    batch.put(Family::body, engine::number_key(id + 1000), body);
    return backend_->write(batch, durability);
  }
  std::optional<std::string> body(std::uint64_t id) {
    return backend_->get(Family::body, engine::number_key(id)).value();
  }
  // Nothing, or all of what put() wrote.
  void expect_whole(std::uint64_t id) { EXPECT_EQ(body(id), body(id + 1000)); }

  void fail_once(const std::string& what, const std::string& file, int code) {
    vfs_.fault = [what, file, code, done = false](const Event& event) mutable {
      if (done || event.what != what || event.file != file) return 0;
      done = true;
      return code;
    };
  }
  std::ptrdiff_t count(std::string_view what, std::string_view file) {
    return std::ranges::count_if(
        vfs_.events, [&](const Event& event) { return event.what == what && event.file == file; });
  }
  std::ptrdiff_t first(std::string_view what, std::string_view file) {
    return std::ranges::find_if(
               vfs_.events,
               [&](const Event& event) { return event.what == what && event.file == file; }) -
           vfs_.events.begin();
  }
  // Fails one sync of the database file, which happens when the log is copied into it.
  void fail_the_copying() {
    fail_once("sync", "store", EIO);
    const std::string large(1'000'000, 'x');
    Result<void> written;
    for (std::uint64_t id = 1; written && id < 60; ++id)
      written = put(id, large, Durability::async);
    ASSERT_FALSE(written) << "a failed copying must not go unnoticed";
    EXPECT_EQ(written.error().code, Errc::io_error);
  }

  FaultyVfs vfs_;
  FreshFolder folder_;
  std::unique_ptr<engine::Backend> backend_ =
      open_sqlite(folder_ / "store", std::size_t{8} << 20U, true, vfs_.name()).value();
};

TEST_F(SqliteFaults, Only_a_write_that_asks_for_it_is_synced) {
  vfs_.events.clear();
  ASSERT_TRUE(put(1, "a", Durability::async));
  // The header of a new log is synced once, whatever was asked for.
  vfs_.events.clear();
  ASSERT_TRUE(put(2, "a", Durability::async));
  EXPECT_EQ(count("sync", "store-wal"), 0);
  ASSERT_TRUE(put(3, "a", Durability::sync));
  EXPECT_EQ(count("sync", "store-wal"), 1);
}

TEST_F(SqliteFaults, A_sync_without_changes_still_makes_earlier_writes_durable) {
  ASSERT_TRUE(put(1, "a", Durability::async));
  ASSERT_TRUE(put(2, "a", Durability::async));
  vfs_.events.clear();
  ASSERT_TRUE(backend_->write({}, Durability::sync));
  EXPECT_GE(count("sync", "store-wal"), 1);
}

TEST_F(SqliteFaults, A_full_disk_is_store_full_and_leaves_nothing_of_the_batch) {
  ASSERT_TRUE(put(1, "before", Durability::sync));
  fail_once("write", "store-wal", ENOSPC);
  const auto written = put(2, "lost", Durability::sync);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::store_full);
  EXPECT_EQ(put(3, "too early", Durability::sync).error().code, Errc::unavailable);
  ASSERT_TRUE(backend_->reopen());
  EXPECT_EQ(body(1), "before");
  EXPECT_EQ(body(2), std::nullopt);
  EXPECT_TRUE(put(3, "again", Durability::sync));
}

TEST_F(SqliteFaults, A_full_disk_needs_no_room_to_go_on) {
  ASSERT_TRUE(put(1, "before", Durability::async));
  vfs_.fault = [](const Event& event) { return event.what == "write" ? ENOSPC : 0; };
  ASSERT_EQ(put(2, "lost", Durability::sync).error().code, Errc::store_full);
  vfs_.events.clear();
  ASSERT_TRUE(backend_->reopen());
  EXPECT_GE(count("sync", "store-wal"), 1) << "what can be read is durable";
  EXPECT_EQ(body(1), "before");
  vfs_.fault = {};
  EXPECT_TRUE(put(2, "again", Durability::sync));
  EXPECT_EQ(body(2), "again");
}

TEST_F(SqliteFaults, A_sync_that_fails_while_the_disk_is_full_is_not_forgotten) {
  ASSERT_TRUE(put(1, "before", Durability::async));
  fail_once("write", "store-wal", ENOSPC);
  ASSERT_EQ(put(2, "lost", Durability::sync).error().code, Errc::store_full);
  fail_once("sync", "store-wal", EIO);
  vfs_.events.clear();
  ASSERT_TRUE(backend_->reopen());
  EXPECT_LT(first("sync", "store-wal.new"), first("write", "store"));
  EXPECT_EQ(body(1), "before");
}

// The pages of the log may be gone from the disk and still be shown: no sync would write them. So
// the log is written anew, before anything of it goes into the database.
TEST_F(SqliteFaults, After_a_failed_sync_what_can_be_read_is_written_to_a_new_file_first) {
  ASSERT_TRUE(put(1, "before", Durability::async));
  fail_once("sync", "store-wal", EIO);
  const auto written = put(2, "in doubt", Durability::sync);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::io_error);
  vfs_.events.clear();
  ASSERT_TRUE(backend_->reopen());
  EXPECT_EQ(body(1), "before");
  expect_whole(2);
  EXPECT_LT(first("write", "store-wal.new"), first("sync", "store-wal.new"));
  EXPECT_LT(first("sync", "store-wal.new"), first("write", "store"));
  EXPECT_LT(first("write", "store"), first("sync", "store"));
  EXPECT_NE(count("sync", "store"), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "store-wal.new"));
  EXPECT_TRUE(put(3, "after", Durability::sync));
}

TEST_F(SqliteFaults, After_a_failed_copying_the_whole_log_is_copied_again) {
  fail_the_copying();
  vfs_.events.clear();
  const auto reopened = backend_->reopen();
  ASSERT_TRUE(reopened) << reopened.error().message;
  EXPECT_LT(first("sync", "store-wal.new"), first("write", "store"));
  EXPECT_GT(count("write", "store"), 4000) << "every page of the log goes into the database again";
  EXPECT_EQ(body(1)->size(), 1'000'000U);
}

TEST_F(SqliteFaults, A_reopening_that_fails_can_be_repeated) {
  for (const std::string file : {"store-wal.new", "store"}) {
    SCOPED_TRACE(file);
    ASSERT_TRUE(put(1, file, Durability::async));
    fail_once("sync", "store-wal", EIO);
    ASSERT_FALSE(put(2, "in doubt", Durability::sync));
    fail_once("sync", file, EIO);
    const auto reopened = backend_->reopen();
    ASSERT_FALSE(reopened);
    EXPECT_EQ(reopened.error().code, Errc::io_error);
    EXPECT_EQ(put(3, "too early", Durability::sync).error().code, Errc::unavailable);
    EXPECT_EQ(backend_->get(Family::body, engine::number_key(1)).error().code, Errc::unavailable);
    ASSERT_TRUE(backend_->reopen());
    EXPECT_EQ(body(1), file);
    expect_whole(2);
  }
}

// Who closes a store after a failure has not reopened it: the next one must.
TEST_F(SqliteFaults, A_log_in_doubt_is_left_for_the_next_open) {
  ASSERT_TRUE(put(1, "before", Durability::async));
  fail_once("sync", "store-wal", EIO);
  ASSERT_FALSE(put(2, "in doubt", Durability::sync));
  vfs_.events.clear();
  backend_.reset();
  EXPECT_EQ(count("write", "store"), 0);
  backend_ = open_sqlite(folder_ / "store", std::size_t{8} << 20U, false, vfs_.name()).value();
  EXPECT_LT(first("sync", "store-wal.new"), first("write", "store"));
  EXPECT_EQ(body(1), "before");
  expect_whole(2);
}

TEST_F(SqliteFaults, A_store_that_could_not_be_made_is_made_at_the_next_open) {
  for (int writes = 0; writes < 40; ++writes) {
    const auto path = folder_ / ("new-" + std::to_string(writes));
    int left = writes;
    vfs_.fault = [&](const Event& event) {
      return event.file.starts_with("new-") && left-- <= 0 ? EIO : 0;
    };
    const auto failing = open_sqlite(path, std::size_t{8} << 20U, true, vfs_.name());
    vfs_.fault = {};
    if (failing) continue;
    EXPECT_EQ(failing.error().code, Errc::io_error) << failing.error().message;
    const auto again = open_sqlite(path, std::size_t{8} << 20U, true, vfs_.name());
    EXPECT_TRUE(again) << writes << ": " << again.error().message;
  }
}

// Makes or opens a store, writes batches to it and closes it, but is killed before its `last`-th
// write or sync. Exits in order if there are not so many.
[[noreturn]] void live_until(const std::filesystem::path& path, int last) {
  FaultyVfs vfs;
  vfs.fault = [last](const Event&) mutable {
    if (last-- == 0) static_cast<void>(::raise(SIGKILL));
    return 0;
  };
  auto backend = open_sqlite(path, std::size_t{8} << 20U, true, vfs.name());
  if (!backend) std::_Exit(1);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    MutationBatch batch;
    for (std::uint64_t part = 0; part < 3; ++part)
      batch.put(Family::body, engine::number_key(id + (1000 * part)), "written");
    if (!(*backend)->write(batch, id % 2 == 0 ? Durability::sync : Durability::async)) {
      std::_Exit(2);
    }
  }
  backend->reset();
  std::_Exit(0);
}

TEST(SqliteKills, A_process_killed_at_any_write_leaves_whole_batches_in_order) {
  const FreshFolder folder;
  bool killed = true;
  int last = 0;
  for (; killed; ++last) {
    SCOPED_TRACE("killed at write or sync " + std::to_string(last));
    const auto path = folder / ("store-" + std::to_string(last));
    const auto ended = [&killed](int status) {
      killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      return killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    };
    EXPECT_EXIT(live_until(path, last), ended, "");
    // The one who mends it may be killed as well.
    const bool more = killed;
    if (last % 3 == 0) EXPECT_EXIT(live_until(path, last / 3), ended, "");
    killed = more;
    const auto backend = open_sqlite(path, std::size_t{8} << 20U, true);
    ASSERT_TRUE(backend) << backend.error().message;
    bool gone = false;
    for (std::uint64_t id = 1; id <= 4; ++id) {
      for (std::uint64_t part = 0; part < 3; ++part) {
        const auto found = (*backend)->get(Family::body, engine::number_key(id + (1000 * part)));
        ASSERT_TRUE(found) << found.error().message;
        if (part == 0 && !*found) gone = true;
        EXPECT_EQ(found->has_value(), !gone) << id;
      }
    }
    ASSERT_LT(last, 1000);
  }
  EXPECT_GT(last, 40) << "a life has more places to die at";
}

TEST_F(SqliteFaults, The_room_on_the_disk_is_told) { EXPECT_GT(backend_->free_bytes(), 0U); }

}  // namespace
}  // namespace strand::sqlite
