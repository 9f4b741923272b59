#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"
#include "store/contract/check.h"

// Topics, and what they retain.

namespace strand::check {

using engine::Family;
using engine::PublicationRecord;

namespace {

// What a topic gets whose settings are lost: long enough to lose nothing.
constexpr Duration recovered_retain = std::chrono::hours{24 * 3650};

}  // namespace

Result<void> Inspector::read_topics() {
  return each(Family::topic, [&](std::string_view key, std::string_view value) {
    TopicSeen& topic = topics_[std::string(key)];
    topic.present = true;
    const auto settings = decode_exactly<TopicSettings>(value);
    if (!settings) {
      unreadable(Family::topic, key, true,
                 "its retention is lost; repair sets ten years if it retains anything, and else "
                 "drops it; configure it again");
      return;
    }
    topic.readable = true;
    Transaction transaction;
    transaction.admin = ConfigureTopic{std::string(key), *settings};
    const auto sane = check_transaction(transaction, widest_limits());
    if (sane && settings->retain > Duration::zero()) return;
    found(Kind::bad_topic, false,
          fmt::format("the topic '{}' has settings that no store would keep ({}): configure it "
                      "again",
                      base::printable(key), sane ? "it retains nothing" : sane.error().message));
  });
}

Result<void> Inspector::read_retained() {
  auto done = each(Family::retained, [&](std::string_view key, std::string_view value) {
    const auto name = engine::decode_retained_key(key);
    if (!name || engine::retained_key(name->first, name->second) != key) {
      unreadable(Family::retained, key, false, "restore the store from a backup");
      unreadable_publications_ = true;
      return;
    }
    const auto id = static_cast<std::uint64_t>(name->second);
    const std::string what = fmt::format("retained publication {}", id);
    check_number(id, what);
    topics_[name->first].retains = true;
    const auto record = decode_exactly<PublicationRecord>(value);
    if (!record) {
      unreadable(Family::retained, key, false,
                 "restore the store from a backup; its body is kept meanwhile");
      unreadable_publications_ = true;
      return;
    }
    check_past(record->at, what);
    if (record->content.key && record->content.key->empty()) {
      found(Kind::bad_publication, false, fmt::format("{} has an empty key", what));
    }
    uses_.push_back(
        {.body = id, .user = id, .bytes = record->body_bytes, .by = BodyUse::By::publication});
  });
  if (!done) return done;
  judge_topics();
  return {};
}

void Inspector::judge_topics() {
  for (const auto& [name, topic] : topics_) {
    if (topic.readable) continue;
    if (!topic.retains) {
      repairs_.erase(Family::topic, name);
      continue;
    }
    if (!topic.present) {
      found(Kind::missing_topic, true,
            fmt::format("the topic '{}' retains publications and has no settings; repair lets it "
                        "retain for ten years; configure it again",
                        base::printable(name)));
    }
    repairs_.put_record(Family::topic, name, TopicSettings{.retain = recovered_retain});
  }
  topics_ = {};
}

}  // namespace strand::check
