#include "relay/verify.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace strand::relay {
namespace {

using Place = std::pair<std::uint32_t, std::int32_t>;  // topic and partition

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

class Verification {
 public:
  Verification(std::span<const ExpectedRow> rows, std::span<const TopicMessage> deliveries,
               const VerifyOptions& options)
      : rows_(rows), deliveries_(deliveries), options_(options) {}

  VerifyReport run() {
    index_rows();
    for (std::size_t i = 0; i < deliveries_.size(); ++i)
      take(i);
    for (auto& [name, entity] : entities_)
      judge(entity);
    return std::move(report_);
  }

 private:
  struct Entity {
    std::vector<std::size_t> rows = {};
    // The first deliveries of its rows, in the order of each partition.
    std::map<Place, std::vector<std::size_t>> first = {};
  };

  void index_rows() {
    report_.rows = rows_.size();
    report_.messages = deliveries_.size();
    by_id_.reserve(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const ExpectedRow& row = rows_[i];
      if (!by_id_.emplace(row.id, i).second) {
        find({.kind = VerifyFinding::Kind::twice, .id = row.id, .entity = row.entity});
        continue;
      }
      if (row.sent) ++report_.sent;
      entities_[row.entity].rows.push_back(i);
    }
    report_.entities = entities_.size();
    seen_.assign(rows_.size(), false);
  }

  void take(std::size_t number) {
    const TopicMessage& delivery = deliveries_[number];
    if (!delivery.id) {
      find({.kind = VerifyFinding::Kind::without_id, .entity = delivery.key, .at = delivery});
      return;
    }
    const auto row = by_id_.find(*delivery.id);
    if (row == by_id_.end()) {
      find({.kind = VerifyFinding::Kind::unknown,
            .id = *delivery.id,
            .entity = delivery.key,
            .at = delivery});
      return;
    }
    const std::string_view entity = rows_[row->second].entity;
    if (delivery.key != entity) {
      find({.kind = VerifyFinding::Kind::wrong_key,
            .id = *delivery.id,
            .entity = std::string(entity),
            .at = delivery});
      return;
    }
    if (seen_[row->second]) {
      ++report_.repeated;
      return;
    }
    seen_[row->second] = true;
    ++report_.delivered;
    entities_[entity].first[{delivery.topic, delivery.partition}].push_back(number);
  }

  void judge(Entity& entity) {
    std::ranges::sort(entity.rows, {}, [&](std::size_t row) { return rows_[row].order; });
    if (entity.first.size() > 1) ++report_.spread;
    for (const auto& [place, first] : entity.first)
      judge_order(first);
    judge_presence(entity);
  }

  // Each first delivery must be later in the order than all before it.
  void judge_order(const std::vector<std::size_t>& first) {
    std::size_t last = nowhere;
    for (const std::size_t number : first) {
      const std::size_t row = by_id_.at(*deliveries_[number].id);
      if (last != nowhere && rows_[row].order < rows_[last].order) {
        find({.kind = VerifyFinding::Kind::reordered,
              .id = rows_[row].id,
              .entity = rows_[row].entity,
              .at = deliveries_[number],
              .other = rows_[last].id});
      } else {
        last = row;
      }
    }
  }

  // In one partition, what is there is the beginning of what there is to send. With several, a row
  // may be on its way to one while a later one has arrived in another.
  void judge_presence(const Entity& entity) {
    std::size_t later = nowhere;
    for (auto i = entity.rows.rbegin(); i != entity.rows.rend(); ++i) {
      const ExpectedRow& row = rows_[*i];
      if (seen_[*i]) {
        if (later == nowhere) later = *i;
      } else if (row.sent) {
        find({.kind = VerifyFinding::Kind::missing, .id = row.id, .entity = row.entity});
      } else if (later != nowhere && entity.first.size() == 1) {
        find({.kind = VerifyFinding::Kind::gap,
              .id = row.id,
              .entity = row.entity,
              .other = rows_[later].id});
      }
    }
  }

  std::uint64_t& count(VerifyFinding::Kind kind) {
    switch (kind) {
      case VerifyFinding::Kind::missing:
        return report_.missing;
      case VerifyFinding::Kind::gap:
        return report_.gaps;
      case VerifyFinding::Kind::reordered:
        return report_.reordered;
      case VerifyFinding::Kind::wrong_key:
        return report_.wrong_key;
      case VerifyFinding::Kind::unknown:
        return report_.unknown;
      case VerifyFinding::Kind::without_id:
        return report_.without_id;
      case VerifyFinding::Kind::twice:
        return report_.twice;
    }
    std::unreachable();
  }

  void find(VerifyFinding finding) {
    const bool foreign = finding.kind == VerifyFinding::Kind::unknown ||
                         finding.kind == VerifyFinding::Kind::without_id;
    std::uint64_t& found = count(finding.kind);
    ++found;
    if (foreign && options_.allow_unknown) return;
    report_.ok = false;
    if (found <= options_.findings_max) report_.findings.push_back(std::move(finding));
  }

  const std::span<const ExpectedRow> rows_;
  const std::span<const TopicMessage> deliveries_;
  const VerifyOptions options_;
  std::unordered_map<std::string_view, std::size_t> by_id_;
  std::map<std::string_view, Entity> entities_;
  std::vector<bool> seen_;  // of each row
  VerifyReport report_;
};

}  // namespace

std::string_view to_string(VerifyFinding::Kind kind) {
  switch (kind) {
    case VerifyFinding::Kind::missing:
      return "missing";
    case VerifyFinding::Kind::gap:
      return "gap";
    case VerifyFinding::Kind::reordered:
      return "reordered";
    case VerifyFinding::Kind::wrong_key:
      return "wrong_key";
    case VerifyFinding::Kind::unknown:
      return "unknown";
    case VerifyFinding::Kind::without_id:
      return "without_id";
    case VerifyFinding::Kind::twice:
      return "twice";
  }
  std::unreachable();
}

VerifyReport verify(std::span<const ExpectedRow> rows, std::span<const TopicMessage> deliveries,
                    const VerifyOptions& options) {
  return Verification(rows, deliveries, options).run();
}

}  // namespace strand::relay
