// Stores in a folder: who owns it, what is refused and why, what is there after a close. Rules are
// the business of the conformance suite.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <strand/strand.h>

#include "unit/requests.h"

namespace strand {
namespace {

namespace fs = std::filesystem;
using ::testing::Test;

class RocksdbStore : public Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "strand-rocksdb-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path() const { return folder_ / "store"; }
  [[nodiscard]] std::string url() const { return "rocksdb:" + path().native(); }

  [[nodiscard]] std::unique_ptr<Store> opened() const {
    auto store = open(url(), small());
    if (!store) {
      ADD_FAILURE() << store.error().message;
      return nullptr;
    }
    return std::move(*store);
  }
  [[nodiscard]] Error refused(const std::string& url, bool create = true) const {
    OpenOptions options = small();
    options.create = create;
    auto store = open(url, options);
    if (store) {
      ADD_FAILURE() << url << " was opened";
      return {};
    }
    return store.error();
  }
  // A refusal names the path, so that whoever reads it knows which store is meant.
  void expect_refused(Errc code, const std::string& part) const {
    const Error error = refused(url());
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(path().native()), std::string::npos) << error.message;
  }
  void write_file(const fs::path& file, const std::string& text) const {
    std::ofstream(file, std::ios::binary) << text;
  }

 private:
  static OpenOptions small() { return {.clock = {}, .limits = {}, .cache_bytes = 4U << 20U}; }
  fs::path folder_;
};

TEST_F(RocksdbStore, What_was_sent_is_there_after_a_close) {
  ASSERT_TRUE(opened()->apply(send("orders", "a")));
  EXPECT_EQ(opened()->stats("orders")->ready, 1U);
}

TEST_F(RocksdbStore, Folders_on_the_way_are_made) {
  const auto store = open("rocksdb:" + (path() / "deep" / "down").native());
  ASSERT_TRUE(store) << store.error().message;
}

TEST_F(RocksdbStore, A_second_open_names_the_process_that_holds_the_store) {
  const auto store = opened();
  expect_refused(Errc::in_use, "process " + std::to_string(::getpid()));
  EXPECT_TRUE(store->apply(send("orders", "a"))) << "the owner must not notice";
}

TEST_F(RocksdbStore, A_store_that_is_not_there_is_made_only_if_asked) {
  EXPECT_EQ(refused(url(), false).code, Errc::not_found);
  EXPECT_FALSE(fs::exists(path()));
  fs::create_directory(path());
  EXPECT_EQ(refused(url(), false).code, Errc::not_found);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(RocksdbStore, A_path_that_is_a_file_is_refused) {
  write_file(path(), "precious");
  expect_refused(Errc::invalid_argument, "is a file");
  EXPECT_EQ(fs::file_size(path()), 8U);
}

TEST_F(RocksdbStore, A_folder_with_other_files_is_refused_and_left_alone) {
  fs::create_directory(path());
  write_file(path() / "thesis.tex", "precious");
  expect_refused(Errc::invalid_argument, "thesis.tex");
  EXPECT_EQ(std::distance(fs::directory_iterator(path()), {}), 1);
}

TEST_F(RocksdbStore, The_database_of_another_program_is_refused_and_left_alone) {
  ::rocksdb::Options options;
  options.create_if_missing = true;
  ::rocksdb::DB* db = nullptr;
  ASSERT_TRUE(::rocksdb::DB::Open(options, path(), &db).ok());
  ASSERT_TRUE(db->Put({}, "key", "value").ok());
  delete db;
  expect_refused(Errc::invalid_argument, "another program");

  ASSERT_TRUE(::rocksdb::DB::Open(options, path(), &db).ok());
  std::string value;
  EXPECT_TRUE(db->Get({}, "key", &value).ok());
  delete db;
}

TEST_F(RocksdbStore, A_folder_that_cannot_be_written_is_refused) {
  if (::geteuid() == 0) {
    // Nothing is forbidden to root, but nobody can make a folder below a file of the kernel.
    EXPECT_EQ(refused("rocksdb:/proc/strand").code, Errc::invalid_argument);
    return;
  }
  fs::create_directory(path());
  fs::permissions(path(), fs::perms::owner_read | fs::perms::owner_exec);
  expect_refused(Errc::invalid_argument, "permissions");
  fs::permissions(path(), fs::perms::owner_all);
}

TEST_F(RocksdbStore, A_newer_format_is_refused) {
  ASSERT_TRUE(opened());
  write_file(path() / "format", "strand rocksdb store, format 3\n");
  expect_refused(Errc::unsupported, "newer version");
}

// Or a version that knows no lists of erased messages would show those messages again.
TEST_F(RocksdbStore, A_store_of_an_older_format_is_raised_to_this_one) {
  ASSERT_TRUE(opened());
  write_file(path() / "format", "strand rocksdb store, format 1\n");
  ASSERT_TRUE(opened());
  std::ifstream file(path() / "format");
  std::string line;
  EXPECT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "strand rocksdb store, format 2");
}

TEST_F(RocksdbStore, A_format_that_says_nonsense_is_corrupt) {
  ASSERT_TRUE(opened());
  for (const std::string text :
       {"", "x", "strand rocksdb store, format", "strand rocksdb store, format 2"}) {
    write_file(path() / "format", text);
    expect_refused(Errc::corrupt, "does not say");
  }
}

TEST_F(RocksdbStore, A_store_whose_creation_was_cut_off_starts_anew) {
  fs::create_directories(path() / "data");
  write_file(path() / "format", "strand rocksdb store, format 2, being created\n");
  write_file(path() / "data" / "CURRENT", "MANIFEST-000");
  EXPECT_TRUE(opened());
}

// Or it would be taken for a store with nothing in it.
TEST_F(RocksdbStore, A_store_whose_database_is_gone_is_corrupt) {
  ASSERT_TRUE(opened()->apply(send("orders", "a")));
  fs::remove_all(path() / "data");
  expect_refused(Errc::corrupt, "missing");
}

TEST_F(RocksdbStore, A_file_that_is_missing_is_corrupt) {
  ASSERT_TRUE(opened()->apply(send("orders", "a")));
  ASSERT_TRUE(opened());  // flushes the log into a table
  int removed = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path() / "data")) {
    if (entry.path().extension() == ".sst") removed += fs::remove(entry.path()) ? 1 : 0;
  }
  ASSERT_GT(removed, 0);
  expect_refused(Errc::corrupt, "strand check");
}

// A batch that buries a message which the same batch has put: a publication to a full subscription.
TEST_F(RocksdbStore, A_message_that_dies_in_the_batch_that_brings_it_is_a_dead_letter) {
  const auto store = opened();
  Transaction settings;
  ConfigureQueue configure;
  configure.queue = "audit";
  configure.settings.max_length = 1;
  settings.admin = configure;
  ASSERT_TRUE(store->apply(settings));
  Transaction subscribe;
  subscribe.admin = Subscribe{.queue = "audit", .pattern = "orders.#", .from = {}};
  ASSERT_TRUE(store->apply(subscribe));
  Transaction publish;
  for (const char* body : {"fits", "does not"}) {
    Publish message;
    message.topic = "orders.new";
    message.body = body;
    publish.publishes.push_back(message);
  }
  ASSERT_TRUE(store->apply(publish));
  const auto dead = store->dead_letters({.queue = "audit", .after = {}});
  ASSERT_TRUE(dead) << dead.error().message;
  ASSERT_EQ(dead->items.size(), 1U);
  EXPECT_EQ(dead->items.front().body, "does not");
}

}  // namespace
}  // namespace strand
