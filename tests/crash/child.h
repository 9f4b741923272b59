#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace strand::crash {

// A process, the lines that it writes, and what it is told. Killed when it is still there at the
// end.
class Child {
 public:
  using Words = std::vector<std::string>;
  explicit Child(Words command);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // The next line; nothing when the process is gone, or `until` has passed.
  std::optional<std::string> line(std::chrono::steady_clock::time_point until);
  // It has closed its end of the pipe, and all that it wrote was read.
  [[nodiscard]] bool over() const { return over_; }

  void say(std::string_view text) const;
  void signal(int number) const;
  // Waits for its end; the status that waitpid gives.
  int wait();

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string text_;
  std::size_t read_ = 0;
  bool over_ = false;
};

}  // namespace strand::crash
