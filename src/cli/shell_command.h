#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::cli {

// How a command ended.
struct CommandEnd {
  int exit = 0;          // 128 + the signal, if it died of one
  std::string err = {};  // the end of what it said on stderr
  bool stopped = false;  // because it was told to
};

// Runs `/bin/sh -c COMMAND` in a process group of its own with the input on its stdin, and waits
// for its end. Its stdout is ours (or our stderr, if `quiet`); its stderr is shown and kept.
//
// When `stop` is requested the group gets SIGTERM, and SIGKILL if it is still there 5 s later.
//
// Threads: may be called concurrently.
// Failure: an error means that it could not be started.
Result<CommandEnd> run_shell(const std::string& command,
                             const std::map<std::string, std::string>& environment,
                             std::string_view input, bool quiet, const std::stop_token& stop);

}  // namespace strand::cli
