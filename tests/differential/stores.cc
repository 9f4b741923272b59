#include "differential/stores.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <unistd.h>

namespace strand::differential {
namespace {

// What is known of a kind of store. One that is not here is held to all there is, with few seeds.
// A store with its own implementation of the rules belongs here with many: it is what this is for.
struct Kind {
  Traits traits;
  std::uint64_t seeds = 100;
  std::uint64_t seeds_full = 1000;  // with STRAND_TEST_FULL
};
Kind kind_of(const std::string& name) {
  static const std::map<std::string, Kind> kinds = {
      {"sqlite", {.traits = {.reopens = true}, .seeds = 100}},
      {"rocksdb", {.traits = {.reopens = true}, .seeds = 20}},  // takes long to open
      {"postgres", {.traits = {.same_ids = false}, .seeds = 60}},
      {"served", {.traits = {.reopens = true}, .seeds = 20}},
      {"badly_served", {.traits = {.reopens = true}, .seeds = 5}},
  };
  const auto found = kinds.find(name);
  return found == kinds.end() ? Kind{} : found->second;
}

// Different for each store of this and of every other running test process.
std::string fresh_name() {
  static std::atomic<std::uint64_t> count{0};
  return "differential-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// One store for the length of a run.
class Premises {
 public:
  explicit Premises(conformance::StoreUnderTest store)
      : store_(std::move(store)), url_(store_.url(fresh_name())) {}
  Premises(const Premises&) = delete;
  Premises& operator=(const Premises&) = delete;
  ~Premises() {
    if (store_.remove) store_.remove(url_);
  }
  [[nodiscard]] std::unique_ptr<Store> open(const OpenOptions& options) const {
    auto store = store_.open(url_, options);
    if (!store) throw std::runtime_error("opening " + url_ + ": " + store.error().message);
    return std::move(*store);
  }

 private:
  conformance::StoreUnderTest store_;
  std::string url_;
};

}  // namespace

void PrintTo(const OtherStore& other, std::ostream* out) { *out << other.store.name; }

std::vector<OtherStore> other_stores() {
  const char* const wanted = std::getenv("STRAND_DIFF_STORE");  // NOLINT(concurrency-mt-unsafe)
  std::vector<OtherStore> all;
  for (const conformance::StoreUnderTest& store : conformance::stores_under_test()) {
    if (store.name == "memory") continue;
    const Kind kind = kind_of(store.name);
    const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
    all.push_back(
        {.store = store, .traits = kind.traits, .seeds = full ? kind.seeds_full : kind.seeds});
  }
  if (wanted == nullptr || *wanted == '\0') return all;

  std::vector<OtherStore> chosen;
  std::istringstream names{wanted};
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::ranges::find_if(
        all, [&](const OtherStore& other) { return other.store.name == name; });
    // A misspelt store must not look like an equal one: no such URL, so every test fails.
    chosen.push_back(
        found != all.end()
            ? *found
            : OtherStore{
                  .store = {.name = "unknown",
                            .url = [name](const std::string&) { return "no-such-store:" + name; }},
                  .traits = {},
                  .seeds = 1});
  }
  return chosen;
}

std::unique_ptr<Store> opened(const std::string& url, const OpenOptions& options) {
  auto store = open(url, options);
  if (!store) throw std::runtime_error("opening " + url + ": " + store.error().message);
  return std::move(*store);
}

Stage stage_of(const OtherStore& other) {
  return [other]() -> Openers {
    // A reference without a name is gone when it is closed; with one it could not be got rid of.
    const std::string reference = other.traits.reopens ? "memory:" + fresh_name() : "memory:";
    const auto premises = std::make_shared<Premises>(other.store);
    return {
        .reference = [reference](const OpenOptions& options) { return opened(reference, options); },
        .other = [premises](const OpenOptions& options) { return premises->open(options); }};
  };
}

}  // namespace strand::differential
