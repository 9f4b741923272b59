#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/limits.h>
#include <strand/store.h>

#include "model/violation.h"

namespace strand::model {

// The model's own number of a message, in the order in which messages came to be. The store's ids
// must grow in the same order; some are seen only later (copies of a publication, notices).
using Uid = std::uint64_t;

// One message and all that happened to it.
struct Item {
  Uid uid = 0;
  Message message;    // id 0: not seen yet
  std::string label;  // that it brought
  std::optional<std::uint32_t> max_attempts;
  std::optional<Address> notice_to;
  bool notice = false;           // of the end of another message
  std::optional<Time> retry_at;  // in backoff until then
  bool blocks = false;           // … and holds back what is behind it
  std::vector<Failure> failures;
  Epoch holder{};  // the lease that carries it; 0: none

  // S3: its place in the lane.
  [[nodiscard]] std::pair<Time, Uid> place() const { return {message.due, uid}; }
};

// A keyed lane, or one unkeyed message.
struct LaneKey {
  std::optional<std::string> key;
  Uid uid = 0;  // of the message, if it is unkeyed

  friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
};

struct Hint {
  std::string owner;
  Time until;
  Duration grace;
};

// Since when a lane is ready, and its turn among lanes of equal priority.
struct Turn {
  Time since;
  std::uint64_t order = 0;
};

struct LaneState {
  std::vector<Item> items;  // in order of place
  std::string label;
  std::optional<std::string> parked;  // the reason
  bool isolate = false;               // the next lease carries one message
  std::optional<Hint> hint;
  Epoch holder{};
  bool changes_hands = false;  // between two holders: not to be forgotten
  std::optional<Turn> turn;    // ready: visible messages, not leased, not parked
  std::set<Uid> offered;       // visible to the holder, who has been told
};

struct DeadItem {
  Item item;
  std::optional<std::string> key;
  Time dead_at;
  std::string reason;
};

struct ExecutionState {
  Execution execution;
  std::vector<Bytes> events;
};

struct Dedup {
  MessageId id{};
  Time until;
};

struct QueueState {
  QueueSettings settings;
  bool paused = false;
  std::uint64_t accepted = 0, acked = 0, expired = 0, dropped = 0, moved = 0, purged = 0;
  std::map<LaneKey, LaneState> lanes;
  std::map<Uid, DeadItem> dead;
  std::map<std::string, Dedup> dedup;
  std::optional<std::string> pattern;                                        // subscribed
  std::map<std::string, std::map<std::uint64_t, ExecutionState>> instances;  // by key, number
  std::uint64_t granted = 0;                                                 // S13
};

// A lease.
struct Hold {
  Token token;
  std::string queue;
  LaneKey lane;
  Time expires_at;
  bool isolated = false;
  bool graced = false;  // has had its 10 s after an open
  Cursor cursor{};
  std::optional<Cursor> cursor_before;  // of the last pull that added something
  std::vector<Uid> last_pull;
};

struct Publication {
  std::string topic;
  Content content;
  Time published_at;
};

struct ClientState {
  std::uint64_t lowest_unanswered = 0;
  // When the last of its ids is out of the window, a client may be forgotten, and need not be.
  Time latest{};
  std::uint64_t lowest_perhaps = 0;
  struct Stored {
    std::string content;
    Time time;
    Receipt receipt;
  };
  std::map<std::uint64_t, Stored> receipts;
};

struct RememberedRequest {
  Time until;
  std::vector<Epoch> epochs;
};

// What clients have been shown, whatever became of it: crashes do not undo it.
struct Seen {
  std::set<Token> tokens;
  std::map<MessageId, std::string> bodies;
  Epoch epoch_max{};
  Version version_max{};
};

// What has changed so that somebody may wait for it (see Watch).
struct Stirred {
  std::set<std::pair<std::string, LaneKey>> lanes;  // became ready
  std::set<std::string> queues;                     // resumed
  std::set<Epoch> holds;                            // ended, or their lane has more
  std::set<std::pair<std::string, std::string>> records;
};

// The request cannot be granted: the model's own errors. Some rules leave two codes open.
struct Refused {
  Errc code;
  std::string why;
  std::optional<Errc> or_code = {};
};

// The rules of docs/semantics.md once more, as plainly as they can be written: linear scans and
// standard containers, no indexes, no caches.
//
// Every call takes the store's own answer, checks it, and follows it where the rules leave a
// choice or where the store draws numbers (ids, epochs, versions, cursors). An answer that no
// reading of the rules allows is a Violation. Copies are independent of each other, except that
// they share what has been shown.
class State {
 public:
  explicit State(const Limits& the_limits);

