// The model is a second opinion only as long as it shares no code with what it judges.

#include <array>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

namespace strand::model {
namespace {

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): fixed words and our own path
  if (pipe == nullptr) return output;
  std::array<char, 4096> part{};
  while (fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr)
    output += part.data();
  pclose(pipe);
  return output;
}

TEST(Model, Links_nothing_of_the_engine) {
  const std::string library = STRAND_BINARY_DIR "/tests/libstrand_model.a";
  const std::string symbols = output_of("llvm-nm-19 -C '" + library + "' 2>&1");
  ASSERT_NE(symbols.find("strand::model::Model"), std::string::npos)
      << "the list of symbols is not what it should be: " << symbols.substr(0, 500);
  for (const std::string name : {"strand::engine", "strand::local", "strand::memory"}) {
    EXPECT_EQ(symbols.find(name), std::string::npos) << "the model uses " << name;
  }
}

}  // namespace
}  // namespace strand::model
