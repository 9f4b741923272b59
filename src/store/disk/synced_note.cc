#include "store/disk/synced_note.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

namespace strand::disk {

namespace {

namespace fs = std::filesystem;

// Always of the same length, and far shorter than a sector: a write replaces all of it.
std::string line_for(std::uint64_t number) {
  std::string line = fmt::format("synced up to {:020}", number);
  line += fmt::format(", checksum {:016x}\n", XXH64(line.data(), line.size(), 0));
  return line;
}

}  // namespace

SyncedNote::~SyncedNote() {
  if (fd_ >= 0) ::close(fd_);
}

void SyncedNote::write(std::uint64_t number) {
  if (number <= written_) return;
  if (fd_ < 0) fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) return;
  const std::string line = line_for(number);
  if (::pwrite(fd_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size())) {
    written_ = number;
  }
}

std::uint64_t SyncedNote::read() const {
  std::ifstream in(file_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view opening = "synced up to ";
  if (!text.starts_with(opening)) return 0;
  std::uint64_t number = 0;
  const char* const digits = text.data() + opening.size();
  std::from_chars(digits, text.data() + text.size(), number);
  return text == line_for(number) ? number : 0;
}

void SyncedNote::remove() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  written_ = 0;
  std::error_code ignored;
  fs::remove(file_, ignored);
}

}  // namespace strand::disk
