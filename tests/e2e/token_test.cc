// strand token new.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

namespace strand::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

class TokenCommands : public Program {
 protected:
  [[nodiscard]] std::string tokens() const { return folder() + "/tokens.toml"; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(tokens());
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(TokenCommands, A_new_token_is_on_stdout_and_its_entry_on_stderr) {
  const Finished made = run({"token", "new", "billing", "--send", "orders.*", "--send", "a"});
  EXPECT_EQ(made.exit, 0);
  EXPECT_THAT(made.out, MatchesRegex("strand_[A-Za-z0-9_-]*\n"));
  EXPECT_THAT(made.err, StartsWith("[[token]]\nname = \"billing\"\nsha256 = \""));
  EXPECT_THAT(made.err, HasSubstr("send = [\"orders.*\", \"a\"]\n"));
  EXPECT_THAT(made.err, Not(HasSubstr("strand_")));
}

TEST_F(TokenCommands, A_file_gets_entries_and_nobody_else_may_read_it) {
  const Finished first = run({"token", "new", "a", "--admin", "#", "--append", tokens()});
  EXPECT_EQ(first.exit, 0);
  EXPECT_THAT(first.err, IsEmpty());
  EXPECT_EQ(std::filesystem::status(tokens()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto object = json({"token", "new", "b", "--expires", "90d", "--append", tokens()});
  EXPECT_EQ(text(object, "name"), "b");
  EXPECT_THAT(text(object, "token"), StartsWith("strand_"));
  EXPECT_THAT(content(), HasSubstr("name = \"a\""));
  EXPECT_THAT(content(), HasSubstr(text(object, "entry")));
  EXPECT_THAT(content(), Not(HasSubstr("strand_")));

  const std::string before = content();
  EXPECT_THAT(refused(1, {"token", "new", "a", "--append", tokens()}),
              HasSubstr("another token \"a\""));
  EXPECT_EQ(content(), before);
}

TEST_F(TokenCommands, A_pattern_that_is_none_is_wrong_usage) {
  EXPECT_THAT(refused(2, {"token", "new", "a", "--send", "orders*"}),
              HasSubstr("--send: 'orders*' is no pattern"));
  EXPECT_THAT(refused(2, {"token", "new", ""}), HasSubstr("name"));
}

}  // namespace
}  // namespace strand::e2e
