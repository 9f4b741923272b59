#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <strand/error.h>

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

// The one of `known` that somebody who typed `word` may have meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

// "; did you mean 'receive'?", or nothing.
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace strand::cli
