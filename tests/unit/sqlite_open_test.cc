// Opening an SQLite store: what is refused and in which words, who owns it, what a process that was
// killed leaves behind.

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/engine/records.h"
#include "store/sqlite/page_checksums.h"
#include "store/sqlite/sqlite_backend.h"
#include "unit/fresh_folder.h"

namespace strand::sqlite {
namespace {

using engine::Family;
using engine::MutationBatch;
using ::testing::KilledBySignal;

constexpr std::size_t cache_bytes = std::size_t{8} << 20U;

std::unique_ptr<engine::Backend> opened(const std::filesystem::path& path, bool create = true) {
  auto backend = open_sqlite(path, cache_bytes, create);
  if (!backend) ADD_FAILURE() << backend.error().message;
  return std::move(backend).value();
}

Error refused(const std::filesystem::path& path, bool create = true) {
  auto backend = open_sqlite(path, cache_bytes, create);
  if (backend) {
    ADD_FAILURE() << path << " was opened";
    return {};
  }
  return backend.error();
}

void expect_says(const Error& error, std::string_view words) {
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
}

void put(engine::Backend& backend, std::uint64_t id, std::string_view body,
         Durability durability = Durability::async) {
  MutationBatch batch;
  batch.put(Family::body, engine::number_key(id), body);
  const auto written = backend.write(batch, durability);
  ASSERT_TRUE(written) << written.error().message;
}

std::optional<std::string> body(engine::Backend& backend, std::uint64_t id) {
  return backend.get(Family::body, engine::number_key(id)).value();
}

// Changes a database as the store itself would, with checksums; or as another program does.
enum class Who : std::uint8_t { store, stranger };
void run_sql(const std::filesystem::path& path, const std::string& sql, Who who = Who::store) {
  const PageChecksums checksums("");
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                            who == Who::store ? checksums.name().c_str() : nullptr),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::ptrdiff_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// A process that writes, and ends without closing its store.
[[noreturn]] void write_and_die(const std::filesystem::path& path, std::uint64_t id) {
  auto backend = open_sqlite(path, cache_bytes, true);
  if (!backend) std::_Exit(1);
  MutationBatch batch;
  batch.put(Family::body, engine::number_key(id), "written");
  if (!(*backend)->write(batch, Durability::async)) std::_Exit(2);
  static_cast<void>(::raise(SIGKILL));
  std::_Exit(3);
}

TEST(SqliteOpen, A_store_is_found_again_after_it_was_closed) {
  const FreshFolder folder;
  put(*opened(folder / "store"), 1, "kept");
  EXPECT_FALSE(std::filesystem::exists(folder / "store-wal")) << "a closed store is one file";
  EXPECT_EQ(body(*opened(folder / "store", false), 1), "kept");
}

TEST(SqliteOpen, A_missing_store_is_not_found_unless_it_may_be_made) {
  const FreshFolder folder;
  EXPECT_EQ(refused(folder / "store", false).code, Errc::not_found);
  EXPECT_EQ(files_in(folder.path()), 0);
  write_file(folder / "store", "");
  EXPECT_EQ(refused(folder / "store", false).code, Errc::not_found);
  EXPECT_NE(opened(folder / "store"), nullptr) << "an empty file is as good as none";
}

TEST(SqliteOpen, A_store_without_a_folder_to_lie_in_is_refused) {
  const FreshFolder folder;
  const Error error = refused(folder / "nowhere/store");
  EXPECT_EQ(error.code, Errc::invalid_argument);
  expect_says(error, "nowhere");
}

TEST(SqliteOpen, A_folder_is_no_store) {
  const FreshFolder folder;
  const Error error = refused(folder.path());
  EXPECT_EQ(error.code, Errc::invalid_argument);
  expect_says(error, "is a folder");
}

TEST(SqliteOpen, A_file_that_cannot_be_written_is_refused_with_the_reason) {
  const FreshFolder folder;
  opened(folder / "store").reset();
  std::filesystem::permissions(folder / "store", std::filesystem::perms::owner_read);
  const auto as_somebody_else = [&] {
    // To root, every file can be written.
    if (::geteuid() == 0 && ::seteuid(65534) != 0) std::_Exit(2);
    const auto backend = open_sqlite(folder / "store", cache_bytes, true);
    const bool right = !backend && backend.error().code == Errc::invalid_argument &&
                       backend.error().message.find("permissions") != std::string::npos;
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(as_somebody_else(), ::testing::ExitedWithCode(0), "");
}

TEST(SqliteOpen, A_file_that_is_no_database_is_refused_and_left_alone) {
  const FreshFolder folder;
  write_file(folder / "store", "Dear diary, today I opened the wrong file.");
  const Error error = refused(folder / "store");
  EXPECT_EQ(error.code, Errc::corrupt);
  expect_says(error, "not an SQLite database");
  EXPECT_EQ(content(folder / "store"), "Dear diary, today I opened the wrong file.");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(SqliteOpen, The_database_of_another_program_is_refused_and_left_alone) {
  const FreshFolder folder;
  for (const std::string journal : {"DELETE", "WAL"}) {
    const auto path = folder / ("theirs-" + journal);
    run_sql(path, "PRAGMA journal_mode=" + journal + "; CREATE TABLE recipe (name TEXT)");
    const std::string before = content(path);
    const Error error = refused(path);
    EXPECT_EQ(error.code, Errc::invalid_argument);
    expect_says(error, "another program");
    EXPECT_EQ(content(path), before);
    EXPECT_FALSE(std::filesystem::exists(path.native() + "-owner"));
  }
  const auto marked = folder / "marked";
  run_sql(marked, "PRAGMA application_id=1");
  EXPECT_EQ(refused(marked).code, Errc::invalid_argument);
}

TEST(SqliteOpen, A_newer_format_is_refused_with_the_way_out) {
  const FreshFolder folder;
  opened(folder / "store").reset();
  run_sql(folder / "store", "PRAGMA user_version=4");
  const Error error = refused(folder / "store");
  EXPECT_EQ(error.code, Errc::unsupported);
  expect_says(error, "format 4");
}

TEST(SqliteOpen, A_table_that_is_missing_or_altered_is_corrupt) {
  const FreshFolder folder;
  opened(folder / "store").reset();
  run_sql(folder / "store", "DROP TABLE lane");
  EXPECT_EQ(refused(folder / "store").code, Errc::corrupt);
  expect_says(refused(folder / "store"), "\"lane\"");
  opened(folder / "other").reset();
  run_sql(folder / "other", "ALTER TABLE message ADD COLUMN note TEXT");
  expect_says(refused(folder / "other"), "not as Strand made it");
}

TEST(SqliteOpen, What_another_program_has_written_is_refused_and_what_it_read_is_not) {
  const FreshFolder folder;
  opened(folder / "store").reset();
  run_sql(folder / "store",
          "CREATE TEMP VIEW mine AS SELECT count(*) FROM message; SELECT * FROM mine",
          Who::stranger);
  EXPECT_NE(opened(folder / "store"), nullptr);
  run_sql(folder / "store", "CREATE VIEW mine AS SELECT count(*) FROM message", Who::stranger);
  const Error error = refused(folder / "store");
  EXPECT_EQ(error.code, Errc::corrupt);
  expect_says(error, "another program has changed it");
}

// A shell that is the last one to close a database copies its log.
TEST(SqliteOpen, A_log_that_another_program_copied_is_as_good_as_before) {
  const FreshFolder folder;
  EXPECT_EXIT(write_and_die(folder / "store", 1), KilledBySignal(SIGKILL), "");
  run_sql(folder / "store", "SELECT count(*) FROM message", Who::stranger);
  EXPECT_FALSE(std::filesystem::exists(folder / "store-wal"));
  EXPECT_TRUE(body(*opened(folder / "store"), 1));
}

TEST(SqliteOpen, A_damaged_header_is_corrupt_and_says_what_to_do) {
  const FreshFolder folder;
  opened(folder / "store").reset();
  std::string bytes = content(folder / "store");
  bytes.replace(100, 3900, 3900, '\x55');
  write_file(folder / "store", bytes);
  const Error error = refused(folder / "store");
  EXPECT_EQ(error.code, Errc::corrupt);
  expect_says(error, "restore a backup");
}

TEST(SqliteOpen, A_damaged_row_is_corrupt_when_it_is_read) {
  const FreshFolder folder;
  std::string value;
  encode(engine::CountersRecord{}, value);
  MutationBatch batch;
  batch.put(Family::counters, engine::queue_key(engine::QueueId{1}), value);
  ASSERT_TRUE(opened(folder / "store")->write(batch, Durability::sync));
  run_sql(folder / "store", "UPDATE counters SET acked='many'");
  const auto backend = opened(folder / "store");
  const auto found = backend->get(Family::counters, engine::queue_key(engine::QueueId{1}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::corrupt);
  const auto scanned = backend->scan(Family::counters, {}, {}, [](auto, auto) { return true; });
  ASSERT_FALSE(scanned);
  EXPECT_EQ(scanned.error().code, Errc::corrupt);
}

TEST(SqliteOpen, A_second_owner_is_refused_and_told_who_the_first_is) {
  const FreshFolder folder;
  const auto first = opened(folder / "store");
  std::filesystem::create_symlink(folder / "store", folder / "link");
  for (const auto& path : {folder / "store", folder / "link"}) {
    const Error error = refused(path);
    EXPECT_EQ(error.code, Errc::in_use);
    expect_says(error, "process " + std::to_string(::getpid()));
  }
  put(*first, 1, "still works");
}

TEST(SqliteOpen, Somebody_who_reads_with_other_tools_is_not_in_the_way) {
  const FreshFolder folder;
  auto backend = opened(folder / "store");
  put(*backend, 1, "one");
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "store").c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT * FROM body", nullptr, nullptr, nullptr),
            SQLITE_OK);
  put(*backend, 2, "two", Durability::sync);
  EXPECT_EQ(body(*backend, 2), "two");
  ASSERT_EQ(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  backend.reset();
  // The log is empty, so that nobody has to be sent away to open the store again.
  backend = opened(folder / "store");
  EXPECT_EQ(body(*backend, 2), "two");
  sqlite3_close(reader);
}

// Nothing was written, so nobody has to close what they have open.
TEST(SqliteOpen, Somebody_who_keeps_the_database_locked_delays_writes_and_harms_nothing) {
  const FreshFolder folder;
  const auto backend = opened(folder / "store");
  put(*backend, 1, "one");
  sqlite3* shell = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "store").c_str(), &shell), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(shell, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  MutationBatch batch;
  batch.put(Family::body, engine::number_key(2), "two");
  const auto written = backend->write(batch, Durability::sync);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::unavailable);
  expect_says(written.error(), "COMMIT");
  ASSERT_EQ(sqlite3_exec(shell, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_TRUE(backend->reopen());
  EXPECT_EQ(body(*backend, 1), "one");
  EXPECT_EQ(body(*backend, 2), std::nullopt);
  put(*backend, 2, "two");
  sqlite3_close(shell);
}

TEST(SqliteOpen, A_path_may_be_relative_and_look_like_something_else) {
  const FreshFolder folder;
  const auto in_the_folder = [&] {
    if (::chdir(folder.path().c_str()) != 0) std::_Exit(1);
    for (const std::string name : {"store", ":memory:", "file:store?mode=memory"}) {
      if (!open_sqlite(name, cache_bytes, true)) std::_Exit(2);
      if (!std::filesystem::exists(name)) std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(in_the_folder(), ::testing::ExitedWithCode(0), "");
}

TEST(SqliteOpen, What_was_written_survives_the_process) {
  const FreshFolder folder;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EXIT(write_and_die(folder / "store", id), KilledBySignal(SIGKILL), "");
  }
  EXPECT_GT(std::filesystem::file_size(folder / "store-wal"), 0U);
  const auto backend = opened(folder / "store");
  EXPECT_EQ(std::filesystem::file_size(folder / "store-wal"), 0U)
      << "the log that was left behind has been copied into the database";
  for (std::uint64_t id = 1; id <= 3; ++id)
    EXPECT_EQ(body(*backend, id), "written");
}

// The log cannot be replaced under somebody who reads it.
TEST(SqliteOpen, A_log_that_was_left_behind_waits_for_whoever_reads_it) {
  const FreshFolder folder;
  EXPECT_EXIT(write_and_die(folder / "store", 1), KilledBySignal(SIGKILL), "");
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const std::string path = folder / "store";
  const pid_t reader = ::fork();
  if (reader == 0) {
    sqlite3* database = nullptr;
    const bool reads =
        sqlite3_open(path.c_str(), &database) == SQLITE_OK &&
        sqlite3_exec(database, "SELECT * FROM body", nullptr, nullptr, nullptr) == SQLITE_OK;
    static_cast<void>(::write(ready[1], reads ? "y" : "n", 1));
    ::pause();
    std::_Exit(0);
  }
  char reads = 'n';
  ASSERT_EQ(::read(ready[0], &reads, 1), 1);
  ASSERT_EQ(reads, 'y');
  const Error error = refused(folder / "store");
  EXPECT_EQ(error.code, Errc::in_use);
  expect_says(error, "process " + std::to_string(reader));
  ASSERT_EQ(::kill(reader, SIGKILL), 0);
  ASSERT_EQ(::waitpid(reader, nullptr, 0), reader);
  EXPECT_EQ(body(*opened(folder / "store"), 1), "written");
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace strand::sqlite
