#include "server/doc_tables.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace strand::server::test {

namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|') {
      const std::size_t first = cell.find_first_not_of(' ');
      const std::size_t last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

}  // namespace

std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(STRAND_SOURCE_DIR) + "/" + file);
  std::ostringstream text;
  if (!(text << stream.rdbuf())) throw std::runtime_error("cannot read " + file);
  return text.str();
}

Rows rows_of(const std::string& file, const std::string& heading) {
  std::istringstream text(text_of(file));
  Rows rows;
  std::string line;
  bool inside = false;
  while (std::getline(text, line)) {
    if (!line.starts_with("|")) {
      inside = false;
    } else if (line.starts_with("| " + heading + " |")) {
      inside = true;
    } else if (inside && !line.starts_with("|---")) {
      rows.push_back(cells_of(line));
    }
  }
  return rows;
}

std::string as_rows(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += "|";
    for (const std::string& cell : row) {
      text += cell.empty() ? " |" : " ";
      if (cell.empty()) continue;
      for (const char c : cell) {
        if (c == '|') text += '\\';
        text += c;
      }
      text += " |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace strand::server::test
