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

#include "base/assert.h"

namespace strand::disk {

namespace {

namespace fs = std::filesystem;

// Always of the same length, and shorter than a sector: a write replaces all of it.
std::string line_for(const SyncedNote::Content& content) {
  std::string line = fmt::format("synced up to {:020}; files: {:{}}", content.number, content.files,
                                 SyncedNote::files_bytes_max);
  line += fmt::format("; checksum {:016x}\n", XXH64(line.data(), line.size(), 0));
  return line;
}

}  // namespace

SyncedNote::~SyncedNote() {
  if (fd_ >= 0) ::close(fd_);
}

void SyncedNote::write(const Content& content) {
  STRAND_ASSERT(content.files.size() <= files_bytes_max, "a note fits into a sector");
  if (content == written_) return;
  if (fd_ < 0) fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) return;
  const std::string line = line_for(content);
  if (::pwrite(fd_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size())) {
    written_ = content;
  }
}

SyncedNote::Content SyncedNote::read() const {
  std::ifstream in(file_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::size_t number_at = std::string_view("synced up to ").size();
  constexpr std::size_t files_at = number_at + 20 + std::string_view("; files: ").size();
  if (text.size() < files_at + files_bytes_max) return {};
  Content content;
  std::from_chars(text.data() + number_at, text.data() + text.size(), content.number);
  content.files = text.substr(files_at, files_bytes_max);
  content.files.resize(content.files.find_last_not_of(' ') + 1);
  return text == line_for(content) ? content : Content{};
}

void SyncedNote::remove() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  written_ = {};
  std::error_code ignored;
  fs::remove(file_, ignored);
}

}  // namespace strand::disk
