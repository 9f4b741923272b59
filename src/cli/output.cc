#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/errors.h"

namespace strand::cli {

namespace {

constexpr std::size_t pending_bytes_max = std::size_t{64} << 10U;

// As many columns as there are characters: all but the continuation bytes of UTF-8.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

}  // namespace

void Output::text(std::string_view text) {
  if (broken_) return;
  pending_ += text;
  if (pending_.size() >= pending_bytes_max) static_cast<void>(flush());
}

void Output::object(const boost::json::object& object) {
  text(boost::json::serialize(object) + "\n");
}

bool Output::flush() {
  std::string_view rest = pending_;
  while (!broken_ && !rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      broken_ = true;
      if (errno != EPIPE) complain(fmt::format("cannot write the output: {}", strerror(errno)));
    }
  }
  pending_.clear();
  return !broken_;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string result;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width(row[i]) + 2, ' ');
    }
    result += line + "\n";
  }
  return result;
}

}  // namespace strand::cli
