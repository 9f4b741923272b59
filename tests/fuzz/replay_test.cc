// Each target over its corpus, and over random mutations of it: what ./dev test can afford.
// libFuzzer looks further, and what it finds comes into the corpora: see ./dev fuzz.

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t mutated_bytes_max = 4'096;

// --- What is left of an input that ends the process ---

std::string_view current;    // what the target has been given
std::string kept_path;       // where it is to be kept
std::string kept_complaint;  // what is to be said then

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

// Only what a signal handler may call.
void keep_current(int signal) {
  const int file = ::open(kept_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0) {
    write_all(file, current);
    ::close(file);
    write_all(STDERR_FILENO, kept_complaint);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// While it lives, an input that ends the process is kept in a file, and the way to repeat it said.
class Keeping {
 public:
  explicit Keeping(std::string_view target) {
    const fs::path folder = fs::path(STRAND_BINARY_DIR) / "fuzz-failed";
    fs::create_directories(folder);
    kept_path = folder / target;
    kept_complaint = "the input is kept; repeat with\n  STRAND_FUZZ_INPUT=" + kept_path + " " +
                     STRAND_BINARY_DIR + "/fuzz_tests --gtest_filter='*/" + std::string(target) +
                     "'\n";
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
      before_.emplace_back(signal, std::signal(signal, keep_current));
  }
  Keeping(const Keeping&) = delete;
  Keeping& operator=(const Keeping&) = delete;
  ~Keeping() {
    for (const auto& [signal, handler] : before_)
      std::signal(signal, handler);
  }

 private:
  std::vector<std::pair<int, void (*)(int)>> before_;
};

// --- Inputs ---

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> corpus_of(std::string_view target) {
  const fs::path folder = fs::path(STRAND_SOURCE_DIR) / "tests/fuzz/corpus" / target;
  std::vector<fs::path> paths;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::string> inputs;
  for (const fs::path& path : paths)
    inputs.push_back(read(path));
  return inputs;
}

// Changes inputs as a fuzzer does, without knowing what comes of it. The same seed makes the same
// inputs everywhere, because the standard says what this generator yields.
class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed)
      : corpus_(std::move(corpus)), random_(seed) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(4); left > 0; --left)
      mutate(input);
    if (input.size() > mutated_bytes_max) input.resize(mutated_bytes_max);
    return input;
  }

 private:
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }

  // Some bytes of `text` from anywhere.
  std::string_view part(std::string_view text) {
    text.remove_prefix(below(text.size() + 1));
    return text.substr(0, below(text.size() + 1));
  }
  char byte() {
    static constexpr std::string_view telling("\x00\x01\x7f\x80\xff .:#*=0-9\n", 15);
    return below(2) == 0 ? telling[below(telling.size())] : static_cast<char>(below(256));
  }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    switch (below(6)) {
      case 0:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), byte());
        return;
      case 1:
        input.erase(at, below(8));
        return;
      case 2:
        if (at < input.size()) input[at] = byte();
        return;
      case 3:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        return;
      case 4:
        input.insert(at, std::string(part(input)));
        return;
      default:
        input.replace(at, std::string::npos, part(corpus_[below(corpus_.size())]));
    }
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

void run_one(const Target& target, std::string_view input) {
  // A copy of its own size, so that reading past its end is seen by a sanitizer.
  const std::vector<char> copy(input.begin(), input.end());
  current = copy.empty() ? std::string_view("") : std::string_view(copy.data(), copy.size());
  target.run(current);
  current = {};
}

class FuzzTargets : public ::testing::TestWithParam<Target> {};

std::string name_of(const ::testing::TestParamInfo<Target>& info) {
  return std::string(info.param.name);
}

TEST_P(FuzzTargets, Hold_for_the_corpus_and_mutations_of_it) {
  const Target& target = GetParam();
  const Keeping keeping(target.name);
  if (const char* const given = std::getenv("STRAND_FUZZ_INPUT")) {
    run_one(target, read(given));
    return;
  }
  const std::vector<std::string> corpus = corpus_of(target.name);
  ASSERT_FALSE(corpus.empty()) << "tests/fuzz/corpus/" << target.name << " has no files";
  run_one(target, "");
  for (const std::string& input : corpus)
    run_one(target, input);
  Mutator mutator(corpus, 1);
  for (std::size_t i = 0; i < target.mutations; ++i)
    run_one(target, mutator.next());
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, ::testing::ValuesIn(targets()), name_of);

}  // namespace

}  // namespace strand::fuzz
