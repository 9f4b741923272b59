// send --lines: many messages from a pipe.

#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

namespace strand::e2e {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string numbered(int count) {
  std::string lines;
  for (int i = 1; i <= count; ++i)
    lines += std::to_string(i) + "\n";
  return lines;
}

TEST_F(Program, Ten_thousand_lines_are_ten_thousand_messages_in_order) {
  EXPECT_EQ(ok({"send", "orders", "--lines", "--key", "k"}, numbered(10'000)),
            "10000 sent to orders\n");
  const auto lease = json({"receive", "orders", "--max", "100000"});
  const auto all = bodies(lease);
  ASSERT_EQ(all.size(), 10'000U);
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], std::to_string(i + 1));
}

TEST_F(Program, In_JSON_each_line_has_an_answer_of_its_own) {
  // The last line needs no end; an empty one is a message with an empty body.
  const auto sent = json_lines(ok({"send", "orders", "--lines", "-o", "json"}, "a\n\nb"));
  ASSERT_EQ(sent.size(), 3U);
  for (const auto& one : sent)
    EXPECT_THAT(names_of(one), ElementsAre("id", "duplicate"));
  EXPECT_LT(count(sent.at(0), "id"), count(sent.at(1), "id"));
  EXPECT_EQ(ok({"send", "orders", "--lines"}, ""), "0 sent to orders\n");
}

// `tail -f log | strand send --lines` must not wait until a batch is full.
TEST_F(Program, Lines_of_a_slow_pipe_are_sent_as_they_come) {
  Process sending(command({"send", "orders", "--lines", "-o", "json"}), on_store());
  for (int i = 0; i < 3; ++i) {
    sending.write("line\nhalf a ");
    EXPECT_THAT(sending.read_line(), HasSubstr("\"duplicate\":false"));
  }
  const Finished finished = sending.finish("line\n");
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(json_lines(finished.out).size(), 1U);
}

TEST_F(Program, Ctrl_C_says_how_much_was_sent) {
  Process sending(command({"send", "orders", "--lines", "-o", "json"}), on_store());
  sending.write("a\nb\nunfinished");
  sending.read_line();
  sending.read_line();
  sending.signal(SIGINT);
  const Finished finished = sending.wait();
  EXPECT_EQ(finished.exit, 130);
  EXPECT_EQ(finished.err, "strand: interrupted; 2 lines were sent\n");
}

// All before the line, nothing from it on: so that a person can go on from there.
TEST_F(Program, A_line_that_is_refused_is_named_and_ends_it) {
  const std::string large(std::size_t{1} << 20U, 'x');
  Finished finished = run({"send", "big", "--lines"}, numbered(2600) + large + "y\nz\n");
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("line 2601: "), HasSubstr("body_bytes_max"),
                                  HasSubstr("2600 lines before it were sent")));
  EXPECT_EQ(count(json({"queue", "show", "big"}).at("stats").as_object(), "ready"), 2600U);

  finished = run({"send", "keys", "--lines", "--key-separator", "\t"}, "a\t1\nb\t2\nc3\nd\t4\n");
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("line 3 has no key"), HasSubstr("2 lines before it")));
  EXPECT_EQ(count(json({"queue", "show", "keys"}).at("stats").as_object(), "ready"), 2U);
}

TEST_F(Program, A_queue_that_fills_up_takes_what_fits) {
  ok({"queue", "set", "small", "max_length=1234"});
  const Finished finished = run({"send", "small", "--lines", "-o", "json"}, numbered(5000));
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(json_lines(finished.out).size(), 1234U);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("line 1235: "), HasSubstr("1234 lines before it")));
  EXPECT_EQ(count(json({"queue", "show", "small"}).at("stats").as_object(), "ready"), 1234U);
}

}  // namespace
}  // namespace strand::e2e
