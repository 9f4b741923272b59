#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "e2e/process.h"

namespace strand::e2e {

using Words = std::vector<std::string>;

// Each line of an output as JSON; one that is none fails the test.
inline std::vector<boost::json::object> json_lines(std::string_view out) {
  std::vector<boost::json::object> objects;
  while (!out.empty()) {
    const std::size_t end = out.find('\n');
    const std::string_view line = out.substr(0, end);
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    if (error || !value.is_object()) {
      ADD_FAILURE() << "not an object of JSON: " << line;
    } else {
      objects.push_back(value.as_object());
    }
    out.remove_prefix(end == std::string_view::npos ? out.size() : end + 1);
  }
  return objects;
}

// The program `strand` on a store of its own, in a new folder that goes with the test. Each call
// is a process of its own: what one leaves, the next one finds on disk.
class Program : public testing::Test {
 public:
  ~Program() override { std::filesystem::remove_all(folder_); }

 protected:
  Program() {
    std::string name = std::filesystem::temp_directory_path() / "strand-e2e-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make " << name;
    folder_ = name;
  }

  [[nodiscard]] std::string folder() const { return folder_; }
  [[nodiscard]] virtual std::string url() const { return "rocksdb:" + folder_ + "/store"; }

  static Words command(Words words) {
    words.insert(words.begin(), STRAND_BINARY_DIR "/strand");
    return words;
  }
  [[nodiscard]] ProcessOptions on_store(ProcessOptions options = {}) const {
    options.environment["STRAND_STORE"] = url();
    return options;
  }

  // Whatever comes of it.
  Finished run(const Words& words, std::string_view input = {}) const {
    return Process(command(words), on_store()).finish(input);
  }
  // Must succeed, and say nothing on stderr; returns its output.
  std::string ok(const Words& words, std::string_view input = {}) const {
    const Finished finished = run(words, input);
    EXPECT_EQ(finished.exit, 0) << testing::PrintToString(words) << finished.err;
    EXPECT_EQ(finished.err, "") << testing::PrintToString(words);
    return finished.out;
  }
  // The same in JSON, which must be one line.
  boost::json::object json(Words words, std::string_view input = {}) const {
    words.insert(words.end(), {"-o", "json"});
    auto objects = json_lines(ok(words, input));
    EXPECT_EQ(objects.size(), 1U) << testing::PrintToString(words);
    return objects.empty() ? boost::json::object{} : std::move(objects.front());
  }
  // Must fail so, with nothing on stdout and one line on stderr, which is returned.
  std::string refused(int exit, const Words& words, std::string_view input = {}) const {
    const Finished finished = run(words, input);
    EXPECT_EQ(finished.exit, exit) << testing::PrintToString(words) << finished.err;
    EXPECT_EQ(finished.out, "") << testing::PrintToString(words);
    EXPECT_THAT(finished.err, testing::MatchesRegex("strand: [^\n]+\n"));
    return finished.err;
  }

 private:
  std::string folder_;
};

// The words of a member of a JSON object: `text(object, "key")`.
inline std::string text(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  if (value == nullptr) return "(absent)";
  return value->is_string() ? std::string(value->get_string()) : boost::json::serialize(*value);
}

inline std::uint64_t count(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  EXPECT_TRUE(value != nullptr && value->is_number()) << name << " in " << serialize(object);
  return value != nullptr && value->is_number() ? value->to_number<std::uint64_t>() : 0;
}

// The bodies of a lease as `receive` prints it.
inline std::vector<std::string> bodies(const boost::json::object& lease) {
  std::vector<std::string> result;
  for (const boost::json::value& message : lease.at("messages").as_array())
    result.push_back(text(message.as_object(), "body"));
  return result;
}

inline std::vector<std::string> names_of(const boost::json::object& object) {
  std::vector<std::string> names;
  for (const auto& member : object)
    names.emplace_back(member.key());
  return names;
}

}  // namespace strand::e2e
