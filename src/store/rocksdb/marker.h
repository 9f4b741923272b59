#pragma once

#include <filesystem>

#include <strand/error.h>

namespace strand::rocks {

// The file `format` in the folder of a store says that it is one, in which format, and whether its
// creation was finished: until then nothing was promised to anybody, and it starts again.

// Whether the folder is a store of ours that this version can read, or is empty (`not_found` unless
// `create`). Changes nothing.
Result<void> check_folder(const std::filesystem::path& path, bool create);

// Under the owner's lock, before and after the database is opened. On a finished store they do
// nothing, but for noticing that its database is missing, and raising an older format to ours.
Result<void> begin_creation(const std::filesystem::path& path);
Result<void> end_creation(const std::filesystem::path& path);

}  // namespace strand::rocks
