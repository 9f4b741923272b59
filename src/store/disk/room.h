#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace strand::disk {

// How many bytes this process may still write to the file system of `path`; nothing if it cannot be
// told.
std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path);

}  // namespace strand::disk
