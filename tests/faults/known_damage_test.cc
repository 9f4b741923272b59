// Damage that was once taken for the end of a file: see the READMEs of the backends.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <strand/strand.h>

#include "faults/fault_script.h"
#include "faults/journal.h"
#include "faults/store_on_disk.h"
#include "store/open.h"
#include "unit/fresh_folder.h"

namespace strand::faults {
namespace {

namespace fs = std::filesystem;

class KnownDamage : public ::testing::Test {
 protected:
  // A store with synced messages, whose process was killed: its log is there.
  void fill(OnDisk kind) {
    make_store(kind, folder_.path(), clock_);
    FaultScript script({.at = UINT64_MAX, .stays = true});
    const ScriptedSystem system(kind, script);
    Journal journal;
    std::vector<std::string> trouble;
    // What the first one wrote is in the files, what the second one wrote is in the log.
    for (int session = 0; session < 2; ++session) {
      auto store = open_journalled(system, folder_.path(), clock_, journal, trouble);
      ASSERT_TRUE(store) << store.error().message;
      for (int i = 0; i < 20; ++i) {
        Transaction transaction;
        Send& send = transaction.sends.emplace_back();
        send.queue = "in";
        send.body = std::string(6'000, 'x');
        ASSERT_TRUE((*store)->apply(transaction));
      }
      if (session == 1) script.fail_now();
    }
  }

  // The largest file whose name fits.
  [[nodiscard]] fs::path file(const std::function<bool(const std::string&)>& fits) const {
    fs::path largest;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || !fits(entry.path().filename())) continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }
  [[nodiscard]] fs::path log() const {
    return file(
        [](const std::string& name) { return name.ends_with(".log") || name.ends_with("-wal"); });
  }
  static void flip_in_the_middle(const fs::path& path) {
    std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(fs::file_size(path) / 2);
    bytes.seekg(at);
    const int old = bytes.get();
    bytes.seekp(at);
    bytes.put(static_cast<char>(static_cast<unsigned>(old) ^ 4U));
  }
  Result<std::unique_ptr<engine::Backend>> open_again(OnDisk kind) {
    return store::open_backend(url_of(kind, folder_.path()), {});
  }
  void expect_corrupt(OnDisk kind) {
    // Also the second time: finding out must not make it look well.
    for (int i = 0; i < 2; ++i) {
      const auto backend = open_again(kind);
      ASSERT_FALSE(backend) << to_string(kind) << " was opened";
      EXPECT_EQ(backend.error().code, Errc::corrupt) << backend.error().message;
    }
  }

  const FreshFolder folder_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
};

class KnownDamageOfLogs : public KnownDamage, public ::testing::WithParamInterface<OnDisk> {};

TEST_P(KnownDamageOfLogs, A_bit_in_the_middle_is_corrupt_and_the_log_is_left_as_it_is) {
  fill(GetParam());
  const fs::path log = this->log();
  ASSERT_FALSE(log.empty());
  const std::uint64_t size = fs::file_size(log);
  flip_in_the_middle(log);
  expect_corrupt(GetParam());
  EXPECT_EQ(fs::file_size(log), size);
}

TEST_P(KnownDamageOfLogs, A_missing_end_is_corrupt) {
  fill(GetParam());
  fs::resize_file(log(), fs::file_size(log()) - 100);
  expect_corrupt(GetParam());
}

TEST_P(KnownDamageOfLogs, A_log_that_was_emptied_is_corrupt) {
  fill(GetParam());
  fs::resize_file(log(), 0);
  expect_corrupt(GetParam());
}

// What power loss leaves of a write that nobody was told of.
TEST_P(KnownDamageOfLogs, Rubbish_behind_the_end_is_no_damage) {
  fill(GetParam());
  std::ofstream(log(), std::ios::binary | std::ios::app) << std::string(5'000, '\x5a');
  const auto backend = open_again(GetParam());
  ASSERT_TRUE(backend) << backend.error().message;
  std::size_t bodies = 0;
  for (const auto& [key, value] : read_all(**backend).value())
    bodies += key.first == engine::Family::body ? 1 : 0;
  EXPECT_EQ(bodies, 40U);
}

// A note says nothing then; that is no reason to refuse a store.
TEST_P(KnownDamageOfLogs, A_damaged_note_is_no_damage) {
  fill(GetParam());
  const fs::path note = file([](const std::string& name) { return name.ends_with("synced"); });
  ASSERT_FALSE(note.empty());
  flip_in_the_middle(note);
  EXPECT_TRUE(open_again(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Stores, KnownDamageOfLogs,
                         ::testing::Values(OnDisk::rocksdb, OnDisk::sqlite),
                         [](const auto& info) { return to_string(info.param); });

TEST_F(KnownDamage, A_manifest_without_its_end_is_corrupt) {
  fill(OnDisk::rocksdb);
  const fs::path manifest =
      file([](const std::string& name) { return name.starts_with("MANIFEST"); });
  fs::resize_file(manifest, fs::file_size(manifest) - 10);
  expect_corrupt(OnDisk::rocksdb);
}

TEST_F(KnownDamage, A_database_file_without_its_end_is_corrupt_though_there_is_a_log) {
  fill(OnDisk::sqlite);
  const fs::path database = file([](const std::string& name) { return name == "store"; });
  fs::resize_file(database, fs::file_size(database) - 4096);
  expect_corrupt(OnDisk::sqlite);
}

TEST_F(KnownDamage, A_database_file_that_was_emptied_is_no_new_store) {
  fill(OnDisk::sqlite);
  fs::resize_file(folder_ / "store", 0);
  expect_corrupt(OnDisk::sqlite);
}

// SQLite itself would believe it.
TEST_F(KnownDamage, A_bit_in_a_page_is_corrupt_when_the_page_is_read) {
  fill(OnDisk::sqlite);
  {
    ASSERT_TRUE(open_again(OnDisk::sqlite));
  }
  flip_in_the_middle(folder_ / "store");
  const auto backend = open_again(OnDisk::sqlite);
  if (!backend) {
    EXPECT_EQ(backend.error().code, Errc::corrupt);
    return;
  }
  const auto read = read_all(**backend);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::corrupt) << read.error().message;
}

}  // namespace
}  // namespace strand::faults
