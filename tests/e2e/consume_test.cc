#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

// consume --exec

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Consume : public Program {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const { return folder() + "/" + name; }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Until nothing is ready; returns the report.
  boost::json::object consume(const std::string& command, Words more = {}) const {
    Words words = {"consume", "q", "--exec", command, "--until-idle", "-o", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = run(words);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto objects = json_lines(finished.out);
    return objects.empty() ? boost::json::object{} : objects.front();
  }
};

TEST_F(Consume, Runs_a_command_for_each_key_with_its_messages_in_order) {
  for (const char* body : {"1", "2", "3"})
    ok({"send", "q", body, "--key", "a", "--header", "h=v"});
  const auto report =
      consume("echo \"$STRAND_QUEUE $STRAND_KEY\" > " + file("names") + "; cat > " + file("in"));
  EXPECT_EQ(count(report, "acked"), 3);
  EXPECT_EQ(count(report, "batches"), 1);
  EXPECT_EQ(content("names"), "q a\n");
  const auto messages = json_lines(content("in"));
  ASSERT_EQ(messages.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(text(messages[i], "body"), std::to_string(i + 1));
    EXPECT_EQ(text(messages[i], "key"), "a");
    EXPECT_EQ(count(messages[i], "deliveries"), 1);
  }
  EXPECT_EQ(count(json({"queue", "show", "q"}).at("stats").as_object(), "acked"), 3);
}

TEST_F(Consume, A_command_that_fails_is_a_retry_with_its_stderr) {
  ok({"send", "q", "x", "--key", "a"});
  const auto report = consume("echo no such customer >&2; exit 3");
  EXPECT_EQ(count(report, "retried"), 1);
  EXPECT_EQ(count(report, "acked"), 0);
  const auto waiting = json_lines(ok({"queue", "peek", "q", "--state", "backoff", "-o", "json"}));
  ASSERT_EQ(waiting.size(), 1);
  EXPECT_EQ(text(waiting.front(), "last_reason"), "no such customer");
  EXPECT_THAT(text(waiting.front(), "retry_at"), testing::StartsWith("20"));
  EXPECT_THAT(ok({"queue", "peek", "q"}), HasSubstr("again at 20"));
  EXPECT_THAT(refused(2, {"queue", "peek", "q", "--state", "asleep"}), HasSubstr("ready, delayed"));
  ok({"queue", "set", "q", "max_attempts=1"});
  // Redriven by hand later; here its time comes at once.
  ok({"send", "q", "y", "--key", "b"});
  consume("echo really no such customer >&2; exit 3");
  const auto letters = json_lines(ok({"dlq", "ls", "q", "-o", "json"}));
  ASSERT_EQ(letters.size(), 1);
  EXPECT_EQ(text(letters.front(), "body"), "y");
  EXPECT_THAT(text(letters.front(), "reason"), HasSubstr("really no such customer"));
}

TEST_F(Consume, A_silent_failure_says_how_the_command_ended) {
  ok({"send", "q", "quiet"});
  ok({"send", "q", "violent"});
  ok({"queue", "set", "q", "max_attempts=1"});
  consume("read line; case $line in *quiet*) exit 7;; *) kill -9 $$;; esac");
  Words reasons;
  for (const auto& letter : json_lines(ok({"dlq", "ls", "q", "-o", "json"})))
    reasons.push_back(text(letter, "reason"));
  EXPECT_THAT(reasons,
              testing::UnorderedElementsAre(HasSubstr("exit code 7"), HasSubstr("signal 9")));
}

TEST_F(Consume, Commands_run_at_the_same_time_for_different_keys) {
  for (const char* key : {"a", "b"})
    ok({"send", "q", "x", "--key", key});
  // Each waits for the other: one at a time would never end.
  const std::string command = "touch " + file("") + "$STRAND_KEY; until [ -e " + file("a") +
                              " ] && [ -e " + file("b") + " ]; do sleep 0.01; done";
  EXPECT_EQ(count(consume(command, {"--concurrency", "2"}), "acked"), 2);
}

TEST_F(Consume, One_by_one_runs_a_command_for_each_message) {
  for (const char* body : {"1", "2"})
    ok({"send", "q", body, "--key", "a"});
  const auto report = consume("wc -l >> " + file("counts"), {"--one-by-one"});
  EXPECT_EQ(count(report, "batches"), 2);
  EXPECT_EQ(content("counts"), "1\n1\n");
}

TEST_F(Consume, A_command_that_does_not_read_its_input_is_fine) {
  ok({"send", "q", "-"}, std::string(500'000, 'x'));
  EXPECT_EQ(count(consume("exit 0"), "acked"), 1);
}

TEST_F(Consume, Output_of_the_command_is_shown) {
  ok({"send", "q", "x"});
  const Finished finished = run({"consume", "q", "--exec", "echo hello", "--until-idle"});
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(finished.out, "hello\n");
  EXPECT_THAT(finished.err, HasSubstr("1 messages acknowledged"));
}

TEST_F(Consume, A_signal_ends_it_when_the_command_has_finished) {
  ok({"send", "q", "x"});
  Process process(command({"consume", "q", "--exec",
                           "echo begun; until [ -e " + file("go") + " ]; do sleep 0.01; done",
                           "--patience", "1m"}),
                  on_store());
  EXPECT_EQ(process.read_line(), "begun");
  process.signal(SIGTERM);
  std::ofstream(file("go")) << "go";
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(count(json({"queue", "show", "q"}).at("stats").as_object(), "acked"), 1);
}

TEST_F(Consume, A_signal_without_patience_gives_the_message_back_uncharged) {
  ok({"send", "q", "x"});
  Process process(
      command({"consume", "q", "--exec", "echo begun; exec sleep 1000", "--patience", "1ms"}),
      on_store());
  EXPECT_EQ(process.read_line(), "begun");
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().exit, 0);
  const auto lease = json({"receive", "q"});
  EXPECT_EQ(count(lease.at("messages").at(0).as_object(), "attempts"), 0);
}

TEST_F(Consume, Wrong_usage_is_explained) {
  EXPECT_THAT(refused(2, {"consume", "q"}), HasSubstr("--exec"));
  EXPECT_THAT(refused(1, {"consume", "q", "--exec", "true"}), HasSubstr("no store"));
}

}  // namespace
}  // namespace strand::e2e
