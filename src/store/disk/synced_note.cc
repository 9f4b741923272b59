#include "store/disk/synced_note.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/assert.h"
#include "store/disk/place.h"

namespace strand::disk {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view number_label = "synced up to ";
constexpr std::string_view files_label = "; files: ";
constexpr std::string_view checksum_label = "; checksum ";
constexpr std::size_t number_bytes = 20;
constexpr std::size_t checksum_bytes = 16;
constexpr std::size_t number_at = number_label.size();
constexpr std::size_t files_at = number_at + number_bytes + files_label.size();
constexpr std::size_t checksum_at = files_at + SyncedNote::files_bytes_max + checksum_label.size();
constexpr std::size_t line_bytes = checksum_at + checksum_bytes + 1;

// Two lines in one sector, written in turns: one of them is always whole.
constexpr std::size_t line_count = 2;
constexpr std::size_t note_bytes = line_count * line_bytes;
static_assert(note_bytes <= 512);

std::string line_for(const SyncedNote::Content& content) {
  std::string line =
      fmt::format("{}{:0{}}{}{:{}}{}", number_label, content.number, number_bytes, files_label,
                  content.files, SyncedNote::files_bytes_max, checksum_label);
  line += fmt::format("{:0{}x}\n", XXH64(line.data(), line.size(), 0), checksum_bytes);
  return line;
}

// Nothing is known from a line that is not whole.
SyncedNote::Content content_of(std::string_view line) {
  if (line.size() != line_bytes) return {};
  SyncedNote::Content content;
  std::from_chars(line.data() + number_at, line.data() + number_at + number_bytes, content.number);
  content.files = line.substr(files_at, SyncedNote::files_bytes_max);
  content.files.resize(content.files.find_last_not_of(' ') + 1);
  return line == line_for(content) ? content : SyncedNote::Content{};
}

}  // namespace

SyncedNote::~SyncedNote() { unmap(); }

void SyncedNote::unmap() {
  if (mapped_ != nullptr) ::munmap(std::exchange(mapped_, nullptr), note_bytes);
}

// The space is taken first: storing into a mapped page that the disk has no room for is fatal.
void SyncedNote::map() {
  const File file(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file.fd() < 0) return;
  written_ = read();
  line_ = 0;
  const std::string both = line_for(written_) + line_for({});
  if (::pwrite(file.fd(), both.data(), note_bytes, 0) != static_cast<ssize_t>(note_bytes)) return;
  void* mapped = ::mmap(nullptr, note_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = static_cast<char*>(mapped);
}

void SyncedNote::write(const Content& content) {
  STRAND_ASSERT(content.files.size() <= files_bytes_max, "a note fits into a sector");
  if (content == written_) return;
  if (mapped_ == nullptr) map();
  if (mapped_ == nullptr) return;
  // Of two lines with one number nobody could tell which is newer.
  if (content.number != written_.number) line_ = (line_ + 1) % line_count;
  std::memcpy(mapped_ + line_ * line_bytes, line_for(content).data(), line_bytes);
  written_ = content;
}

SyncedNote::Content SyncedNote::read() const {
  std::ifstream in(file_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Content newest;
  for (std::size_t begin = 0; begin < text.size(); begin += line_bytes) {
    Content content = content_of(std::string_view(text).substr(begin, line_bytes));
    if (content.number >= newest.number) newest = std::move(content);
  }
  return newest;
}

void SyncedNote::remove() {
  unmap();
  written_ = {};
  std::error_code ignored;
  fs::remove(file_, ignored);
}

}  // namespace strand::disk
