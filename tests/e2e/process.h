#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace strand::e2e {

// How a program ended, and what it said.
struct Finished {
  int exit = -1;  // 128 + the signal, if it died of one
  std::string out = {};
  std::string err = {};
};

// What the program is given in place of a plain pipe.
enum class Stdin { pipe, terminal };
enum class Stdout { pipe, closed_pipe, full_disk };

struct ProcessOptions {
  std::map<std::string, std::string> environment = {};  // besides ours
  Stdin in = Stdin::pipe;
  Stdout out = Stdout::pipe;
};

// A real process, at the other end of pipes. One that hangs is killed, and fails the test.
class Process {
 public:
  Process(const std::vector<std::string>& command, const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t id() const { return id_; }

  void write(std::string_view text);
  // One line of its standard output, waited for.
  std::string read_line();
  // What it has said on stderr so far, waited for until that has such a line; "" if it never comes.
  // A regular expression, in the grammar of ECMAScript.
  std::string read_errors_until(const std::string& pattern);
  void signal(int number) const;
  // Waits until it would survive a signal: it has a handler of its own.
  void wait_until_it_catches(int number) const;

  // Waits for its end, while its input stays open.
  Finished wait();
  // Gives it the rest of its input, which ends there, and waits for its end.
  Finished finish(std::string_view input = {});

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  // Moves bytes between us and the process, until one of the three can move; false: too late.
  bool move(std::string_view& input, Deadline deadline);
  void read_from(int& descriptor, std::string& text);
  void close_input();

  pid_t id_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  Finished finished_;
};

}  // namespace strand::e2e
