#pragma once

#include <string>
#include <vector>

// Tables in the documentation, for tests that hold them to what the code does.

namespace strand::server::test {

using Rows = std::vector<std::vector<std::string>>;

// The cells of all tables in a file, named from the root of the tree, whose first heading is
// `heading`. In a cell, `\|` is a bar.
Rows rows_of(const std::string& file, const std::string& heading);

// The same the other way: to be copied into the file.
std::string as_rows(const Rows& rows);

// A file of the tree.
std::string text_of(const std::string& file);

}  // namespace strand::server::test
