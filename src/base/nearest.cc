#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace strand::base {

namespace {

// Edits that turn one word into the other: letters put in, left out, replaced, or two neighbours
// swapped.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// The one of `known` that somebody who typed `word` may have meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  // Shorter words are nearly the same as everything.
  const std::size_t far = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::size_t best = std::min(far, word.size());
  std::optional<std::string> found;
  for (const std::string& candidate : known) {
    const std::size_t edits = distance(word, candidate);
    if (edits >= best) continue;
    best = edits;
    found = candidate;
  }
  return found;
}

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const auto found = nearest(word, known);
  return found ? fmt::format("; did you mean '{}'?", *found) : "";
}

}  // namespace strand::base
