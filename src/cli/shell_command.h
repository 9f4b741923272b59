#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include <strand/error.h>
#include <strand/time.h>

namespace strand::cli {

// Where what a command prints on stdout goes.
enum class CommandOutput {
  ours,      // our stdout
  our_err,   // our stderr
  returned,  // into CommandEnd
};

struct ShellCommand {
  std::string command = {};
  std::map<std::string, std::string> environment = {};  // besides ours
  std::string input = {};                               // on its stdin
  CommandOutput output = CommandOutput::ours;
  std::optional<Duration> time = {};  // longer: told to stop
};

// How a command ended.
struct CommandEnd {
  int exit = 0;           // 128 + the signal, if it died of one
  std::string out = {};   // what it printed, if that is returned
  bool out_cut = false;   // it was more than any message can hold: only its beginning is there
  std::string err = {};   // the end of what it said on stderr
  bool stopped = false;   // because it was told to
  bool too_long = false;  // because its time was over
};

// Runs `/bin/sh -c COMMAND` in a process group of its own with the input on its stdin, and waits
// for its end. Its stderr is shown and kept.
//
// When `stop` is requested, or its time is over, the group gets SIGTERM, and SIGKILL if it is still
// there 5 s later.
//
// Threads: may be called concurrently.
// Failure: an error means that it could not be started.
Result<CommandEnd> run_shell(const ShellCommand& command, const std::stop_token& stop);

}  // namespace strand::cli
