#include <algorithm>
#include <chrono>
#include <ranges>
#include <set>

#include "model/evidence.h"
#include "model/text.h"
#include "model/violation.h"

namespace strand::model {
namespace {

using Stamp = std::chrono::steady_clock::time_point;

std::string numbered(Epoch epoch) {
  return "epoch " + std::to_string(static_cast<std::uint64_t>(epoch));
}

// One lane, lease after lease.
class Replay {
 public:
  Replay(const LaneName& name, const std::map<Epoch, Tenure>& tenures,
         const std::vector<MessageId>& messages, std::map<MessageId, Fate>& fates,
         std::uint32_t max_attempts)
      : name_(name), tenures_(tenures), fates_(fates), max_attempts_(max_attempts) {
    for (const MessageId id : messages) {
      const Fate& fate = fates_.at(id);
      open_.insert(fate.place(id));
      cancels_.insert(cancels_.end(), fate.cancels.begin(), fate.cancels.end());
    }
  }

  void run() {
    check_handovers();
    for (const auto& [epoch, tenure] : tenures_)
      follow(tenure);
  }

 private:
  // The holder is followed by the next one only after its lease is over.
  void check_handovers() {
    Stamp taken = Stamp::max();  // when the first of the later leases was known to be granted
    const Tenure* next = nullptr;
    for (const auto& [epoch, tenure] : tenures_ | std::views::reverse) {
      for (const Step& step : tenure.steps) {
        if (call_of(step).begin > taken) check_late(tenure, step);
      }
      if (next != nullptr) check_over(tenure, *next);
      taken = std::min(taken, tenure.granted.end);
      next = &tenure;
    }
  }

  void check_late(const Tenure& tenure, const Step& step) const {
    const auto* settled = std::get_if<Settled>(&step);
    if (settled != nullptr && settled->error) return;
    violate(settled != nullptr ? Invariant::current_epoch : Invariant::lane_order,
            where(tenure) + (settled != nullptr ? "settled" : "was pulled for or renewed") +
                " after a later lease of the lane had been granted");
  }

  // No later lease may be granted while this one runs.
  void check_over(const Tenure& tenure, const Tenure& next) const {
    Time expires_at = tenure.expires_at;
    for (const Step& step : tenure.steps) {
      if (const auto* settled = std::get_if<Settled>(&step); settled && settled->ends_lease())
        return;
      if (const auto* longer = std::get_if<Prolonged>(&step)) expires_at = longer->expires_at;
    }
    if (maybe_revoked(tenure, next.granted)) return;
    expect(next.granted.store_time >= expires_at, Invariant::lane_order, [&] {
      return where(tenure) + "runs until " + text(expires_at) + ", but " + numbered(next.epoch) +
             " was granted by " + text(next.granted.store_time);
    });
  }

  // A cancel of a message that the lease carries ends it; perhaps before the answer showed what it
  // carries, so any message of the lane counts.
  [[nodiscard]] bool maybe_revoked(const Tenure& tenure, const Call& by) const {
    return std::ranges::any_of(cancels_, [&](const Call& cancel) {
      return !by.before(cancel) && !cancel.before(tenure.granted);
    });
  }

  void follow(const Tenure& tenure) {
    carried_.clear();
    shown_.clear();
    over_ = false;
    expires_at_ = tenure.expires_at;
    for (const Step& step : tenure.steps) {
      if (const auto* messages = std::get_if<Carried>(&step)) carry(tenure, *messages);
      if (const auto* longer = std::get_if<Prolonged>(&step)) expires_at_ = longer->expires_at;
      if (const auto* settled = std::get_if<Settled>(&step)) {
        if (settled->error) {
          check_refusal(tenure, *settled);
        } else {
          settle(tenure, *settled);
        }
      }
    }
    // The lease ran out and the oldest was charged; or it was revoked, but that is not seen here.
    if (!over_ && !carried_.empty()) charge(fates_.at(carried_.begin()->second), tenure.granted);
    for (const MessageId id : shown_) {
      Fate& fate = fates_.at(id);
      if (one_failure_left(fate) && !fate.died) fate.died = tenure.granted;
    }
  }

  // A message that the next failure ends may end without anybody having been shown its last lease:
  // the lease ran out before its answer was there.
  [[nodiscard]] bool one_failure_left(const Fate& fate) const {
    return max_attempts_ != 0 && fate.attempts + 1 >= max_attempts_;
  }
  void charge(Fate& fate, const Call& call) const {
    ++fate.attempts;
    if (one_failure_left(fate)) fate.died = call;
  }

  void carry(const Tenure& tenure, const Carried& carried) {
    std::optional<Place> last;
    for (const Message& message : carried.messages) {
      Fate& fate = check_identity(tenure, message);
      const Place place = fate.place(message.id);
      expect(!last || *last < place, Invariant::lane_order, [&] {
        return where(tenure) + "carries messages out of order: " + text(carried.messages);
      });
      last = place;
      expect(!fate.acked, Invariant::one_end,
             [&] { return where(tenure) + "carries what was acked before: " + text(message); });
      expect(carried.call.store_time >= std::max(fate.due, fate.not_before), Invariant::not_early,
             [&] {
               return where(tenure) + "carries " + text(message) + " by " +
                      text(carried.call.store_time) + ", before " +
                      text(std::max(fate.due, fate.not_before));
             });
      check_nothing_older(tenure, carried.call, message.id, place);
      // By more than one if a lease was lost before anybody was shown it.
      expect(message.deliveries > fate.deliveries, Invariant::contract, [&] {
        return where(tenure) + "carries " + text(message) + ", which was delivered " +
               std::to_string(fate.deliveries) + " times before";
      });
      fate.deliveries = message.deliveries;
      fate.attempts = message.attempts;
      fate.died.reset();
      carried_.insert(place);
      shown_.push_back(message.id);
    }
  }

