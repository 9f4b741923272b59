#include "relay/trace.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"

namespace strand::relay {
namespace {

std::string as_text(std::string_view bytes) {
  return base::is_utf8(bytes) ? std::string(bytes) : base::escaped(bytes);
}

}  // namespace

Trace::Trace(int descriptor, std::string process)
    : descriptor_(descriptor), process_(std::move(process)) {}

Trace::~Trace() { ::close(descriptor_); }

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path, std::string process) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return failure(Errc::io_error, fmt::format("cannot write the trace {}: {}", path,
                                               std::generic_category().message(errno)));
  }
  return std::unique_ptr<Trace>(new Trace(descriptor, std::move(process)));
}

void Trace::write(const Step& step) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  boost::json::array rows;
  for (const std::string& row : step.rows)
    rows.emplace_back(as_text(row));
  boost::json::object object{
      {"time_us", std::chrono::duration_cast<std::chrono::microseconds>(now).count()},
      {"event", step.event},
      {"relay", step.relay},
      {"process", process_},
      {"worker", step.worker},
      {"entity", as_text(step.entity)},
      {"epoch", step.epoch},
      {"rows", std::move(rows)}};
  if (!step.reason.empty()) object["reason"] = as_text(step.reason);
  const std::string line = boost::json::serialize(object) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // a full disk stops no delivery
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace strand::relay
