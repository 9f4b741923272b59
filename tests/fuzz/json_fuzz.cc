// JSON from anywhere: it is read or refused with one plain line, and what was read is written so
// that it reads back as the same.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/json.h>

#include "base/text.h"
#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

enum class Kind : std::uint16_t {};

struct Everything {
  bool b = false;
  std::int8_t i8 = 0;
  std::uint64_t u64 = 0;
  float f = 0;
  double d = 0;
  std::string s = {};
  Kind k{};
  Duration ms{0};
  Time at{};
  friend bool operator==(const Everything&, const Everything&) = default;
};
STRAND_JSON(Everything, b, i8, u64, f, d, s, k, ms, at)

// All optional, so that an input need not have all of it to get somewhere.
struct Tree {
  std::optional<Everything> all = {};
  std::optional<std::vector<Tree>> list = {};
  std::optional<std::map<std::string, Tree>> map = {};
  std::optional<std::array<std::int64_t, 2>> pair = {};
  std::optional<double> number = {};
  std::optional<std::string> text = {};
  std::optional<Time> at = {};
  friend bool operator==(const Tree&, const Tree&) = default;
};
STRAND_JSON(Tree, all, list, map, pair, number, text, at)

template <class T>
void read_and_write(std::string_view text) {
  const Result<T> value = json::read<T>(text);
  if (!value) {
    FUZZ_REQUIRE(value.error().code == Errc::invalid_argument, "bad text is a bad argument");
    FUZZ_REQUIRE(base::is_plain_text(value.error().message), "a refusal is one plain line");
    return;
  }
  const Result<std::string> written = json::write(*value);
  // A time with an offset may lie in a year that cannot be written.
  if (!written) {
    FUZZ_REQUIRE(written.error().message.ends_with("the years 0000 to 9999"),
                 "what was read can be written");
    return;
  }
  const Result<T> again = json::read<T>(*written);
  FUZZ_REQUIRE(again.has_value(), "what was written can be read");
  FUZZ_REQUIRE(*again == *value, "and is the same");
  FUZZ_REQUIRE(json::write(*again) == *written, "and is written the same");
}

void run(std::string_view bytes) {
  read_and_write<Tree>(bytes);
  read_and_write<std::vector<double>>(bytes);
  read_and_write<std::map<std::string, std::string>>(bytes);
  const Result<std::string> written = json::write(std::string(bytes));
  FUZZ_REQUIRE(written.has_value() == base::is_utf8(bytes), "UTF-8 can be written, and only that");
  FUZZ_REQUIRE(!written || json::read<std::string>(*written) == std::string(bytes),
               "and comes back");
}

const Target target("json", run, 10'000);

}  // namespace

}  // namespace strand::fuzz
