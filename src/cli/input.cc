#include "cli/input.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <strand/limits.h>

#include "base/assert.h"

namespace strand::cli {

namespace {

constexpr std::array<int, 2> signals = {SIGINT, SIGTERM};

std::atomic<int> caught_signal = 0;
std::atomic<int> signal_descriptor = -1;

void ring_descriptor(int descriptor) {
  const std::uint64_t one = 1;
  // Fails only when the counter is full: then it is readable anyway.
  static_cast<void>(::write(descriptor, &one, sizeof one));
}

extern "C" void on_signal(int signal) {
  const int error = errno;
  caught_signal = signal;
  ring_descriptor(signal_descriptor);
  errno = error;
}

int new_event() {
  const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  STRAND_ASSERT(descriptor >= 0, "the first few descriptors of a process can be had");
  return descriptor;
}

}  // namespace

Interrupts::Interrupts() {
  STRAND_ASSERT(signal_descriptor == -1, "there is one Interrupts at a time");
  signal_descriptor = new_event();
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  for (const int signal : signals)
    ::sigaction(signal, &action, nullptr);
}

Interrupts::~Interrupts() {
  for (const int signal : signals)
    std::signal(signal, SIG_DFL);
  ::close(signal_descriptor.exchange(-1));
}

int Interrupts::caught() const { return caught_signal; }
int Interrupts::descriptor() const { return signal_descriptor; }

Bell::Bell() : descriptor_(new_event()) {}
Bell::~Bell() { ::close(descriptor_); }
void Bell::ring() const { ring_descriptor(descriptor_); }

void Bell::wait(Duration wait, const Interrupts& interrupts) const {
  std::array<pollfd, 2> polled = {
      {{.fd = descriptor_, .events = POLLIN, .revents = 0},
       {.fd = interrupts.descriptor(), .events = POLLIN, .revents = 0}}};
  // A wait that is longer than poll can say is cut, and the caller waits again.
  const auto ms = std::clamp<std::int64_t>(wait.count(), 0, 3'600'000);
  ::poll(polled.data(), polled.size(), static_cast<int>(ms));
  std::uint64_t rings = 0;
  static_cast<void>(::read(descriptor_, &rings, sizeof rings));
}

bool readable(int descriptor, Patience patience, const Interrupts& interrupts) {
  std::array<pollfd, 2> polled = {
      {{.fd = descriptor, .events = POLLIN, .revents = 0},
       {.fd = interrupts.descriptor(), .events = POLLIN, .revents = 0}}};
  ::poll(polled.data(), polled.size(), patience == Patience::endless ? -1 : 0);
  return polled[0].revents != 0;
}

Result<Bytes> read_all_input(std::size_t bytes_max) {
  Bytes bytes;
  std::array<char, std::size_t{64} << 10U> part{};
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, part.data(), part.size());
    if (count == 0) return bytes;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return failure(Errc::io_error,
                     fmt::format("cannot read the standard input: {}", strerror(errno)));
    }
    bytes.append(part.data(), static_cast<std::size_t>(count));
    if (bytes.size() > bytes_max) {
      return failure(Errc::limit_exceeded,
                     fmt::format("the standard input has more than {} bytes, too many for one "
                                 "message; --lines sends each line as one",
                                 bytes_max));
    }
  }
}

Result<Bytes> read_body(const std::optional<std::string>& argument) {
  if (argument && *argument != "-") return *argument;
  if (!argument && ::isatty(STDIN_FILENO) != 0) {
    return failure(Errc::invalid_argument,
                   "there is no body; give it as an argument, or pipe it in");
  }
  // Which size the store takes is for the store to say; this only bounds our memory.
  return read_all_input(Limits{}.transaction_bytes_max);
}

}  // namespace strand::cli
