#include "store/rocksdb/marker.h"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/text.h"
#include "store/disk/place.h"

namespace strand::rocks {

namespace {

namespace fs = std::filesystem;

// 2: messages may be erased by a list, which a version that knows format 1 would not look for. It
// is otherwise the same.
constexpr std::uint32_t format = 2;
constexpr std::string_view opening = "strand rocksdb store, format ";
constexpr std::string_view unfinished = ", being created";

std::string name_of(const fs::path& path) { return base::printable(path.native()); }

struct Marker {
  std::uint32_t format = 0;
  bool finished = false;
};

// Nothing if there is no such file.
Result<std::optional<Marker>> read_marker(const fs::path& path) {
  std::ifstream file(path / "format", std::ios::binary);
  if (!file) {
    std::error_code error;
    if (!fs::exists(path / "format", error)) return std::nullopt;
    return std::unexpected(disk::cannot("read", path / "format", EACCES));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = text;
  Marker marker;
  const auto damaged = [&] {
    return failure(Errc::corrupt,
                   fmt::format("{} does not say what it should; if this is a store of Strand, "
                               "write the line \"{}{}\" into it",
                               name_of(path / "format"), opening, format));
  };
  if (!rest.starts_with(opening)) return damaged();
  rest.remove_prefix(opening.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), marker.format);
  if (error != std::errc{}) return damaged();
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  marker.finished = !rest.starts_with(unfinished);
  if (rest != "\n" && rest != fmt::format("{}\n", unfinished)) return damaged();
  return marker;
}

Result<void> write_marker(const fs::path& path, std::string_view state) {
  return disk::write_durably(path / "format", fmt::format("{}{}{}\n", opening, format, state));
}

// What a creation that was cut off may have left.
bool is_ours_unfinished(const fs::path& name) { return name == "owner" || name == "format.new"; }

}  // namespace

Result<void> check_folder(const fs::path& path, bool create) {
  const auto marker = read_marker(path);
  if (!marker) return std::unexpected(marker.error());
  if (*marker) {
    if ((*marker)->format <= format) return {};
    return failure(Errc::unsupported,
                   fmt::format("the store in {} has format {}, and this version of Strand knows "
                               "formats up to {}: use a newer version",
                               name_of(path), (*marker)->format, format));
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const fs::path name = entry.path().filename();
    if (is_ours_unfinished(name)) continue;
    const bool rocksdb = fs::exists(path / "CURRENT");
    return failure(
        Errc::invalid_argument,
        fmt::format("{} holds {}, and no store of Strand; name another folder", name_of(path),
                    rocksdb ? "a RocksDB database of another program"
                            : fmt::format("other files ({})", name_of(name))));
  }
  if (error) return std::unexpected(disk::cannot("look into", path, error.value()));
  if (!create) {
    return failure(Errc::not_found, fmt::format("there is no store in {}", name_of(path)));
  }
  return {};
}

Result<void> begin_creation(const fs::path& path) {
  const auto marker = read_marker(path);
  if (!marker) return std::unexpected(marker.error());
  if (*marker && (*marker)->finished) {
    if (fs::exists(path / "data" / "CURRENT")) return {};
    return failure(Errc::corrupt,
                   fmt::format("the database of the store in {} is missing or has lost its file "
                               "CURRENT; put back the folder data from a backup, or remove {} to "
                               "start anew",
                               name_of(path), name_of(path)));
  }
  std::error_code error;
  fs::remove_all(path / "data", error);
  if (error) return std::unexpected(disk::cannot("remove", path / "data", error.value()));
  return write_marker(path, unfinished);
}

Result<void> end_creation(const fs::path& path) {
  const auto marker = read_marker(path);
  if (!marker) return std::unexpected(marker.error());
  if (*marker && (*marker)->finished && (*marker)->format == format) return {};
  return write_marker(path, "");
}

}  // namespace strand::rocks
