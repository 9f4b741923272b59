#include "store/rocksdb/notes.h"

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <strand/time.h>

#include "store/disk/place.h"

namespace strand::rocks {

namespace {

constexpr off_t file_bytes_max = off_t{1} << 20U;

class Notes final : public ::rocksdb::Logger {
 public:
  explicit Notes(const std::filesystem::path& file)
      : Logger(::rocksdb::WARN_LEVEL),
        file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 2'048> text{};
    // The text and its values come from RocksDB, whose compiler has checked them.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wformat-nonliteral"
    const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
#pragma clang diagnostic pop
    if (length < 0) return;
    const auto now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
    const std::string line = fmt::format("{} {}\n", format_time(now), text.data());
    const std::lock_guard lock(mutex_);
    if (::lseek(file_.fd(), 0, SEEK_END) > file_bytes_max)
      static_cast<void>(::ftruncate(file_.fd(), 0) == 0);
    static_cast<void>(::write(file_.fd(), line.data(), line.size()) < 0);
  }

 private:
  const disk::File file_;
  std::mutex mutex_;
};

}  // namespace

std::shared_ptr<::rocksdb::Logger> open_notes(const std::filesystem::path& file) {
  return std::make_shared<Notes>(file);
}

}  // namespace strand::rocks
