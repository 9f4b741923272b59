#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::server {

// Files with secrets in them: regular ones that belong to root or to who runs this, and that nobody
// else may read or write. All is checked on the opened file, so that no other one can take its
// place between the look and the reading.

// The whole file. `forbidden` says what to do with one that others may use.
Result<std::string> read_private(const std::filesystem::path& file);

// Puts what `add` makes of the content behind it, durably. A missing file is made, with mode 0600;
// `add` gets "" then. Only one process at a time is between the reading and the writing.
Result<void> append_private(const std::filesystem::path& file,
                            const std::function<Result<std::string>(std::string_view)>& add);

}  // namespace strand::server
