#include "server/access.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/planted.h"
#include "base/text.h"

namespace strand::server {

namespace {

// Takes the first segment off the front of `rest`. The last one leaves none behind.
std::string_view next_segment(std::optional<std::string_view>& rest) {
  const std::size_t dot = rest->find('.');
  const std::string_view segment = rest->substr(0, dot);
  if (dot == std::string_view::npos) {
    rest.reset();
  } else {
    rest->remove_prefix(dot + 1);
  }
  return segment;
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::send:
      return "send";
    case Role::receive:
      return "receive";
    case Role::admin:
      return "admin";
  }
  STRAND_ASSERT(false, "every Role has a name");
  return {};
}

bool covers(std::string_view pattern, std::string_view filter) {
  std::optional<std::string_view> patterns = pattern;
  std::optional<std::string_view> filters = filter;
  while (patterns) {
    const std::string_view segment = next_segment(patterns);
    if (segment == "#" && !patterns) return true;
    if (!filters) return false;
    const std::string_view wanted = next_segment(filters);
    if (wanted == "#" && !filters) return false;  // stands for more than one segment can
    if (segment != "*" && segment != wanted) return false;
  }
  return !filters;
}

Permit Permit::all(std::string caller) {
  Permit permit;
  permit.caller_ = std::move(caller);
  permit.all_ = true;
  return permit;
}

bool Permit::may(Role role, std::string_view name) const {
  if (all_ || STRAND_PLANTED("a-token-may-do-everything")) return true;
  return std::ranges::any_of(grants_, [&](const Grant& grant) {
    return (grant.role == role || grant.role == Role::admin) && covers(grant.pattern, name);
  });
}

bool Permit::sees(std::string_view name) const {
  return all_ || std::ranges::any_of(
                     grants_, [&](const Grant& grant) { return covers(grant.pattern, name); });
}

bool Permit::may_somewhere(Role role) const {
  return all_ || std::ranges::any_of(grants_, [&](const Grant& grant) {
           return grant.role == role || grant.role == Role::admin;
         });
}

Error Permit::refusal(Role role, std::string_view name) const {
  return {Errc::forbidden,
          fmt::format("\"{}\" has not the role {} for \"{}\", or there is no such thing; ask for "
                      "a token that has it",
                      caller_, to_string(role), base::printable(name))};
}

OpenAccess::OpenAccess() : everybody_(std::make_shared<const Permit>(Permit::all("everybody"))) {}

Result<std::shared_ptr<const Permit>> OpenAccess::admit(
    std::optional<std::string_view> /*bearer*/) const {
  return everybody_;
}

std::optional<std::string_view> bearer_of(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size()) return std::nullopt;
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  if (!std::ranges::equal(authorization.substr(0, scheme.size()), scheme, {}, lower)) {
    return std::nullopt;
  }
  return authorization.substr(scheme.size());
}

}  // namespace strand::server
