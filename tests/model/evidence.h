#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/recorder.h"

// The logs of a Recorder, sorted by what they are about: messages, and leases by lane.
namespace strand::model {

// The place of a message in its lane.
using Place = std::pair<Time, MessageId>;

// All that is known of one message that was sent with success.
struct Fate {
  std::string queue = {};
  std::optional<std::string> key = {};
  Bytes body = {};
  Time due{};
  Call sent = {};

  std::vector<Call> cancels = {};
  std::vector<Call> redrives = {};
  std::uint32_t acks = 0;

  // As far as the lane was replayed:
  bool acked = false;
  std::uint32_t deliveries = 0;
  std::uint32_t attempts = 0;     // known so far
  Time not_before{};              // end of its last retry's delay
  std::optional<Call> died = {};  // it may have become a dead letter in this call or after it

  [[nodiscard]] Place place(MessageId id) const { return {due, id}; }
};

// A settle of one lease and its transaction's answer.
struct Settled {
  Call call = {};
  Settle settle = {};
  std::optional<Errc> error = {};
  Time at{};  // if it succeeded

  [[nodiscard]] bool ends_lease() const { return !error && settle.then != Settle::Then::keep; }
};
// Messages that a lease or a pull carried.
struct Carried {
  Call call = {};
  std::vector<Message> messages = {};
};
struct Prolonged {
  Call call = {};
  Time expires_at{};
};
using Step = std::variant<Settled, Carried, Prolonged>;
const Call& call_of(const Step& step);

// One lease from its grant on; its steps in the order in which they began.
struct Tenure {
  Epoch epoch{};
  Call granted = {};
  Time expires_at{};
  std::vector<Step> steps = {};
};

struct LaneName {
  std::string queue = {};
  std::optional<std::string> key = {};
  MessageId unkeyed{};  // the message that stands alone

  friend auto operator<=>(const LaneName&, const LaneName&) = default;
};

class Evidence {
 public:
  explicit Evidence(const std::deque<Recorder::Log>& logs);

  std::map<MessageId, Fate> fates = {};
  std::map<LaneName, std::vector<MessageId>> messages = {};  // of each lane
  std::map<LaneName, std::map<Epoch, Tenure>> lanes = {};
  std::vector<Recorder::Applied> sends = {};  // transactions that send, by the begin of the call
  std::vector<Recorder::Counted> counts = {};

 private:
  void add(const Recorder::Applied& applied);
  void add(const Recorder::Leased& leased);
  void add(const Recorder::PulledMore& pulled);
  void add(const Recorder::Renewed& renewed);
  void add(const Recorder::Counted& counted) { counts.push_back(counted); }
  void add_fates();
  void add_ends();
  Tenure& tenure(const Token& token);

  std::vector<Recorder::Applied> transactions_;
  std::map<std::pair<std::string, std::string>, MessageId> names_;
  std::map<Epoch, LaneName> lane_of_;
};

// Replays a lane by its epochs: I2, I3, I8, and that nothing comes back after its end (I4).
void check_lane(const LaneName& name, const std::map<Epoch, Tenure>& tenures,
                const std::vector<MessageId>& messages, std::map<MessageId, Fate>& fates,
                std::uint32_t max_attempts);

}  // namespace strand::model
