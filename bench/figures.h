#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/strand.h>

// What all benchmarks need: answers that must not be errors, time, and figures for people and
// programs.

namespace strand::bench {

using Steady = std::chrono::steady_clock;

[[noreturn]] inline void give_up(std::string_view what, const Error& error) {
  fmt::print(stderr, "bench: {}: {}\n", what, error.message);
  std::exit(1);
}

template <class T>
T value(std::string_view what, Result<T> result) {
  if (!result) give_up(what, result.error());
  return std::move(*result);
}

inline double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

inline double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

// The arguments that all benchmarks have, and `--NAME VALUE` for those names that one of them adds.
struct Arguments {
  bool json = false;
  std::string only = {};                           // a part of it; empty: all
  std::map<std::string, std::string> others = {};  // by name

  [[nodiscard]] bool wants(std::string_view part) const { return only.empty() || only == part; }
  [[nodiscard]] std::string get(const std::string& name, const std::string& otherwise = {}) const {
    const auto found = others.find(name);
    return found == others.end() ? otherwise : found->second;
  }

  static Arguments parse(int argc, char** argv, std::initializer_list<std::string_view> names,
                         std::string_view usage) {
    Arguments result;
    const std::vector<std::string> words(argv + 1, argv + argc);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool has_value = i + 1 < words.size();
      if (words[i] == "-o" && has_value && words[i + 1] == "json") {
        result.json = true;
        ++i;
      } else if (words[i] == "--only" && has_value) {
        result.only = words[++i];
      } else if (has_value && std::ranges::find(names, words[i]) != names.end()) {
        result.others[words[i]] = words[i + 1];
        ++i;
      } else {
        fmt::print(stderr, "usage: {}\n", usage);
        std::exit(words[i] == "--help" ? 0 : 2);
      }
    }
    return result;
  }
};

// A line of text for each figure as soon as it is there, or one JSON object at the end.
class Figures {
 public:
  explicit Figures(bool json) : json_(json) {}

  void report(std::string_view key, double figure, std::string_view text) {
    figures_.emplace_back(key, figure);
    if (json_) return;
    fmt::print("{:<66}{:>14.2f}\n", text, figure);
    std::fflush(stdout);
  }

  void finish() const {
    if (!json_) return;
    std::string line;
    for (const auto& [key, figure] : figures_) {
      line += fmt::format("{}\"{}\":{:.3f}", line.empty() ? "" : ",", key, figure);
    }
    fmt::print("{{{}}}\n", line);
  }

 private:
  bool json_;
  std::vector<std::pair<std::string, double>> figures_;
};

}  // namespace strand::bench
