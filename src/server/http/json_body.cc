#include "server/http/json_body.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/text.h"

namespace strand::server::http {

Result<void> check_depth(std::string_view text, std::size_t depth_max) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > depth_max) {
        return failure(Errc::invalid_argument,
                       fmt::format("nested more than {} levels deep", depth_max));
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return {};
}

Result<void> read_members(const json::View& object, const std::vector<Member>& members) {
  if (auto is = object.expect_object(); !is) return is;
  return object.for_each_member([&](const json::View& view) -> Result<void> {
    const auto found = std::ranges::find(members, view.name(), &Member::name);
    if (found != members.end()) return found->read(view);
    std::vector<std::string> known;
    for (const Member& member : members)
      known.push_back(member.name);
    return failure(Errc::invalid_argument,
                   fmt::format("there is no member '{}' here{}", base::printable(view.name()),
                               base::suggestion(view.name(), known)));
  });
}

}  // namespace strand::server::http
