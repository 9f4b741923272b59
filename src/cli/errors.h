#pragma once

#include <string_view>

#include <strand/error.h>

#include "base/nearest.h"

namespace strand::cli {

// How the program ends. Scripts depend on these numbers.
enum class Exit : int {
  done = 0,
  failed = 1,       // the operation failed; one line on stderr says why
  wrong_usage = 2,  // so does this
  nothing = 3,      // there was nothing to receive
};

// The shell's number for a program that a signal has ended: 130 for Ctrl-C.
Exit ended_by(int signal);

// Prints one line on stderr that starts with "strand: ".
void complain(std::string_view message);

// Complains, and says how the program ends: `return fail(result.error())`.
Exit fail(std::string_view message);
Exit fail(const Error& error);
Exit wrong_usage(std::string_view message);

using base::suggestion;

}  // namespace strand::cli
