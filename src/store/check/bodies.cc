#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/planted.h"
#include "store/check/inspector.h"

// Bodies with entries of their own, and who shares them.

namespace strand::check {

using engine::Family;

namespace {

std::string user_text(const BodyUse& use) {
  switch (use.by) {
    case BodyUse::By::message:
      return fmt::format("message {}", use.user);
    case BodyUse::By::dead_letter:
      return fmt::format("dead letter {}", use.user);
    case BodyUse::By::publication:
      return fmt::format("retained publication {}", use.user);
  }
  return {};
}

}  // namespace

Result<void> Inspector::read_bodies() {
  std::ranges::sort(uses_, {},
                    [](const BodyUse& use) { return std::tuple{use.body, use.by, use.user}; });
  std::size_t next_use = 0;
  auto done = each(Family::body, [&](std::string_view key, std::string_view value) {
    if (const auto id = engine::decode_number_key(key)) {
      judge_body(*id, value.size(), next_use);
    } else {
      unreadable(Family::body, key, true, "nobody can refer to it; repair drops it");
      repairs_.erase(Family::body, key);
    }
  });
  if (!done) return done;
  for (; next_use < uses_.size(); ++next_use)
    missing_body(uses_[next_use]);
  uses_ = {};
  judge_unused_bodies();
  return {};
}

// Whatever cannot be read may need them, and whoever misses his body may have meant one of them.
void Inspector::judge_unused_bodies() {
  const bool sure = unreadable_messages_.empty() && unreadable_dead_.empty() &&
                    !unreadable_publications_ && report_.count(Kind::missing_body).found == 0;
  for (const std::uint64_t id : unused_bodies_) {
    found(Kind::orphan_body, sure,
          fmt::format("the body {} belongs to nothing{}", id,
                      sure ? "; repair drops it"
                           : ", unless to something that cannot be read or misses its body"));
    if (sure) repairs_.erase(Family::body, engine::number_key(id));
  }
  unused_bodies_ = {};
}

void Inspector::judge_body(std::uint64_t id, std::size_t bytes, std::size_t& next_use) {
  check_number(id, "a body");
  for (; next_use < uses_.size() && uses_[next_use].body < id; ++next_use)
    missing_body(uses_[next_use]);
  const std::size_t first = next_use;
  bool own = false;
  for (; next_use < uses_.size() && uses_[next_use].body == id; ++next_use) {
    const BodyUse& use = uses_[next_use];
    own = own || use.own();
    if (use.bytes == bytes) continue;
    found(
        Kind::wrong_body_size, false,
        fmt::format("the body {} of {} has {} bytes and should have {}: restore it from a backup, "
                    "or drop what has it",
                    id, user_text(use), bytes, use.bytes));
  }
  const std::size_t users = next_use - first;
  if (own && users > 1) {
    found(
        Kind::own_body_shared, false,
        fmt::format("the body {} belongs to one message alone, and {} refer to it: the first that "
                    "ends takes it along; restore a backup",
                    id, users));
  }
  if (users > 0 || STRAND_PLANTED("check-overlooks-orphan-body")) return;
  const bool expected =
      std::ranges::binary_search(unreadable_messages_, id) || unreadable_dead_.contains(id);
  if (!expected) unused_bodies_.push_back(id);
}

void Inspector::missing_body(const BodyUse& use) {
  found(Kind::missing_body, false,
        fmt::format("the body {} of {} ({} bytes) is missing: restore it from a backup, or drop "
                    "what should have it",
                    use.body, user_text(use), use.bytes));
}

// Dead letters are not loaded: a pin says that one of them shares a body.
Result<void> Inspector::read_pins() {
  std::size_t next = 0;
  const auto add_missing = [&](const std::pair<std::uint64_t, std::uint64_t>& pin) {
    found(Kind::missing_pin, true,
          fmt::format("dead letter {} shares the body {} and has no pin on it; repair puts one",
                      pin.second, pin.first));
    repairs_.put(Family::pin, engine::pin_key(MessageId{pin.first}, MessageId{pin.second}), {});
  };
  auto done = each(Family::pin, [&](std::string_view key, std::string_view value) {
    const auto pin = engine::decode_pair_key(key);
    if (!pin) {
      unreadable(Family::pin, key, true, "repair drops it");
      repairs_.erase(Family::pin, key);
      return;
    }
    for (; next < pins_.size() && pins_[next] < *pin; ++next)
      add_missing(pins_[next]);
    const bool wanted = next < pins_.size() && pins_[next] == *pin;
    if (wanted) ++next;
    if (wanted && !value.empty()) {
      unreadable(Family::pin, key, true, "repair empties it");
      repairs_.put(Family::pin, key, {});
    }
    if (wanted || unreadable_dead_.contains(pin->second)) return;
    found(Kind::orphan_pin, true,
          fmt::format("there is a pin on the body {} for dead letter {}, which does not share it; "
                      "repair drops it",
                      pin->first, pin->second));
    repairs_.erase(Family::pin, key);
  });
  if (!done) return done;
  for (; next < pins_.size(); ++next)
    add_missing(pins_[next]);
  return {};
}

}  // namespace strand::check
