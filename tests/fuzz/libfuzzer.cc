// Lets libFuzzer drive the one target of the program.

#include <cstddef>
#include <cstdint>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const strand::fuzz::Target target = strand::fuzz::targets().at(0);
  // libFuzzer may give no bytes as a null pointer, which no reader of text has to expect.
  target.run(size == 0 ? std::string_view("")
                       : std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
