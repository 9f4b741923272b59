#include <chrono>
#include <cstdlib>
#include <random>

#include "unit/check_fixture.h"

// Damage that nobody thought of: whatever happens to one or more entries, a store that is called
// clean opens and works, and one repair leaves nothing that could be repaired.

namespace strand {

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t runs = 1'000;

}  // namespace

class CheckRandomDamage : public CheckFixture {
 protected:
  // Changes an entry at random; returns what it did.
  std::string damage() {
    const Entries all = entries();
    const auto& [place, value] = *std::next(all.begin(), pick(all.size()));
    const auto& [family, key] = place;
    const std::string name(engine::family_name(family));
    switch (pick(4)) {
      case 0:
        erase(family, key);
        return "erase " + name;
      case 1: {
        if (value.empty()) return "nothing";
        std::string flipped = value;
        char& byte = flipped[static_cast<std::size_t>(pick(flipped.size()))];
        byte = static_cast<char>(byte ^ (1 << pick(8)));
        put(family, key, flipped);
        return "flip a bit of " + name;
      }
      case 2:
        put(family, key, value.substr(0, static_cast<std::size_t>(pick(value.size() + 1))));
        return "truncate " + name;
      default: {
        // Under the key of another entry, or a neighbouring key that nobody has.
        std::string other = key;
        other.back() = static_cast<char>(other.back() ^ (1 << pick(8)));
        put(family, other, value);
        return "copy " + name;
      }
    }
  }
  std::int64_t pick(std::size_t limit) { return static_cast<std::int64_t>(random_() % limit); }

  void expect_works() {
    store_.open();
    ASSERT_TRUE(store_.opened()) << store_.opened().error().message;
    ASSERT_TRUE(store_.apply(administer(ConfigureQueue{"orders", QueueSettings{}})));
    ASSERT_TRUE(store_.lease(from("orders")));
    must(send("orders", "one more", "k1"));
    store_.advance(24h);
    store_.open();
    ASSERT_TRUE(store_.opened()) << store_.opened().error().message;
    const auto report = inspect();
    EXPECT_TRUE(report.clean()) << "after use:\n" << to_text(report);
  }

  std::mt19937_64 random_;
};

TEST_F(CheckRandomDamage, Is_found_or_does_no_harm) {
  const char* given = std::getenv("STRAND_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  std::uint64_t clean = 0;
  std::uint64_t repaired = 0;
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : runs); ++seed) {
    random_.seed(seed);
    start_again();
    std::string did;
    for (std::int64_t left = 1 + pick(3); left > 0; --left)
      did += damage() + "; ";
    const auto tried = check::inspect(store_.backend());
    if (!tried && tried.error().code == Errc::unsupported) continue;  // it says: a newer format
    ASSERT_TRUE(tried) << tried.error().message;
    const check::Report& report = *tried;
    SCOPED_TRACE("repeat with STRAND_SEED=" + std::to_string(seed) +
                 " unit_tests --gtest_filter=CheckRandomDamage.*\n" + did + "\n" + to_text(report));
    write_repair();
    const auto after = inspect();
    ASSERT_EQ(after.total().repairable, 0U) << "after repair:\n" << to_text(after);
    if (report.clean()) ++clean;
    if (!after.clean()) continue;
    ++repaired;
    expect_works();
    if (HasFailure()) return;
  }
  if (given != nullptr) return;
  EXPECT_GT(clean, 0U) << "some damage is only to what people wrote";
  EXPECT_GT(repaired, runs / 2);
}

}  // namespace strand