  // --- Calls (time.cc, apply.cc, lease.cc) ---

  void advance(Time to);
  // The clock is there already; the store still has something to do before.
  void wants(Time time) { wanted_ = std::max(wanted_, time); }
  void apply(const Transaction& transaction, Time at, const Result<Receipt>& seen);
  // Returns the whole answer that was due, with bodies and headers.
  std::vector<Lease> lease(const LeaseRequest& request, Time at,
                           const Result<std::vector<Lease>>& seen);
  Pulled pull(const Token& token, Cursor cursor, PullLimits limits, Time at,
              const Result<Pulled>& seen);
  void renew(const Token& token, Duration lease, Time at, const Result<Time>& seen);
  // The store was read anew: order of ready lanes, S13's count, grace of leases.
  void reload(Time at, bool opened);

  // --- Reads (reads.cc) ---

  [[nodiscard]] Result<QueueStats> stats(std::string_view queue) const;
  [[nodiscard]] std::vector<QueueInfo> queue_infos() const;
  [[nodiscard]] std::vector<Subscription> subscriptions() const;
  [[nodiscard]] std::vector<Topic> topics() const;
  // Checks the page and learns the ids in it. `seen` may lack what the store keeps on disk (bodies,
  // headers, times); the page returned has it.
  Result<Page<PeekedMessage>> peek(const PeekQuery& query, const Result<Page<PeekedMessage>>& seen,
                                   std::vector<std::pair<Uid, MessageId>>& learned);
  // With the model's number of each letter.
  struct DeadPage {
    Page<DeadLetter> page;
    std::vector<Uid> uids;
  };
  [[nodiscard]] Result<DeadPage> dead_letters(const DeadLettersQuery& query) const;
  [[nodiscard]] Result<History> history(const HistoryQuery& query) const;
  [[nodiscard]] Result<Page<Execution>> instances(const InstancesQuery& query) const;
  [[nodiscard]] std::optional<Record> record(const std::string& space,
                                             const std::string& key) const;
  [[nodiscard]] Page<Record> read_records(const RecordsQuery& query) const;
  // What a lease of that lane brings along for `history_from` and `history_limit`.
  [[nodiscard]] History current_history(const LeaseRequest& request, const std::string& key) const;

  // What there is to read.
  [[nodiscard]] std::map<std::string, std::vector<std::uint64_t>> executions(
      const std::string& queue) const;
  [[nodiscard]] std::set<std::string> spaces() const;

  // Where there are live messages whose ids have not been seen.
  [[nodiscard]] std::vector<std::string> queues_with_unseen_ids() const;

  // All messages, for people.
  [[nodiscard]] std::string dump() const;

  // The next instant at which anything changes by itself.
  [[nodiscard]] std::optional<Time> next_due() const;
  [[nodiscard]] Time now() const { return now_; }
  // When the last transaction was accepted: no open may be earlier.
  [[nodiscard]] Time accepted_at() const { return accepted_at_; }
  [[nodiscard]] std::uint64_t live_messages() const;
  [[nodiscard]] std::size_t lane_count() const;
  [[nodiscard]] bool exists_live(MessageId id) const;
  [[nodiscard]] bool is_current(const Token& token) const;
  [[nodiscard]] bool is_ready(const std::string& queue, const LaneKey& key) const;
  [[nodiscard]] bool has_ready(const std::string& queue) const;
  // Checks S16, S2 and the like on the model's own state: the rules themselves must hold them.
  void check_itself() const;
  // The message has this id, if there is such a message.
  void learn(Uid uid, MessageId id);

  Stirred stirred;
  std::shared_ptr<Seen> shown = std::make_shared<Seen>();
  // Goes once more through calls that were checked before: what has been shown since then does not
  // count against them.
  bool replaying = false;

