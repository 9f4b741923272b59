#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::relay {

// The steps of workers as lines of JSON at the end of a file: see "Traces" in docs/guide/relay.md.
// A line is one write, so that many workers and processes may share the file.
//
// Threads: every method may be called concurrently.
class Trace {
 public:
  static Result<std::unique_ptr<Trace>> open(const std::string& path, std::string process);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  struct Step {
    std::string_view event = {};
    std::string_view relay = {};
    std::uint32_t worker = 0;
    std::string_view entity = {};
    std::int64_t epoch = 0;
    std::span<const std::string> rows = {};
    std::string_view reason = {};
  };
  void write(const Step& step) const;

 private:
  Trace(int descriptor, std::string process);

  int descriptor_;
  std::string process_;
};

}  // namespace strand::relay
