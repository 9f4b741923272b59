#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

namespace strand::cli {

enum class Format { text, json };

// Standard output. Buffered here, so that a command knows whether what it printed has arrived.
//
// Failure: after a failed write nothing more is written. A reader that went away (a closed pipe)
//          is no reason for words; every other failure is complained about, once.
class Output {
 public:
  explicit Output(Format format) : format_(format) {}

  [[nodiscard]] bool json() const { return format_ == Format::json; }

  void text(std::string_view text);
  // One line of JSON.
  void object(const boost::json::object& object);

  // True if everything has been written.
  [[nodiscard]] bool flush();

 private:
  Format format_;
  std::string pending_;
  bool broken_ = false;
};

// Columns of equal width. The first row is the heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace strand::cli
