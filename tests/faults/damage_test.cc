// Files that change at rest: a bit flips, an end is missing. It is found, or it does no harm.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <strand/strand.h>

#include "faults/fault_script.h"
#include "faults/journal.h"
#include "faults/slices.h"
#include "faults/store_on_disk.h"
#include "faults/work.h"
#include "store/check/check.h"
#include "store/open.h"
#include "unit/fresh_folder.h"

namespace strand::faults {
namespace {

namespace fs = std::filesystem;

class Patient {
 public:
  Patient(OnDisk kind, std::uint64_t seed) : kind_(kind), random_(seed) {}

  std::vector<std::string> run() {
    make_store(kind_, folder_.path(), clock_);
    {
      auto backend = store::open_backend(url_of(kind_, folder_.path()), {});
      if (!backend) return {backend.error().message};
      if (auto begun = journal_.begin(**backend); !begun) return {begun.error().message};
    }
    fill();
    const std::string damage = harm();
    look();
    for (std::string& wrong : trouble_)
      wrong.insert(0, damage + ": ");
    return std::move(trouble_);
  }

 private:
  void fill() {
    FaultScript script({.at = UINT64_MAX, .stays = true});
    const ScriptedSystem system(kind_, script);
    const bool heavy = random_() % 6 == 0;
    Work work(random_(), heavy, clock_, ledger_);
    const std::uint64_t sessions = 1 + random_() % 3;
    killed_ = random_() % 2 == 0;
    for (std::uint64_t session = 0; session < sessions; ++session) {
      work.forget_leases();
      auto store = open_journalled(system, folder_.path(), clock_, journal_, trouble_);
      if (!store) return trouble_.push_back(store.error().message);
      const std::uint64_t calls = 5 + random_() % (heavy ? 150 : 60);
      for (std::uint64_t i = 0; i < calls; ++i) {
        if (auto done = work.step(**store); !done) trouble_.push_back(done.error().message);
      }
      // Who cannot change a file any more leaves them as one who is killed.
      if (killed_ && session + 1 == sessions) script.fail_now();
    }
  }

  // Harms one file; says which and how.
  std::string harm() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      const bool matters = !name.starts_with("LO") && !name.ends_with("owner");
      if (entry.is_regular_file() && matters && entry.file_size() > 0) {
        files.push_back(entry.path());
      }
    }
    std::ranges::sort(files);
    const fs::path file = files[random_() % files.size()];
    const std::uint64_t size = fs::file_size(file);
    const std::uint64_t at = random_() % size;
    const std::string name = fmt::format("{} ({} bytes, {})", file.filename().native(), size,
                                         killed_ ? "killed" : "closed");
    if (random_() % 3 == 0) {
      fs::resize_file(file, at);
      return fmt::format("{} cut at {}", name, at);
    }
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(static_cast<std::streamoff>(at));
    const int old = bytes.get();
    const auto bit = static_cast<unsigned>(random_() % 8);
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(static_cast<unsigned>(old) ^ (1U << bit)));
    return fmt::format("{} flipped in bit {} of byte {}", name, bit, at);
  }

  // Reads everything: an error or a finding will do, wrong content will not.
  void look() {
    OpenOptions options;
    options.clock = clock_;
    options.cache_bytes = std::size_t{1} << 20U;
    auto backend = store::open_backend(url_of(kind_, folder_.path()), options);
    if (!backend) return found(backend.error());
    const auto entries = read_all(**backend);
    if (!entries) return found(entries.error());
    const auto report = check::inspect(**backend);
    if (!report) return found(report.error());
    if (!report->clean()) return;
    // A store that was killed had power: all that it wrote was there, if not all of it synced.
    auto wrong = killed_ ? journal_.compare(**backend) : journal_.reopened(**backend);
    if (!wrong.empty()) return trouble_.push_back(std::move(wrong));
    auto store = store::open_on(*std::move(backend), options);
    if (!store) return found(store.error());
    for (std::string& each : ledger_.compare(**store, killed_))
      trouble_.push_back(std::move(each));
  }

  // Whatever the code, somebody is told.
  void found(const Error& error) {
    const bool named = error.code == Errc::corrupt || error.code == Errc::io_error ||
                       error.code == Errc::unsupported || error.code == Errc::invalid_argument;
    if (!named) trouble_.push_back(fmt::format("{}: {}", to_string(error.code), error.message));
  }

  const OnDisk kind_;
  std::mt19937_64 random_;
  const FreshFolder folder_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  bool killed_ = false;
  Journal journal_;
  Ledger ledger_;
  std::vector<std::string> trouble_;
};

class Damage : public ::testing::TestWithParam<Slice> {};

TEST_P(Damage, Is_found_or_does_no_harm) {
  for_each_seed(GetParam(), [](OnDisk kind, std::uint64_t seed) {
    for (const std::string& wrong : Patient(kind, seed).run())
      ADD_FAILURE() << wrong;
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, Damage, ::testing::ValuesIn(slices(25, 2'500)), slice_name);

}  // namespace
}  // namespace strand::faults
