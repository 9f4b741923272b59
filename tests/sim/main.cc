// strand-sim: runs seeds of the simulator. See README.md.

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

#include "sim/run.h"

namespace {

using strand::sim::Action;
using strand::sim::Fault;
using strand::sim::Plan;
using strand::sim::Run;

constexpr std::uint64_t full_seeds = 100'000;
constexpr std::uint64_t slice_minutes_max = 30;

constexpr std::string_view help = R"(usage: ./dev sim [OPTIONS]

Runs a simulated store with failing disks, crashes and unreliable clients, and compares everything
that it shows with an independent model. A run is decided by its seed alone.

  --seeds N        run N seeds (default 1000)
  --first S        beginning with this one (default 1)
  --minutes M      stop after M minutes
  --jobs N         so many at the same time (default: one for each core)
  --keep-going     do not stop at a failure, print one line for each
  --full           the next slice, of at most 30 minutes, of seeds 1 to 100,000; call it again
                   until it says that all are done

  --seed S         run this seed alone
  --trace          … and print all that happens
  --steps N        … only so many calls
  --without A,B    … without these faults or actions
  --clients 0,2    … with these clients only
  --no-shrink      … do not look for a smaller run that fails

Exit code: 0 all seeds passed, 1 a seed failed, 2 wrong usage.
)";

struct Options {
  std::optional<std::uint64_t> seeds;
  std::uint64_t first = 1;
  std::optional<std::uint64_t> minutes;
  std::uint64_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool full = false;
  bool keep_going = false;
  std::optional<std::uint64_t> seed;
  bool trace = false;
  bool shrink = true;
  std::optional<std::uint64_t> steps;
  std::vector<std::string> without;
  std::optional<std::vector<std::string>> clients;
};

[[noreturn]] void usage(const std::string& problem) {
  std::cerr << "strand-sim: " << problem << " (see --help)\n";
  std::exit(2);
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    usage("'" + std::string(text) + "' is not a number");
  }
  return value;
}

std::vector<std::string> list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return out;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) usage(word + " needs a value");
      return arguments[++i];
    };
    if (word == "--help" || word == "-h") {
      std::cout << help;
      std::exit(0);
    } else if (word == "--seeds") {
      options.seeds = number(value());
    } else if (word == "--first") {
      options.first = number(value());
    } else if (word == "--minutes") {
      options.minutes = number(value());
    } else if (word == "--jobs") {
      options.jobs = std::max<std::uint64_t>(1, number(value()));
    } else if (word == "--full") {
      options.full = true;
    } else if (word == "--keep-going") {
      options.keep_going = true;
    } else if (word == "--seed") {
      options.seed = number(value());
    } else if (word == "--trace") {
      options.trace = true;
    } else if (word == "--no-shrink") {
      options.shrink = false;
    } else if (word == "--steps") {
      options.steps = number(value());
    } else if (word == "--without") {
      options.without = list(value());
    } else if (word == "--clients") {
      options.clients = list(value());
    } else {
      usage("unknown option '" + word + "'");
    }
  }
  return options;
}

void switch_off(Plan& plan, std::string_view kind) {
  for (std::size_t i = 0; i < strand::sim::fault_count; ++i) {
    if (name(static_cast<Fault>(i)) == kind) {
      plan.faults.at(i) = false;
      return;
    }
  }
  for (std::size_t i = 0; i < strand::sim::action_count; ++i) {
    if (name(static_cast<Action>(i)) == kind) {
      plan.actions.at(i) = false;
      return;
    }
  }
  usage("there is no fault and no action '" + std::string(kind) + "'");
}

int run_one(const Options& options) {
  Plan plan(*options.seed);
  if (options.steps) plan.steps_max = *options.steps;
  for (const std::string& kind : options.without)
    switch_off(plan, kind);
  if (options.clients) {
    plan.clients.assign(plan.clients.size(), false);
    for (const std::string& client : *options.clients) {
      if (client == "none") continue;
      const std::uint64_t index = number(client);
      if (index >= plan.clients.size()) usage("there is no client " + client);
      plan.clients[static_cast<std::size_t>(index)] = true;
    }
  }
  const Run result = run(plan, options.trace);
  for (const std::string& line : result.trace)
    std::cout << line << "\n";
  if (options.trace && result.failed) std::cout << "\nthe model has\n" << result.model << "\n";
  if (!result.failed) {
    std::cout << "seed " << plan.seed << " passes: " << result.calls << " calls, fingerprint "
              << result.fingerprint << "\n";
    return 0;
  }
  if (options.trace || !options.shrink) {
    std::cout << "seed " << plan.seed << " breaks " << result.failed->what << "\n";
  } else {
    std::cout << report(plan);
  }
  return 1;
}