 private:
  // --- Lanes (lanes.cc) ---

  QueueState& queue_at(const std::string& queue);
  QueueState& existing(const std::string& queue);
  LaneState& lane_at(QueueState& queue, const LaneKey& key);
  LaneState* find_lane(const std::string& queue, const LaneKey& key);
  Item& item_at(LaneState& lane, Uid uid);
  void insert(LaneState& lane, Item item);
  // Takes the item out of its lane.
  Item take(LaneState& lane, Uid uid);
  // Items that a lease could carry now, in order. Those that a lease does carry are left out.
  [[nodiscard]] std::vector<const Item*> visible(const LaneState& lane) const;
  [[nodiscard]] MessageState state_of(const LaneState& lane, const Item& item) const;
  [[nodiscard]] static ExecutionState* open_execution(QueueState& queue, const std::string& key);
  // Forgets a lane of which nothing is left.
  void tidy(const std::string& queue, const LaneKey& key);
  // Finds which lanes have become ready, or are not any more.
  void refresh();
  void refresh(const std::string& queue);
  void refresh_lane(const std::string& queue, const LaneKey& key);
  void offer(LaneState& lane);
  [[nodiscard]] std::uint64_t live_in(const QueueState& queue) const;

  // Gives a message the id that the store shows for it, and checks that ids grow.
  void bind(Item& item, MessageId id);
  void note_id(Uid uid, MessageId id);

  // --- Ends (ends.cc) ---

  void charge(Item& item, const std::string& reason);
  // Whether its TTL has ended.
  [[nodiscard]] bool is_over(const Item& item) const;
  // Whether the last failure was one too many.
  [[nodiscard]] static bool exhausted(const QueueState& queue, const Item& item);
  void bury(const std::string& queue, const LaneKey& key, Uid uid, const std::string& reason,
            const std::string& end);
  void expire(const std::string& queue, const LaneKey& key, Uid uid);
  void send_notice(const std::string& queue, const Item& item, const std::string& end,
                   const std::string& reason);
  // No longer carried; ends here if its TTL is over.
  void give_back(const std::string& queue, const LaneKey& key, Uid uid);
  // Ends a lease, giving back what it carries.
  void end_hold(Epoch epoch);
  [[nodiscard]] std::vector<Uid> carried(const Hold& hold);

  // --- Time (time.cc) ---

  // What happens at now_.
  void happen();
  void become_visible();
  void end_hints();
  void expire_lease(Epoch epoch);
  // Drops what topics have retained for long enough.
  void forget_publications();

  // --- Transactions (apply.cc, settle.cc, send.cc, history.cc, admin.cc) ---

  void perform(const Transaction& transaction, const Receipt* seen);
  // Does one part. While reasons to fail are looked for, a refusal is noted and the next part
  // tried.
  template <class Part>
  void attempt(const Part& part) {
    if (refusals_ == nullptr) return part();
    try {
      part();
    } catch (const Refused& refused) {
      refusals_->push_back(refused);
    }
  }
  // A reason to fail that does not keep the part from being tried further.
  void refuse(const Refused& reason) {
    attempt([&] { throw Refused(reason); });
  }
  bool perform_known(const Transaction& transaction, const Receipt* seen);
  void remember(const Transaction& transaction, const Receipt& receipt);
  Hold& current(const Token& token);
  void settle(const Settle& settle);
  // False: the lane was parked and the lease is over.
  bool settle_one(const Hold& hold, const Outcome& outcome);
  bool fail(const Hold& hold, Uid uid, const Outcome& outcome);
  bool cancel(const Cancel& cancel);
  void foresee(const Transaction& transaction);
  Sent send(const Send& send, const Sent* seen);
  Published publish(const Publish& publish, const Published* seen);
  // One copy of a publication; dead-lettered if the queue is full.
  void deliver_copy(const std::string& queue, const std::string& topic, const Content& content,
                    Duration delay);
  Item new_item(const Content& content, const QueueSettings& settings, Duration delay);
  void accept(const std::string& queue, const std::optional<std::string>& key,
              const std::string& label, Item item);
  Version write(const WriteRecord& write, const Version* seen);
  void remove_history(const RemoveHistory& removal);
  void trim_history(const TrimHistory& trim);
  void append(const Append& append);

