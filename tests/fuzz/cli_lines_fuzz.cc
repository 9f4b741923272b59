// `send --lines`: whatever comes on the standard input, the queue has afterwards the lines in their
// order, up to the first that is refused; and a refusal is one line of complaint.
//
// The first byte of the input says whether lines have keys, and what ends a key; the rest is the
// standard input.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <strand/store.h>

#include "cli/lines.h"
#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

constexpr std::size_t lines_max = 500;

// A file without a name that stands in for one of the standard descriptors.
class StandIn {
 public:
  StandIn(int standard, std::string_view contents) : standard_(standard), kept_(::dup(standard)) {
    const int file = ::memfd_create("stand-in", MFD_CLOEXEC);
    FUZZ_REQUIRE(file >= 0 && kept_ >= 0, "there are descriptors left");
    FUZZ_REQUIRE(::pwrite(file, contents.data(), contents.size(), 0) ==
                     static_cast<ssize_t>(contents.size()),
                 "there is memory left");
    FUZZ_REQUIRE(::dup2(file, standard) == standard, "a descriptor can be replaced");
    ::close(file);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn() {
    ::dup2(kept_, standard_);
    ::close(kept_);
  }

 private:
  int standard_;
  int kept_;
};

// Takes what is printed to `stderr`. The descriptor stays, so that sanitizers are heard.
class Complaints {
 public:
  Complaints() : kept_(std::exchange(stderr, ::open_memstream(&text_, &size_))) {}
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;
  ~Complaints() {
    if (stderr != kept_) static_cast<void>(take());
    std::free(text_);
  }
  std::string take() {
    std::fclose(std::exchange(stderr, kept_));
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* kept_;
};

using Line = std::pair<std::optional<std::string>, std::string>;  // key, body

// What must have been sent, and whether all of it was fit to be.
std::pair<std::vector<Line>, bool> expected_lines(std::string_view input,
                                                  const std::optional<std::string>& separator) {
  std::vector<Line> lines;
  while (!input.empty()) {
    const std::size_t end = input.find('\n');
    std::string_view line = input.substr(0, end);
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
    std::optional<std::string> key;
    if (separator) {
      const std::size_t at = line.find(*separator);
      if (at == std::string_view::npos || at == 0 || at > Limits{}.key_bytes_max) {
        return {std::move(lines), false};
      }
      key = line.substr(0, at);
      line.remove_prefix(at + separator->size());
    }
    lines.emplace_back(std::move(key), line);
  }
  return {std::move(lines), true};
}

std::vector<Line> lines_in(Store& store) {
  PeekQuery query;
  query.queue = "lines";
  query.limit = 10'000;
  std::vector<Line> lines;
  const auto page = store.peek(query);
  FUZZ_REQUIRE(page || page.error().code == Errc::not_found, "a queue can be looked at");
  if (page) {
    for (const PeekedMessage& message : page->items)
      lines.emplace_back(message.key, message.body);
  }
  return lines;
}

void run(std::string_view bytes) {
  if (bytes.empty()) return;
  static const std::optional<std::string> separators[] = {std::nullopt, ":", "\t", "=>"};
  cli::LinesRequest request;
  request.pattern.queue = "lines";
  request.key_separator = separators[static_cast<std::uint8_t>(bytes.front()) % 4];
  bytes.remove_prefix(1);
  const auto [expected, sound] = expected_lines(bytes, request.key_separator);
  if (expected.size() > lines_max) return;

  OpenOptions options;
  options.clock = std::make_shared<ManualClock>();
  const auto store = strand::open("memory:", options);
  FUZZ_REQUIRE(store.has_value(), "a store in memory opens");
  cli::Exit exit{};
  std::string complaint;
  {
    const StandIn input(STDIN_FILENO, bytes);
    const StandIn output_file(STDOUT_FILENO, {});
    Complaints complaints;
    cli::Output output(cli::Format::json);
    exit = cli::send_lines(**store, request, output);
    complaint = complaints.take();
  }
  FUZZ_REQUIRE(exit == (sound ? cli::Exit::done : cli::Exit::failed),
               "it fails at a bad line only");
  FUZZ_REQUIRE(lines_in(**store) == expected, "the lines before it were sent, in order");
  FUZZ_REQUIRE(sound == complaint.empty(), "who fails says so");
  FUZZ_REQUIRE(
      sound || (complaint.starts_with("strand: ") && complaint.find('\n') == complaint.size() - 1),
      "in one line");
}

const Target target("cli_lines", run, 1'000);

}  // namespace

}  // namespace strand::fuzz
