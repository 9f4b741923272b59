#include "server/process_metrics.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace strand::server {

namespace {

// The fields of /proc/self/stat that are shown, by their places in it.
struct Stat {
  std::uint64_t threads = 0;
  std::uint64_t started_ticks = 0;  // after boot
  std::uint64_t virtual_bytes = 0;
  std::uint64_t resident_pages = 0;
};

bool read_stat(Stat& stat) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  // The second field is a name in parentheses, which may have blanks and parentheses in it.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int place = 3; rest >> field && place <= 24; ++place) {
    if (place == 20) stat.threads = std::strtoull(field.c_str(), nullptr, 10);
    if (place == 22) stat.started_ticks = std::strtoull(field.c_str(), nullptr, 10);
    if (place == 23) stat.virtual_bytes = std::strtoull(field.c_str(), nullptr, 10);
    if (place == 24) stat.resident_pages = std::strtoull(field.c_str(), nullptr, 10);
  }
  return stat.threads > 0;
}

// In seconds since 1970; 0: unknown.
double boot_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("btime ")) return std::strtod(line.c_str() + 6, nullptr);
  }
  return 0;
}

double open_descriptors() {
  std::error_code failed;
  std::filesystem::directory_iterator entry("/proc/self/fd", failed);
  double count = 0;
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed))
    ++count;
  return count;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

std::vector<Metric> process_metrics(std::string_view version) {
  std::vector<Metric> metrics;
  const auto add = [&](Metric::Kind kind, const char* name, const char* help, double value) {
    metrics.push_back({.name = name,
                       .help = help,
                       .kind = kind,
                       .labels = {},
                       .value = value,
                       .distribution = {}});
  };
  constexpr auto gauge = Metric::Kind::gauge;
  if (Stat stat; read_stat(stat)) {
    add(gauge, "process_resident_memory_bytes", "Memory that the process has in use",
        static_cast<double>(stat.resident_pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    add(gauge, "process_virtual_memory_bytes", "Memory that the process has mapped",
        static_cast<double>(stat.virtual_bytes));
    add(gauge, "process_threads", "Threads of the process", static_cast<double>(stat.threads));
    add(gauge, "process_start_time_seconds", "When the process was started, since 1970",
        boot_time() +
            static_cast<double>(stat.started_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    add(Metric::Kind::counter, "process_cpu_seconds_total", "Time of processors, user and system",
        seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  add(gauge, "process_open_fds", "Open descriptors", open_descriptors());
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    add(gauge, "process_max_fds", "The most descriptors that may be open",
        static_cast<double>(limit.rlim_cur));
  }
  add(gauge, "strand_build_info", "1; which version this is", 1);
  metrics.back().labels = {{"version", std::string(version)}};
  return metrics;
}

}  // namespace strand::server
