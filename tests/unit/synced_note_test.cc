#include "store/disk/synced_note.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "fresh_folder.h"

namespace strand {
namespace {

namespace fs = std::filesystem;
using disk::SyncedNote;
using Content = SyncedNote::Content;

class SyncedNotes : public testing::Test {
 protected:
  [[nodiscard]] Content read() const { return SyncedNote(file_).read(); }
  [[nodiscard]] std::string text() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_text(const std::string& text) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << text;
  }

  FreshFolder folder_;
  fs::path file_ = folder_.path() / "synced";
};

TEST_F(SyncedNotes, Nothing_is_made_or_known_before_the_first_number) {
  const SyncedNote note(file_);
  EXPECT_EQ(note.read(), Content{});
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(SyncedNotes, The_last_one_is_read_while_it_is_still_open_and_later) {
  SyncedNote note(file_);
  for (std::uint64_t number = 1; number <= 5; ++number) {
    const Content content{.number = number, .files = "MANIFEST-" + std::to_string(number)};
    note.write(content);
    EXPECT_EQ(read(), content);
  }
  SyncedNote later(file_);
  later.write({.number = 6, .files = "MANIFEST-6"});
  EXPECT_EQ(read().number, 6);
}

TEST_F(SyncedNotes, Files_may_change_without_the_number) {
  SyncedNote note(file_);
  for (const std::string files : {"a", "b", "c"}) {
    note.write({.number = 7, .files = files});
    EXPECT_EQ(read(), (Content{.number = 7, .files = files}));
  }
  SyncedNote later(file_);
  later.write({.number = 7, .files = "d"});
  EXPECT_EQ(read().files, "d");
}

TEST_F(SyncedNotes, With_one_line_damaged_the_one_before_counts) {
  {
    SyncedNote note(file_);
    note.write({.number = 8, .files = "a"});
    note.write({.number = 9, .files = "a"});
  }
  const std::string whole = text();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    set_text(damaged);
    const std::uint64_t number = read().number;
    EXPECT_TRUE(number == 8 || number == 9) << "byte " << i << ": " << number;
  }
}

TEST_F(SyncedNotes, One_that_was_cut_is_made_whole_by_the_next_number) {
  SyncedNote(file_).write({.number = 10, .files = "a"});
  const std::string whole = text();
  for (const std::size_t left :
       {whole.size() - 1, whole.size() / 2, std::size_t{10}, std::size_t{0}}) {
    set_text(whole.substr(0, left));
    EXPECT_LE(read().number, 10);
    SyncedNote(file_).write({.number = 11, .files = "b"});
    EXPECT_EQ(read(), (Content{.number = 11, .files = "b"}));
    EXPECT_EQ(text().size(), whole.size());
  }
}

TEST_F(SyncedNotes, Removed_it_starts_anew) {
  SyncedNote note(file_);
  note.write({.number = 12, .files = {}});
  note.remove();
  EXPECT_FALSE(fs::exists(file_));
  note.write({.number = 1, .files = {}});
  EXPECT_EQ(read().number, 1);
}

TEST_F(SyncedNotes, Where_none_can_be_written_none_is) {
  SyncedNote note(folder_.path() / "missing" / "synced");
  note.write({.number = 13, .files = {}});
  EXPECT_EQ(note.read(), Content{});
}

}  // namespace
}  // namespace strand
