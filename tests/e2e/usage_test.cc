// What the program says to those who do not know it yet, or mistype.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

namespace strand::e2e {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Program, It_tells_its_version_and_its_commands) {
  EXPECT_THAT(ok({"--version"}), testing::MatchesRegex("strand [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const std::string help = ok({"help"});
  EXPECT_EQ(help, ok({"--help"}));
  for (const char* name : {"send", "receive", "ack", "retry", "dead", "release", "renew", "queue",
                           "dlq", "topic", "workflow", "saga", "serve", "token"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + name));
  }
}

TEST_F(Program, Every_command_has_help_that_ends_with_an_example) {
  const std::vector<Words> commands = {{"send"},
                                       {"receive"},
                                       {"ack"},
                                       {"retry"},
                                       {"dead"},
                                       {"release"},
                                       {"renew"},
                                       {"queue", "ls"},
                                       {"queue", "show"},
                                       {"queue", "set"},
                                       {"queue", "pause"},
                                       {"queue", "resume"},
                                       {"queue", "purge"},
                                       {"queue", "rm"},
                                       {"dlq", "ls"},
                                       {"dlq", "show"},
                                       {"dlq", "redrive"},
                                       {"dlq", "drop"},
                                       {"topic", "publish"},
                                       {"topic", "subscribe"},
                                       {"topic", "unsubscribe"},
                                       {"topic", "ls"},
                                       {"topic", "set"},
                                       {"workflow", "start"},
                                       {"workflow", "ls"},
                                       {"workflow", "show"},
                                       {"workflow", "history"},
                                       {"workflow", "event"},
                                       {"workflow", "query"},
                                       {"workflow", "cancel"},
                                       {"workflow", "terminate"},
                                       {"workflow", "resume"},
                                       {"workflow", "result"},
                                       {"workflow", "rm"},
                                       {"workflow", "prune"},
                                       {"saga", "ls"},
                                       {"saga", "show"},
                                       {"consume"},
                                       {"store", "migrate"},
                                       {"check"}};
  for (Words words : commands) {
    std::string name = "strand";
    for (const std::string& word : words)
      name += " " + word;
    words.emplace_back("--help");
    const std::string help = ok(words);
    const std::size_t example = help.find("\nExample:\n  ");
    ASSERT_NE(example, std::string::npos) << help;
    EXPECT_THAT(help.substr(example), HasSubstr(name));
    EXPECT_THAT(help, HasSubstr("--store"));
    EXPECT_THAT(help, HasSubstr("-o,--output"));
  }
}

TEST_F(Program, A_mistyped_word_is_answered_with_the_nearest) {
  EXPECT_THAT(refused(2, {"recieve", "orders"}), HasSubstr("did you mean 'receive'?"));
  EXPECT_THAT(refused(2, {"queue", "shw", "orders"}), HasSubstr("did you mean 'show'?"));
  EXPECT_THAT(refused(2, {"send", "orders", "x", "--kye", "k"}),
              HasSubstr("did you mean '--key'?"));
  EXPECT_THAT(refused(2, {"send", "orders", "x", "--priorty=1"}),
              HasSubstr("did you mean '--priority'?"));
  EXPECT_THAT(refused(2, {"queue", "set", "orders", "leese=5s"}),
              testing::AllOf(HasSubstr("did you mean 'lease'?"), HasSubstr("starvation_after")));
}

TEST_F(Program, Wrong_usage_is_refused_before_any_store_is_opened) {
  const std::vector<Words> wrong = {
      {},
      {"queue"},
      {"send"},
      {"send", "orders", "a", "b"},
      {"send", "orders", "a", "--priority", "4"},
      {"send", "orders", "a", "--delay", "5"},
      {"send", "orders", "a", "--header", "novalue"},
      {"send", "orders", "a", "--durability", "maybe"},
      {"send", "orders", "a", "--key-separator", ":"},
      {"send", "orders", "a", "--lines"},
      {"send", "orders", "--lines", "--dedup", "d"},
      {"send", "orders", "a", "--key", "k", "--key", "k"},
      {"receive", "orders", "--lanes", "0"},
      {"receive", "orders", "--max", "-1"},
      {"receive", "orders", "-o", "yaml"},
      {"ack", "not-a-token"},
      {"ack", std::string(48, 'a'), "seven"},
      {"queue", "set", "orders"},
      {"queue", "set", "orders", "lease"},
      {"queue", "set", "orders", "retry_policy=sometimes"},
      {"queue", "resume", "orders", "--key", "k", "--id", "1"},
      {"queue", "purge", "orders"},
      {"queue", "rm", "orders"},
      {"dlq", "redrive", "orders"},
      {"dlq", "redrive", "orders", "1", "--all"},
      {"dlq", "drop", "orders", "--all"},
      {"topic", "subscribe", "a.b"},
      {"topic", "subscribe", "a.b", "--name", "q", "--from", "yesterday"},
      {"topic", "set", "a.b", "keep=1h"},
  };
  for (const Words& words : wrong)
    refused(2, words);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(Program, Without_a_server_the_default_store_fails_with_a_line_that_names_the_option) {
  const Finished finished = Process(command({"queue", "ls"}), {}).finish();
  if (finished.exit == 0) GTEST_SKIP() << "somebody has a server on the default port";
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, StartsWith("strand: cannot open the store strand://127.0.0.1:7481"));
  EXPECT_THAT(finished.err, HasSubstr("`strand serve`"));
  EXPECT_THAT(finished.err, HasSubstr("--store"));
  EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
}

// A mistyped path must not look like an empty store.
TEST_F(Program, Only_what_adds_something_creates_a_store) {
  EXPECT_THAT(refused(1, {"queue", "ls"}), HasSubstr("there is no store"));
  refused(1, {"receive", "orders"});
  refused(1, {"dlq", "ls", "orders"});
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  ok({"send", "orders", "a"});
  EXPECT_THAT(ok({"queue", "ls"}), HasSubstr("orders"));
}

TEST_F(Program, The_option_goes_before_the_environment) {
  const std::string other = "rocksdb:" + folder() + "/other";
  ok({"send", "orders", "a", "--store", other});
  EXPECT_THAT(refused(1, {"queue", "ls"}), HasSubstr("there is no store"));
  EXPECT_THAT(ok({"queue", "ls", "--store=" + other}), HasSubstr("orders"));
}

TEST_F(Program, A_store_that_another_process_has_open_says_who_has_it) {
  Process holder(command({"send", "orders", "--lines", "-o", "json"}), on_store());
  holder.write("a\n");
  holder.read_line();
  EXPECT_THAT(refused(1, {"queue", "ls"}), HasSubstr(std::to_string(holder.id())));
  EXPECT_EQ(holder.finish("b\n").exit, 0) << "the owner must not notice";
  EXPECT_THAT(ok({"queue", "ls"}), HasSubstr("orders"));
}

TEST_F(Program, A_name_that_is_also_a_command_is_a_name) {
  ok({"send", "queue", "send"});
  ok({"send", "help", "--", "--key"});
  EXPECT_THAT(ok({"receive", "queue"}), HasSubstr("  send\n"));
  EXPECT_THAT(ok({"receive", "help"}), HasSubstr("  --key\n"));
}

}  // namespace
}  // namespace strand::e2e
