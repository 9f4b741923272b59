#include "server/log.h"

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <boost/json.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

// What a log has written, by line. A pipe, as a service manager has it.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::pipe(ends_), 0);
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int end() const { return ends_[1]; }
  std::vector<std::string> lines() {
    std::string text;
    char buffer[65536];
    for (ssize_t count = 0; (count = ::read(ends_[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(count));
    std::vector<std::string> lines;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      lines.push_back(text.substr(begin, end - begin));
    EXPECT_EQ(begin, text.size()) << "the last line has an end";
    return lines;
  }

 private:
  int ends_[2] = {-1, -1};
};

class Logs : public testing::Test {
 protected:
  LogOptions options(LogFormat format = LogFormat::text, LogLevel level = LogLevel::info) {
    return {.format = format, .level = level, .fd = pipe_.end(), .clock = clock_};
  }
  Pipe pipe_;
  std::shared_ptr<ManualClock> clock_ =
      std::make_shared<ManualClock>(*parse_time("2026-01-01T00:00:00Z"));
};

TEST_F(Logs, A_line_of_text_is_for_people) {
  Log log(options());
  log.info("grpc.request", "a call was answered",
           {{"request_id", "7f3a"}, {"took", 250ms}, {"bytes", 17U}, {"left", -1}, {"ok", true}});
  EXPECT_THAT(pipe_.lines(),
              ElementsAre("2026-01-01T00:00:00.000Z info    grpc.request a call was answered "
                          "request_id=7f3a took=0.25 bytes=17 left=-1 ok=true"));
}

TEST_F(Logs, A_line_of_JSON_has_its_keys_in_order) {
  Log log(options(LogFormat::json));
  log.warning("http.refused", "too many connections", {{"peer", "10.0.0.7"}, {"count", 3}});
  EXPECT_THAT(pipe_.lines(), ElementsAre(R"({"time":"2026-01-01T00:00:00.000Z","level":"warning",)"
                                         R"("event":"http.refused","message":"too many )"
                                         R"(connections","peer":"10.0.0.7","count":3})"));
}

TEST_F(Logs, Nothing_in_a_value_can_look_like_another_line_or_field) {
  Log log(options());
  log.info("a", "b", {{"queue", "x\n2026 info forged"}, {"key", "a=b"}, {"z", "\"\\"}, {"e", ""}});
  log.info("a", "m\r\nforged id=7");
  EXPECT_THAT(pipe_.lines(),
              ElementsAre(EndsWith(R"(a b queue="x\\x0a2026 info forged" key="a=b" z="\"\\" e="")"),
                          EndsWith(R"(a "m\\x0d\\x0aforged id=7")")));
}

TEST_F(Logs, A_line_of_JSON_is_JSON_whatever_the_values_are) {
  Log log(options(LogFormat::json));
  log.info("a", "\xff\n\"",
           {{"x", "\x01\xc3"},
            {"nan", std::numeric_limits<double>::quiet_NaN()},
            {"big", std::numeric_limits<std::uint64_t>::max()}});
  const auto lines = pipe_.lines();
  ASSERT_THAT(lines, SizeIs(1));
  const auto object = boost::json::parse(lines[0]).as_object();
  EXPECT_EQ(object.at("message").as_string(), "\\xff\\x0a\"");
  EXPECT_EQ(object.at("x").as_string(), "\\x01\\xc3");
  EXPECT_TRUE(object.at("nan").is_null());
  EXPECT_EQ(object.at("big").as_uint64(), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(Logs, Less_than_the_level_is_not_written) {
  Log log(options(LogFormat::text, LogLevel::warning));
  EXPECT_FALSE(log.on(LogLevel::info));
  EXPECT_TRUE(log.on(LogLevel::error));
  log.debug("a", "x");
  log.info("a", "x");
  log.seldom(LogLevel::info, "a", "x");
  log.warning("a", "x");
  log.error("a", "x");
  EXPECT_THAT(pipe_.lines(), SizeIs(2));
}

TEST_F(Logs, Long_values_are_cut_and_a_line_fits_a_pipe) {
  const std::string umlauts = [] {
    std::string text;
    for (int i = 0; i < 5000; ++i)
      text += "ä";
    return text;
  }();
  for (const LogFormat format : {LogFormat::text, LogFormat::json}) {
    Log log(options(format));
    log.info("a", umlauts,
             {{"first", umlauts},
              {"b", std::string(9999, '\x01')},
              {"c", std::string(9999, '"')},
              {"d", std::string(9999, '\\')}});
    log.info("a", std::string(9999, '\\'));
    const auto lines = pipe_.lines();
    ASSERT_THAT(lines, SizeIs(2));
    for (const std::string& line : lines) {
      EXPECT_LT(line.size(), 4096U);
      if (format == LogFormat::json) EXPECT_NO_THROW(boost::json::parse(line));
    }
    EXPECT_THAT(lines[0], HasSubstr("ä…"));
    EXPECT_THAT(lines[0], HasSubstr("first"));
  }
}

TEST_F(Logs, What_repeats_is_left_out_and_counted) {
  {
    Log log(options());
    for (int i = 0; i < 100; ++i)
      log.seldom(LogLevel::warning, "refused", "no", {{"i", i}});
    log.seldom(LogLevel::warning, "other", "is counted by itself");
    EXPECT_THAT(pipe_.lines(), SizeIs(11));
    clock_->advance(10s);
    log.seldom(LogLevel::warning, "refused", "no", {{"i", 100}});
    EXPECT_THAT(pipe_.lines(), ElementsAre(EndsWith("refused no left_out=90 i=100")));
    for (int i = 0; i < 12; ++i)
      log.seldom(LogLevel::warning, "refused", "no");
    EXPECT_THAT(pipe_.lines(), SizeIs(9));
  }
  EXPECT_THAT(pipe_.lines(), ElementsAre(HasSubstr("left_out=3")));
}

TEST_F(Logs, A_pipe_that_nobody_reads_does_not_stop_the_server) {
  Log log(options());
  const auto began = std::chrono::steady_clock::now();
  const std::string filler(900, 'x');
  for (int i = 0; i < 1000; ++i)
    log.info("a", filler);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
  const std::size_t written = pipe_.lines().size();
  EXPECT_GT(written, 10U);
  EXPECT_LT(written, 1000U);
  log.info("a", "there is room again");
  EXPECT_THAT(pipe_.lines(), ElementsAre(HasSubstr("log.lost nobody took these lines lines=" +
                                                   std::to_string(1000 - written)),
                                         HasSubstr("there is room again")));
}

TEST_F(Logs, Lines_of_many_threads_stay_whole) {
  Log log(options(LogFormat::json));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log, i] {
      for (int n = 0; n < 50; ++n)
        log.info("thread", std::string(100, static_cast<char>('a' + i)), {{"n", n}});
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const auto lines = pipe_.lines();
  EXPECT_THAT(lines, SizeIs(200));
  for (const std::string& line : lines)
    EXPECT_NO_THROW(boost::json::parse(line));
}

TEST_F(Logs, Requests_have_ids_of_their_own) {
  const std::string id = new_request_id();
  EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{16}-[0-9a-f]+"));
  EXPECT_NE(id, new_request_id());
}

}  // namespace
}  // namespace strand::server