  std::uint64_t administer(const Administration& administration);
  std::uint64_t administer(const ConfigureQueue& x);
  std::uint64_t administer(const PauseQueue& x);
  std::uint64_t administer(const ResumeQueue& x);
  std::uint64_t administer(const ResumeLane& x);
  std::uint64_t administer(const PurgeQueue& x);
  std::uint64_t administer(const RemoveQueue& x);
  std::uint64_t administer(const Redrive& x);
  std::uint64_t administer(const DropDead& x);
  std::uint64_t administer(const Subscribe& x);
  std::uint64_t administer(const Unsubscribe& x);
  std::uint64_t administer(const ConfigureTopic& x);
  void redrive_home(const std::string& queue, Uid uid);
  void redrive_to(const std::string& queue, Uid uid, const std::string& to);
  Uid dead_by_id(const QueueState& queue, MessageId id);

  // --- Leasing (lease.cc) ---

  struct Budget {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    bool first = true;  // the first message of a request always fits
    bool take(const Item& item);
    [[nodiscard]] bool fits(const Item& item) const;
  };
  std::vector<Lease> lease_known(const LeaseRequest& request, const std::vector<Lease>& seen,
                                 const RememberedRequest& remembered);
  std::vector<Lease> lease_key(const LeaseRequest& request, const std::vector<Lease>& seen);
  std::vector<Lease> lease_next(const LeaseRequest& request, const std::vector<Lease>& seen);
  Lease seize(const LeaseRequest& request, const std::vector<Lease>& seen);
  [[nodiscard]] bool eligible(const LaneState& lane, const LeaseRequest& request) const;
  // The lanes of which one must be served next.
  [[nodiscard]] std::vector<LaneKey> next_lanes(const QueueState& queue,
                                                const LeaseRequest& request) const;
  LaneKey identify(const std::string& queue, const Lease& seen,
                   const std::vector<LaneKey>& candidates);
  Lease grant(const LeaseRequest& request, const LaneKey& key, Budget& budget, const Lease& seen);
  // Compares the messages of an answer with those that were due, and learns their ids.
  void match_messages(const std::string& queue, const std::vector<Uid>& due, LaneState& lane,
                      const std::vector<Message>& seen);
  [[noreturn]] void explain_mismatch(const std::string& queue, const LaneState& lane,
                                     const std::vector<Uid>& due, const std::vector<Message>& seen);
  Lease describe(const Hold& hold, const std::vector<Uid>& uids);

  Limits limits_;
  Time now_{};
  Time wanted_{};
  Time accepted_at_{};
  std::map<std::string, QueueState> queues_;
  std::map<Epoch, Hold> holds_;
  std::map<RequestId, RememberedRequest> requests_;
  std::map<std::pair<std::string, std::string>, std::pair<Version, Bytes>> records_;
  std::map<std::string, TopicSettings> topics_;
  std::vector<Publication> retained_;
  std::map<std::pair<std::string, std::string>, Dedup> topic_dedup_;
  std::map<std::uint64_t, ClientState> clients_;
  std::vector<Refused>* refusals_ = nullptr;
  // What the sends of the transaction under way find in each queue.
  struct Room {
    std::uint64_t live = 0;
    std::set<std::string> names;
  };
  std::map<std::string, Room> rooms_;
  std::optional<std::string> removing_;  // notices into this queue are not sent
  Uid next_uid_ = 1;
  std::uint64_t next_order_ = 1;
  std::vector<std::pair<Uid, MessageId>> ids_;  // all that have been seen, by uid
  Epoch epoch_max_{};
  Version version_max_{};
};

// Checks of a request alone (validate.cc); throw Refused.
void validate(const Transaction& transaction, const Limits& limits);
void validate_settled_once(const Transaction& transaction);
void validate(const LeaseRequest& request, const Limits& limits);
void validate(const PullLimits& pull, const Limits& limits);
void validate_lease_length(Duration lease, const Limits& limits);

// Whether a topic matches a pattern of a subscription.
bool matches(std::string_view pattern, std::string_view topic);

// Of a message, as limits count them.
std::uint64_t bytes_of(const Message& message);

}  // namespace strand::model