// Runs seeds on several threads until all are done, time is up, or one has failed.
class Sweep {
 public:
  Sweep(std::uint64_t first, std::uint64_t last, std::optional<std::uint64_t> minutes,
        bool keep_going)
      : first_(first), last_(last), keep_going_(keep_going), next_(first) {
    if (minutes) deadline_ = Clock::now() + std::chrono::minutes{*minutes};
  }

  // The seed after the last one of an unbroken row that passed.
  std::uint64_t go(std::uint64_t jobs) {
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < jobs; ++i)
      threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads)
      thread.join();
    if (progress_) std::cerr << "\r\x1b[K";
    std::uint64_t row = first_;
    while (passed_.contains(row))
      ++row;
    return row;
  }

  [[nodiscard]] std::optional<std::uint64_t> failed() const {
    return failed_.empty() ? std::nullopt : std::optional(*failed_.begin());
  }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void work() {
    for (;;) {
      {
        const std::scoped_lock lock(mutex_);
        if ((!failed_.empty() && !keep_going_) || next_ > last_ ||
            (deadline_ && Clock::now() >= *deadline_))
          return;
      }
      const std::uint64_t seed = next_++;
      if (seed > last_) return;
      const Run result = run(Plan(seed), false);
      const std::scoped_lock lock(mutex_);
      calls_ += result.calls;
      (result.failed ? failed_ : passed_).insert(seed);
      if (result.failed && keep_going_) print_line(seed, result);
      if (progress_ && passed_.size() % 50 == 0) {
        std::cerr << "\r\x1b[K" << passed_.size() << " of " << last_ - first_ + 1 << " seeds passed"
                  << std::flush;
      }
    }
  }

  void print_line(std::uint64_t seed, const Run& result) const {
    if (progress_) std::cerr << "\r\x1b[K";
    std::string line = result.failed->what;
    std::ranges::replace(line, '\n', ' ');
    std::cout << "seed " << seed << ", " << result.calls << " calls: " << line << std::endl;
  }

  const std::uint64_t first_;
  const std::uint64_t last_;
  const bool keep_going_;
  std::atomic<std::uint64_t> next_;
  std::optional<Clock::time_point> deadline_;
  const Clock::time_point started_ = Clock::now();
  const bool progress_ = isatty(STDERR_FILENO) != 0 && std::getenv("CI") == nullptr;
  std::mutex mutex_;
  std::set<std::uint64_t> passed_;
  std::set<std::uint64_t> failed_;
  std::uint64_t calls_ = 0;
};

int finish(const Sweep& sweep, std::uint64_t first, std::uint64_t next, bool keep_going) {
  if (const std::optional<std::uint64_t> seed = sweep.failed()) {
    if (keep_going) return 1;
    std::cout << strand::sim::report(Plan(*seed));
    return 1;
  }
  std::cout << next - first << " seeds passed (" << first << " to " << next - 1 << "), "
            << sweep.calls() << " calls, " << static_cast<std::uint64_t>(sweep.seconds()) << " s\n";
  return 0;
}

std::filesystem::path progress_file() {
  return std::filesystem::path(STRAND_BINARY_DIR) / "sim-full-progress";
}

// 100,000 seeds take long; a slice remembers where the next one begins.
int run_full(const Options& options) {
  std::uint64_t first = 1;
  if (std::ifstream file(progress_file()); !(file >> first)) first = 1;
  if (first > full_seeds) {
    std::cout << "all " << full_seeds << " seeds have passed; remove " << progress_file().string()
              << " to begin again\n";
    return 0;
  }
  Sweep sweep(first, full_seeds,
              std::min(options.minutes.value_or(slice_minutes_max), slice_minutes_max), false);
  const std::uint64_t next = sweep.go(options.jobs);
  std::ofstream(progress_file()) << next << "\n";
  const int code = finish(sweep, first, next, false);
  if (code == 0) {
    std::cout << (next > full_seeds ? "all " + std::to_string(full_seeds) + " seeds have passed\n"
                                    : std::to_string(full_seeds + 1 - next) +
                                          " are left: call ./dev sim --full again\n");
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv + 1, argv + argc});
  if (options.seed) return run_one(options);
  if (options.full) return run_full(options);
  const std::uint64_t seeds =
      options.seeds.value_or(options.minutes ? std::uint64_t{1} << 40U : 1000);
  Sweep sweep(options.first, options.first + seeds - 1, options.minutes, options.keep_going);
  const std::uint64_t next = sweep.go(options.jobs);
  return finish(sweep, options.first, next, options.keep_going);
}
