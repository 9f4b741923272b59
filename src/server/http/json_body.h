#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/json.h>

// Bodies of requests.

namespace strand::server::http {

// Refuses what is nested more deeply, without taking it apart.
Result<void> check_depth(std::string_view text, std::size_t depth_max);

// One member that a body may have, and what to do with its value.
struct Member {
  std::string name;
  std::function<Result<void>(const json::View&)> read;
};

// The members of an object. One that is not known is refused, with the nearest known name; so are
// other types than the wanted ones, numbers out of range and names that occur twice.
Result<void> read_members(const json::View& object, const std::vector<Member>& members);

// A member whose value goes to `target`, which must live as long as the member. Null is refused
// unless `target` is optional.
template <json::Convertible T>
Member member(std::string name, T& target) {
  return {std::move(name), [&target](const json::View& view) { return view.value(target); }};
}

}  // namespace strand::server::http
