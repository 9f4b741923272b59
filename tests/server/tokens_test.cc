#include "server/tokens.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/doc_tables.h"
#include "unit/fresh_folder.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

// 64 digits; not those of any token here.
const std::string some_digest = "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789";

std::string error_of(std::string_view text) {
  const auto tokens = parse_tokens(text, "tokens.toml");
  return tokens ? "" : tokens.error().message;
}

class Tokens : public testing::Test {
 protected:
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(file_) << text;
    ::chmod(file_.c_str(), mode);
  }
  // A file with one token, which is returned.
  std::string write_one(TokenEntry entry) {
    const std::string token = new_token();
    entry.digest = digest_of(token);
    write(to_toml(entry));
    return token;
  }
  Result<std::unique_ptr<TokenAccess>> open() { return TokenAccess::open(file_, clock_); }

  FreshFolder folder_;
  std::string file_ = folder_ / "tokens.toml";
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
};

TEST_F(Tokens, A_token_is_random_and_recognisable) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string token = new_token();
    EXPECT_TRUE(seen.insert(token).second);
    EXPECT_THAT(token, testing::MatchesRegex("strand_[A-Za-z0-9_-]*"));
    EXPECT_EQ(token.size(), 7U + 43U);
  }
}

TEST_F(Tokens, The_digest_is_what_sha256sum_prints) {
  TokenEntry entry;
  entry.name = "x";
  entry.digest = digest_of("abc");
  EXPECT_THAT(to_toml(entry),
              HasSubstr("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

TEST_F(Tokens, Who_brings_a_token_of_the_file_may_do_what_it_says) {
  const std::string token = write_one(
      {.name = "billing",
       .grants = {{Role::send, "orders.*"}, {Role::receive, "billing"}, {Role::admin, "own.#"}}});
  const auto access = open();
  ASSERT_TRUE(access) << access.error().message;
  const auto permit = (*access)->admit(token);
  ASSERT_TRUE(permit);
  EXPECT_EQ((*permit)->caller(), "billing");
  EXPECT_TRUE((*permit)->may(Role::send, "orders.eu"));
  EXPECT_FALSE((*permit)->may(Role::receive, "orders.eu"));
  EXPECT_TRUE((*permit)->may(Role::receive, "billing"));
  EXPECT_TRUE((*permit)->may(Role::admin, "own.a.b"));
}

TEST_F(Tokens, Nobody_else_is_admitted_and_all_get_the_same_answer) {
  const std::string token =
      write_one({.name = "old", .grants = {{Role::admin, "#"}}, .expires = clock_->wall() + 1h});
  const auto access = open();
  ASSERT_TRUE((*access)->admit(token));
  clock_->advance(1h);
  const auto expired = (*access)->admit(token);
  const auto unknown = (*access)->admit(new_token());
  const auto none = (*access)->admit(std::nullopt);
  const auto empty = (*access)->admit("");
  ASSERT_FALSE(expired || unknown || none || empty);
  EXPECT_EQ(expired.error().code, Errc::forbidden);
  EXPECT_EQ(expired.error().message, unknown.error().message);
  EXPECT_EQ(expired.error().message, none.error().message);
  EXPECT_EQ(expired.error().message, empty.error().message);
  EXPECT_THAT(expired.error().message, Not(HasSubstr(token)));
}

TEST_F(Tokens, A_file_without_tokens_admits_nobody) {
  write("");
  const auto access = open();
  ASSERT_TRUE(access);
  EXPECT_FALSE((*access)->admit(std::nullopt));
  EXPECT_FALSE((*access)->admit("strand_x"));
}

// The digest of the empty text is well known: it must not be a way in.
TEST_F(Tokens, No_token_is_not_the_empty_token) {
  TokenEntry entry{.name = "mistake", .grants = {{Role::admin, "#"}}};
  entry.digest = digest_of("");
  write(to_toml(entry));
  EXPECT_FALSE((*open())->admit(std::nullopt));
}

TEST_F(Tokens, A_file_that_others_may_use_is_refused) {
  write_one({.name = "a"});
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U, 0601U, 0666U}) {
    ::chmod(file_.c_str(), mode);
    const auto access = open();
    ASSERT_FALSE(access) << mode;
    EXPECT_EQ(access.error().code, Errc::forbidden);
    EXPECT_THAT(access.error().message, HasSubstr("chmod 600"));
  }
  for (const mode_t mode : {0600U, 0400U, 0700U}) {
    ::chmod(file_.c_str(), mode);
    EXPECT_TRUE(open()) << mode;
  }
}

TEST_F(Tokens, A_file_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write_one({.name = "a"});
  ASSERT_EQ(::chown(file_.c_str(), 12345, 0), 0);
  EXPECT_THAT(open().error().message, HasSubstr("belongs to another user"));
}

TEST_F(Tokens, A_link_is_followed_and_what_it_leads_to_is_checked) {
  write_one({.name = "a"});
  const std::string link = folder_ / "link.toml";
  ASSERT_EQ(::symlink(file_.c_str(), link.c_str()), 0);
  EXPECT_TRUE(TokenAccess::open(link));
  ::chmod(file_.c_str(), 0644);
  EXPECT_FALSE(TokenAccess::open(link));
}

TEST_F(Tokens, What_is_no_regular_file_is_refused_at_once) {
  EXPECT_THAT(TokenAccess::open(folder_.path()).error().message, HasSubstr("no regular file"));
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(TokenAccess::open(pipe).error().message, HasSubstr("no regular file"));
  EXPECT_FALSE(TokenAccess::open(folder_ / "missing"));
}

TEST_F(Tokens, An_entry_reads_back_as_it_was_written) {
  TokenEntry entry{.name = "a \"b\" \\c",
                   .digest = digest_of("x"),
                   .grants = {{Role::send, "a.*"}, {Role::send, "b"}, {Role::admin, "#"}},
                   .expires = clock_->wall()};
  const auto read = parse_tokens(to_toml(entry), "f");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ(read->front().name, entry.name);
  EXPECT_EQ(read->front().digest, entry.digest);
  EXPECT_EQ(read->front().expires, entry.expires);
  ASSERT_EQ(read->front().grants.size(), 3U);
  EXPECT_EQ(read->front().grants[1].pattern, "b");
}

TEST_F(Tokens, A_file_with_a_mistake_is_refused_whole) {
  const std::string good = "[[token]]\nname = \"a\"\nsha256 = \"" + some_digest + "\"\n";
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(error_of(good + "sent = [\"a\"]"), HasSubstr("did you mean 'send'?"));
  EXPECT_THAT(error_of(good + "send = [\"a..b\"]"), HasSubstr("empty segment"));
  EXPECT_THAT(error_of(good + "send = [\"#.b\"]"), HasSubstr("at the end only"));
  EXPECT_THAT(error_of(good + "send = [\"ord*\"]"), HasSubstr("whole segments"));
  EXPECT_THAT(error_of(good + "send = [\"\"]"), HasSubstr("it is empty"));
  EXPECT_THAT(error_of(good + "send = \"a\""), HasSubstr("write a list"));
  EXPECT_THAT(error_of(good + "expires = \"soon\""), HasSubstr("expires"));
  EXPECT_THAT(error_of(good + "expires = \"\""), HasSubstr("expires"));
  EXPECT_THAT(error_of("[[token]]\nname = \"a\"\n"), HasSubstr("sha256"));
  EXPECT_THAT(error_of("[[token]]\nsha256 = \"" + some_digest + "\"\n"), HasSubstr("name"));
  EXPECT_THAT(error_of(good + good), HasSubstr("another token \"a\""));
  EXPECT_THAT(error_of(good + "[[token]]\nname = \"b\"\nsha256 = \"" + some_digest + "\"\n"),
              HasSubstr("already there"));
  EXPECT_THAT(error_of("[token]\nname = \"a\""), HasSubstr("[[token]]"));
  EXPECT_THAT(error_of("[[tokens]]\nname = \"a\""), HasSubstr("there is no 'tokens'"));
  EXPECT_THAT(error_of("\n\n" + good + "x = 1"), HasSubstr("tokens.toml:3:"));
}

TEST_F(Tokens, No_complaint_repeats_a_token) {
  const std::string token = new_token();
  for (const std::string& text :
       {"[[token]]\nname = \"a\"\nsha256 = \"" + token + "\"\n", "[[token]]\nname = = \"" + token,
        "[[token]]\nname = \"a\"\nsha256 = " + token + "\n",
        fmt::format("[[token]]\nname = \"{}\"\nsha256 = \"{}\"\n", token, some_digest)}) {
    const std::string error = error_of(text);
    EXPECT_NE(error, "");
    EXPECT_THAT(error, Not(HasSubstr(token.substr(7))));
  }
}

TEST_F(Tokens, A_file_that_is_no_TOML_is_refused_with_the_line) {
  EXPECT_EQ(error_of("\n[[token]]\nname = = 1\n"), "tokens.toml:3: this is no TOML");
}

TEST_F(Tokens, A_reload_takes_over_what_the_file_has_then) {
  const std::string first = write_one({.name = "first"});
  const auto access = open();
  const auto before = (*access)->generation();
  const std::string second = write_one({.name = "second"});
  EXPECT_TRUE((*access)->admit(first)) << "nothing is read before it is asked for";
  ASSERT_TRUE((*access)->reload());
  EXPECT_FALSE((*access)->admit(first));
  EXPECT_TRUE((*access)->admit(second));
  EXPECT_GT((*access)->generation(), before);
}

TEST_F(Tokens, A_reload_that_fails_leaves_all_as_it_was) {
  const std::string token = write_one({.name = "a"});
  const auto access = open();
  const auto before = (*access)->generation();
  write("[[token]\n");
  EXPECT_FALSE((*access)->reload());
  EXPECT_TRUE((*access)->admit(token));
  ::unlink(file_.c_str());
  EXPECT_FALSE((*access)->reload());
  EXPECT_TRUE((*access)->admit(token));
  EXPECT_EQ((*access)->generation(), before);
}

TEST_F(Tokens, The_generation_changes_when_a_token_expires) {
  write_one({.name = "a", .expires = clock_->wall() + 1min});
  const auto access = open();
  const auto before = (*access)->generation();
  clock_->advance(59s);
  EXPECT_EQ((*access)->generation(), before);
  clock_->advance(1s);
  const auto expired = (*access)->generation();
  EXPECT_GT(expired, before);
  ASSERT_TRUE((*access)->reload());
  EXPECT_GT((*access)->generation(), expired);
}

TEST_F(Tokens, Callers_are_admitted_while_the_file_is_read_again) {
  const std::string token = write_one({.name = "a"});
  const auto access = open();
  std::atomic<bool> stop = false;
  std::atomic<int> refused = 0;
  std::thread caller([&] {
    while (!stop)
      if (!(*access)->admit(token)) ++refused;
  });
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE((*access)->reload());
  stop = true;
  caller.join();
  EXPECT_EQ(refused, 0);
}

TEST_F(Tokens, An_entry_is_added_to_a_file_that_only_its_owner_may_use) {
  TokenEntry entry{.name = "a", .digest = digest_of("a")};
  ::umask(0);
  ASSERT_TRUE(append_token(file_, entry));
  ::umask(022);
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_THAT(append_token(file_, entry).error().message, HasSubstr("another token"));
  ASSERT_TRUE(append_token(file_, {.name = "b", .digest = digest_of("b")}));
  EXPECT_EQ((*open())->size(), 2U);
  ::chmod(file_.c_str(), 0644);
  EXPECT_FALSE(append_token(file_, {.name = "c", .digest = digest_of("c")}));
}

TEST_F(Tokens, A_broken_file_is_not_added_to) {
  write("[[token]\n");
  EXPECT_FALSE(append_token(file_, {.name = "b", .digest = digest_of("b")}));
  std::ifstream file(file_);
  std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text, "[[token]\n");
}

}  // namespace
}  // namespace strand::server
