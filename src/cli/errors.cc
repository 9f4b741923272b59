#include "cli/errors.h"

#include <cstdio>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::cli {

Exit ended_by(int signal) { return Exit{128 + signal}; }

void complain(std::string_view message) {
  fmt::print(stderr, "strand: {}\n", base::escaped(message));
}

Exit fail(std::string_view message) {
  complain(message);
  return Exit::failed;
}

Exit fail(const Error& error) { return fail(error.message); }

Exit wrong_usage(std::string_view message) {
  complain(message);
  return Exit::wrong_usage;
}

}  // namespace strand::cli
