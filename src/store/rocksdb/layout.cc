#include "store/rocksdb/layout.h"

namespace strand::rocks {

std::string behind(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff')
    end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace strand::rocks