  Fate& check_identity(const Tenure& tenure, const Message& message) {
    const auto found = fates_.find(message.id);
    expect(found != fates_.end(), Invariant::contract,
           [&] { return where(tenure) + "carries what no confirmed send sent: " + text(message); });
    Fate& fate = found->second;
    expect(fate.body == message.body, Invariant::nothing_lost, [&] {
      return where(tenure) + "carries " + text(message) + ", sent as " + quote(fate.body);
    });
    expect(fate.queue == name_.queue && fate.key == name_.key, Invariant::lane_order,
           [&] { return where(tenure) + "carries a message of another lane: " + text(message); });
    expect(fate.due == message.due, Invariant::not_early, [&] {
      return where(tenure) + "carries " + text(message) + ", sent for " + text(fate.due);
    });
    return fate;
  }

  // Under policy `block`, whatever is older and alive is carried too.
  void check_nothing_older(const Tenure& tenure, const Call& call, MessageId id,
                           const Place& place) const {
    for (auto it = open_.begin(); it != open_.end() && *it < place; ++it) {
      if (carried_.contains(*it)) continue;
      expect(!surely_alive(fates_.at(it->second), call), Invariant::lane_order, [&] {
        return where(tenure) + "carries " + text(id) + " without " + text(it->second) +
               ", which is older and has not ended";
      });
    }
  }

  [[nodiscard]] static bool surely_alive(const Fate& fate, const Call& at) {
    if (!fate.sent.before(at)) return false;
    for (const Call& cancel : fate.cancels) {
      if (!at.before(cancel)) return false;
    }
    if (!fate.died) return true;
    return std::ranges::any_of(fate.redrives, [&](const Call& redrive) {
      return fate.died->before(redrive) && redrive.before(at);
    });
  }

  void settle(const Tenure& tenure, const Settled& settled) {
    expect(!over_, Invariant::current_epoch,
           [&] { return where(tenure) + "settled after its end"; });
    for (const Outcome& outcome : settled.settle.outcomes) {
      const auto found = fates_.find(outcome.id);
      const bool known = found != fates_.end();
      if (known && found->second.acked) {
        violate(Invariant::one_end, where(tenure) + "settled once more " + text(outcome.id));
      }
      expect(known && carried_.erase(found->second.place(outcome.id)) == 1,
             Invariant::current_epoch,
             [&] { return where(tenure) + "settled what it did not carry: " + text(outcome.id); });
      finish(found->second, outcome, settled);
    }
    over_ = settled.ends_lease();
  }

  void finish(Fate& fate, const Outcome& outcome, const Settled& settled) {
    switch (outcome.kind) {
      case Outcome::Kind::ack:
        fate.acked = true;
        ++fate.acks;
        open_.erase(fate.place(outcome.id));
        break;
      case Outcome::Kind::retry:
        charge(fate, settled.call);
        if (max_attempts_ == 0 || fate.attempts < max_attempts_) {
          fate.not_before = settled.at + outcome.delay.value_or(Duration{0});
        }
        break;
      case Outcome::Kind::dead:
        fate.died = settled.call;
        break;
      case Outcome::Kind::release:
        break;
    }
  }

  // Only who is not the holder (any more) is refused, and this is what it is told.
  void check_refusal(const Tenure& tenure, const Settled& refused) const {
    expect(*refused.error == Errc::lease_lost, Invariant::current_epoch, [&] {
      return where(tenure) + "was refused with " + text(*refused.error) +
             ": a settle fails with lease_lost or not at all";
    });
    const bool ended = std::ranges::any_of(tenure.steps, [&](const Step& step) {
      const auto* settled = std::get_if<Settled>(&step);
      return settled != nullptr && settled->ends_lease() && !refused.call.before(settled->call);
    });
    expect(ended || refused.call.store_time >= expires_at_ || maybe_revoked(tenure, refused.call),
           Invariant::current_epoch, [&] {
             return where(tenure) + "was refused by " + text(refused.call.store_time) +
                    " though it was current until " + text(expires_at_);
           });
  }

  [[nodiscard]] std::string where(const Tenure& tenure) const {
    return "lane " + quote(name_.queue) + "/" + text(name_.key) + ", " + numbered(tenure.epoch) +
           " ";
  }

  const LaneName& name_;
  const std::map<Epoch, Tenure>& tenures_;
  std::map<MessageId, Fate>& fates_;
  std::uint32_t max_attempts_;
  std::vector<Call> cancels_;     // of messages of this lane
  std::set<Place> open_;          // not acked yet
  std::set<Place> carried_;       // by the lease that is looked at, unsettled
  std::vector<MessageId> shown_;  // by that lease, settled or not
  bool over_ = false;             // it was ended by a settle
  Time expires_at_{};             // its end
};

}  // namespace

void check_lane(const LaneName& name, const std::map<Epoch, Tenure>& tenures,
                const std::vector<MessageId>& messages, std::map<MessageId, Fate>& fates,
                std::uint32_t max_attempts) {
  Replay(name, tenures, messages, fates, max_attempts).run();
}

}  // namespace strand::model
