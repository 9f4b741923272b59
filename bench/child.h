#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace strand::bench {

// Ends the benchmark with a message.
[[noreturn]] void give_up(const std::string& what);

// A process of a benchmark: started with its output in a file, and ended with this object.
class Child {
 public:
  // `environment` is added to this process's.
  Child(const std::vector<std::string>& command, std::string output,
        const std::map<std::string, std::string>& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // What it has written so far.
  [[nodiscard]] std::string output() const;
  // Until `ready` says so; ends the benchmark, with what the process wrote, if it ends or takes too
  // long.
  void wait_until(const std::function<bool()>& ready, const std::string& what) const;

 private:
  pid_t pid_;
  std::string output_;
};

// A fresh folder in the current one, because the temporary one of a machine may lie in memory. It
// goes with this object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A port of the loopback that was free a moment ago.
int free_port();

// Of a process, in MB.
double rss_mb(pid_t pid);

}  // namespace strand::bench
