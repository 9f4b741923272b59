#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/assert.h"
#include "store/engine/engine.h"
#include "store/engine/nodes.h"
#include "store/engine/queue.h"
#include "store/engine/records.h"
#include "store/engine/topic_trie.h"

namespace strand::engine {

// A message about to come into a queue, beside its content.
struct Arrival {
  std::string_view label = {};
  const std::optional<std::string>* name = nullptr;
  std::optional<std::uint32_t> max_attempts = {};
  const std::optional<Address>* dead_notice_to = nullptr;
  const std::optional<std::string>* topic = nullptr;
  std::optional<MessageId> shared_body = {};  // then content.body is not looked at
  std::uint32_t shared_body_bytes = 0;
  bool notice = false;
};

// How a message left.
enum class End : std::uint8_t { acked, expired, cancelled, purged, dead };

// What is known of an instance. Those with an open execution are always in memory; others only
// while what was decided about them is not written yet.
struct InstanceState {
  InstanceRecord record;
  bool exists = false;
  CommitNumber touched = 0;
};

struct ClientState {
  std::uint64_t lowest_unanswered = 0;
  Time forget_at{};
  std::map<std::uint64_t, ReceiptRecord> receipts;
};

struct RequestState {
  Time forget_at{};
  std::vector<Epoch> leases;
  std::size_t live = 0;
};

struct TopicState {
  struct Retained {
    MessageId id{};
    Time at{};
  };
  TopicSettings settings;
  std::deque<Retained> retained;
  std::optional<Time> timer;  // as registered
};

// What a transaction will do, found out by checking it: after that, nothing can fail.
struct Plan {
  struct Settling {
    LeaseNode* lease = nullptr;
    const Settle* settle = nullptr;
  };
  std::vector<Settling> settles;
  std::vector<MessageNode*> outcomes;  // of all settles, in order
  // Instances whose histories change, with the leases that allow it.
  struct Instance {
    std::string key;
    LeaseNode* lease = nullptr;
    InstanceState before;
    InstanceState after;  // number, length and outcome only
  };
  std::vector<Instance> instances;
};

// Which sends and publications of a transaction, by index, add nothing.
struct Duplicates {
  std::unordered_set<std::size_t> sends;
  std::unordered_set<std::size_t> publishes;

  [[nodiscard]] bool send(std::size_t index) const { return sends.contains(index); }
  [[nodiscard]] bool publish(std::size_t index) const { return publishes.contains(index); }
};

// The engine's state and rules; see Engine. One class in several files, by subject:
//
//   state.cc    numbers, decisions, look-ups        lease.cc    granting, pulling, renewing
//   move.cc     linking messages and lanes          settle.cc   outcomes, expiry, parking
//   end.cc      how messages leave, notices         send.cc     acceptance, dedup, publish
//   apply.cc    transactions: check, then do        history.cc  histories and records
//   due.cc      what time brings                    admin.cc    administration
//   receipts.cc transaction and request ids         load.cc     reading a store
//   look.cc     stats, peek, lists
class Engine::State {
 public:
  State(const Limits& limits, const Archive& archive)
      : limits_(limits), archive_(archive), bodies_in_memory_(archive.in_memory()) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<void> load(Time wall, const Identity& identity, CommitNumber commit_after, Loading why);
  Result<Receipt> apply(const Transaction& transaction, Time now);
  Result<std::vector<Grant>> lease(const LeaseRequest& request, Time now);
  Result<PullGrant> pull(const Token& token, Cursor cursor, PullLimits limits, Time now);
  Result<Time> renew(const Token& token, Duration lease, Time now);
  void advance(Time now);
  bool advance(Time now, std::size_t items_max);
  [[nodiscard]] std::optional<Time> next_due() const;
  [[nodiscard]] bool has_decisions() const;
  [[nodiscard]] CommitNumber gathering() const { return last_commit_ + 1; }
  Decisions take();
  void written(CommitNumber commit);
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] CommitNumber loaded_commit() const { return loaded_commit_; }

  [[nodiscard]] Result<QueueStats> stats(std::string_view name) const;
  [[nodiscard]] std::vector<QueueInfo> queues() const;
  [[nodiscard]] std::vector<Subscription> subscriptions() const;
  [[nodiscard]] std::vector<Topic> topics() const;
  [[nodiscard]] Result<Page<PeekedEntry>> peek(const PeekQuery& query) const;
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }
  void set_free_bytes(std::optional<std::uint64_t> bytes) { free_bytes_ = bytes; }
  [[nodiscard]] bool is_current(const Token& token) const;

 private:
  // While one lives, a lane may be changed; at the end of the outermost, its counts, its turn in
  // the ready order, its timers and its entry are brought up to date. An empty lane is gone then.
  class LaneEdit {
   public:
    LaneEdit(State& state, Lane& lane) : state_(state), lane_(lane) {
      if (lane_.edits++ == 0) state_.untally(lane_);
    }
    ~LaneEdit() {
      if (--lane_.edits == 0) state_.refresh(lane_);
    }
    LaneEdit(const LaneEdit&) = delete;
    LaneEdit& operator=(const LaneEdit&) = delete;

   private:
    State& state_;
    Lane& lane_;
  };

  // --- state.cc ---
  std::uint64_t next_number();
  Turn next_turn();
  template <class Value>
  void put(Family family, std::string_view key, const Value& value) {
    scratch_.clear();
    encode(value, scratch_);
    decisions_.mutations.put(family, key, scratch_);
  }
  void erase(Family family, std::string_view key) { decisions_.mutations.erase(family, key); }
  CountersRecord& count(Queue& queue);
  void raise_low_water();
  // What one more message takes of memory, by estimate; `bytes` are its body and headers.
  [[nodiscard]] std::size_t memory_of(std::size_t bytes) const {
    return sizeof(MessageNode) + (bodies_in_memory_ ? bytes : 0);
  }
  [[nodiscard]] std::size_t cost(const Content& content) const;
  void wake(Queue& queue);
  void wake(LeaseNode& lease);
  Queue* find_queue(std::string_view name) const;
  Result<Queue*> known_queue(std::string_view name) const;
  Queue& ensure_queue(std::string_view name);
  void persist(const Queue& queue);
  Token seal(const LeaseNode& lease) const;
  Result<LeaseNode*> find_lease(const Token& token) const;

  // --- move.cc ---
  Lane* find_lane(Queue& queue, std::string_view key) const;
  Lane& ensure_lane(Queue& queue, std::string_view key);
  void tally(Lane& lane, std::uint64_t sign);
  void untally(Lane& lane) { tally(lane, ~std::uint64_t{0}); }
  void tally_unkeyed(MessageNode& message, std::uint64_t sign);
  void refresh(Lane& lane);
  void list(Lane& lane);
  void list_unkeyed(MessageNode& message);
  void unlist(ReadyEntry& entry, Queue& queue);
  ReadyIndex& index_for(Lane& lane);
  void set_timers(Lane& lane);
  void set_wake_timer(Queue& queue);
  void persist(Lane& lane);
  void destroy(Lane& lane);
  void link(MessageNode& message);
  void unlink(MessageNode& message);
  void clear_backoff(MessageNode& message);
  void set_label(Lane& lane, std::string_view label);

  // --- lease.cc ---
  LeaseNode& new_lease(Queue& queue, Lane* lane, Duration length);
  Result<std::vector<Grant>> lease_ready(Queue& queue, const LeaseRequest& request);
  Result<std::vector<Grant>> lease_key(Queue& queue, const LeaseRequest& request);
  ReadyEntry* pick(Queue& queue, const LeaseRequest& request);
  bool visible_to(const Lane& lane, const LeaseRequest& request) const;
  LeaseNode* grant_lane(Lane& lane, const LeaseRequest& request, PullLimits& left, bool first);
  LeaseNode* grant_unkeyed(MessageNode& message, const LeaseRequest& request, PullLimits& left,
                           bool first);
  std::size_t carry_visible(LeaseNode& lease, std::uint64_t pull, PullLimits& left,
                            bool first_fits);
  void carry(LeaseNode& lease, MessageNode& message, std::uint64_t pull);
  Grant grant(LeaseNode& lease);
  void persist(const LeaseNode& lease);
  void set_expiry(LeaseNode& lease, Time expires_at);
  void end_lease(LeaseNode& lease);
  void release_all(LeaseNode& lease);
  void revoke(LeaseNode& lease);

  // --- settle.cc ---
  void settle(LeaseNode& lease, const Settle& settle, MessageNode* const* outcomes);
  void take_outcome(MessageNode& message, const Outcome& outcome);
  void give_back(MessageNode& message);
  void persist_state(MessageNode& message);
  void add_failure(MessageNode& message, std::string_view reason);
  void fail(MessageNode& message, std::string_view reason, std::optional<Duration> delay,
            bool expiry);
  [[nodiscard]] bool exhausted(const MessageNode& message) const;
  [[nodiscard]] static Duration backoff(const MessageNode& message);
  void expire_lease(LeaseNode& lease);
  void park(Lane& lane, std::string_view reason);
  void park_unkeyed(MessageNode& message, std::string_view reason);

  // --- end.cc ---
  void end(MessageNode& message, End how, std::string_view reason = {});
  void end_expired(MessageNode& message);
  void bury(MessageNode& message, std::string_view reason);
  void erase_body(MessageNode& message);
  void release_shared(MessageId body);
  void forget(MessageNode& message);
  void send_notice(const MessageNode& message, End how, std::string_view reason);

  // --- send.cc ---
  MessageNode& accept(Queue& queue, const Content& content, const Arrival& arrival);
  MessageNode& accept_node(Queue& queue, MessageId id, const MessageRecord& record);
  void add_extras(MessageNode& message, const MessageRecord& record);
  void prefetch(const std::vector<Send>& sends);
  Sent send(const Send& send);
  Published publish(const Publish& publish);
  void deliver(Queue& queue, const Content& content, const Arrival& arrival);
  void retain(const Publish& publish, MessageId id);
  void remember_dedup(std::string key, MessageId first, Duration window);
  [[nodiscard]] const DedupRecord* find_dedup(const std::string& key) const;
  void set_retention_timer(const std::string& topic, TopicState& state);
  void trim_retained(const std::string& topic, TopicState& state);

  // --- apply.cc ---
  Result<void> check(const Transaction& transaction, Plan& plan);
  Result<void> check_settles(const Transaction& transaction, Plan& plan);
  Result<void> check_disk(const Transaction& transaction) const;
  Result<void> check_sends(const Transaction& transaction, const Plan& plan) const;
  Result<void> check_room(const Transaction& transaction, const Duplicates& duplicates) const;
  Result<void> check_names(const Transaction& transaction, const Plan& plan,
                           const Duplicates& duplicates) const;
  Result<void> check_lengths(const Transaction& transaction, const Plan& plan,
                             const Duplicates& duplicates) const;
  std::unordered_set<const MessageNode*> find_ended(const Transaction& transaction,
                                                    const Plan& plan) const;
  Duplicates find_duplicates(const Transaction& transaction) const;
  Receipt perform(const Transaction& transaction, Plan& plan);
  bool cancel(const Cancel& cancel);

  // --- history.cc ---
  Result<void> check_histories(const Transaction& transaction, Plan& plan);
  Result<Plan::Instance*> plan_instance(const Token& token, Plan& plan);
  Result<InstanceState> find_instance(const std::string& key) const;
  Result<void> check_append(const Append& append, Plan::Instance& instance) const;
  static Result<void> check_trim(const TrimHistory& trim, const Plan::Instance& instance);
  void perform_histories(const Transaction& transaction, Plan& plan);
  void append(const Append& append, Plan::Instance& instance);
  void trim_history(const TrimHistory& trim, Plan::Instance& instance);
  void remove_history(const RemoveHistory& removal, Plan::Instance& instance);
  void keep_instance(const std::string& key, InstanceState state);
  InstanceState* open_instance(QueueId queue, std::string_view key);
  Result<void> check_records(const Transaction& transaction) const;
  Result<Version> record_version(const std::string& key) const;
  Version write_record(const WriteRecord& write);

  // --- receipts.cc ---
  Result<std::optional<Receipt>> find_receipt(const Transaction& transaction) const;
  Result<void> check_transaction_id(const TransactionId& id) const;
  void store_receipt(const Transaction& transaction, const Receipt& receipt);
  void forget_receipts_below(std::uint64_t client, ClientState& state, std::uint64_t lowest);
  void remember_request(const RequestId& request, const std::vector<Grant>& grants);
  void request_lease_ended(const LeaseNode& lease);
  std::vector<Grant> repeat_request(const RequestState& request);
  void forget_due_ids();

  // --- due.cc ---
  void apply_due();
  void wake_due();
  void wake_lane(Lane& lane);
  void wake_unkeyed(Queue& queue);
  void end_due_hints();

  // --- admin.cc ---
  Result<std::uint64_t> administer(const Administration& operation);
  Result<std::uint64_t> run(const ConfigureQueue& op);
  Result<std::uint64_t> run(const PauseQueue& op);
  Result<std::uint64_t> run(const ResumeQueue& op);
  Result<std::uint64_t> run(const ResumeLane& op);
  Result<std::uint64_t> run(const PurgeQueue& op);
  Result<std::uint64_t> run(const RemoveQueue& op);
  Result<std::uint64_t> run(const Redrive& op);
  Result<std::uint64_t> run(const DropDead& op);
  Result<std::uint64_t> run(const Subscribe& op);
  Result<std::uint64_t> run(const Unsubscribe& op);
  Result<std::uint64_t> run(const ConfigureTopic& op);
  Result<std::vector<DeadEntry>> find_dead(Queue& queue, const std::vector<MessageId>& ids) const;
  void redrive_here(Queue& queue, MessageId id, DeadEntry& entry);
  void redrive_there(Queue& from, Queue& to, MessageId id, DeadEntry& entry);
  Result<void> read_bodies(std::vector<DeadEntry>& entries,
                           const std::vector<MessageId>& ids) const;
  Result<void> check_new_queue(std::string_view name) const;
  void erase_dead(Queue& queue, MessageId id, const DeadEntry& entry);
  struct Backlog {
    std::string topic;
    MessageId id{};
    PublicationRecord publication;
  };
  Result<std::vector<Backlog>> find_backlog(const Subscribe& op) const;
  // What of a queue is on disk only.
  struct OnDisk {
    std::vector<std::pair<MessageId, DeadEntry>> dead;
    std::vector<std::uint64_t> instances;
  };
  Result<OnDisk> find_on_disk(Queue& queue) const;
  void foresee_dead(const Queue& queue, OnDisk& found) const;
  std::uint64_t empty_queue(Queue& queue);
  void erase_on_disk(Queue& queue, const OnDisk& found);
  void erase_ids(Queue& queue);

  // --- load.cc ---
  Result<void> load_meta(Time wall, const Identity& identity, CommitNumber commit_after);
  Result<void> load_queues();
  Result<void> load_topics();
  Result<void> load_instances();
  Result<void> load_messages();
  Result<void> load_states();
  Result<void> load_lanes();
  Result<void> load_leases(Time opened_at, Loading why);
  Result<void> load_ids();
  Result<void> load_pins();
  Result<void> load_dedup();
  void link_loaded();
  void list_loaded();
  template <class Read>
  Result<void> each(Family family, const Read& read, std::string_view first = {}) const;

  // --- look.cc ---
  [[nodiscard]] MessageState state_of(const MessageNode& message) const;
  [[nodiscard]] PeekedEntry look(const MessageNode& message) const;
  [[nodiscard]] std::uint64_t behind_block(const Lane& lane) const;

  const Limits limits_;
  const Archive& archive_;
  const bool bodies_in_memory_;

  MetaRecord meta_;
  std::uint64_t next_number_ = 1;
  Time now_{};
  Time wanted_{};            // the latest time that anybody has asked for; see advance()
  std::size_t applied_ = 0;  // things that were due and have happened
  Turn last_turn_ = 0;
  CommitNumber last_commit_ = 0;
  CommitNumber loaded_commit_ = 0;
  CommitNumber next_low_water_ = 0;  // when the low-water mark is looked at again
  Decisions decisions_;
  std::vector<Queue*> counters_changed_;
  std::vector<Queue*> woken_queues_;
  std::string scratch_;
  std::vector<std::pair<Lane*, std::uint8_t>> prefetched_;
  std::size_t memory_bytes_ = 0;
  std::optional<std::uint64_t> free_bytes_;  // of the disk
  // While a store is read, nothing is listed as ready: turns are given at the end, by place.
  bool loading_ = false;
  std::optional<Time> loading_turn_;
  boost::unordered_flat_map<std::uint64_t, MessageNode*> loaded_;
  const Queue* removing_ = nullptr;  // a notice into it would have no place to go to
  // Why the lane that is being settled has to be parked when its lease has ended.
  std::optional<std::string> park_wanted_;

  std::unordered_map<std::string, std::unique_ptr<Queue>, TransparentHash, std::equal_to<>> queues_;
  std::unordered_map<std::uint32_t, Queue*> queues_by_id_;
  boost::unordered_flat_map<std::uint64_t, std::unique_ptr<LeaseNode>> leases_;
  std::unordered_map<std::uint64_t, std::uint32_t> shared_bodies_;  // how many share each

  std::unordered_map<std::string, InstanceState> instances_;  // by lane_key
  std::deque<std::pair<CommitNumber, std::string>> closed_instances_;
  std::unordered_map<std::string, std::pair<Version, CommitNumber>> recent_records_;
  std::deque<std::pair<CommitNumber, std::string>> recent_record_order_;

  std::unordered_map<std::string, DedupRecord> dedup_;
  std::unordered_map<std::uint64_t, ClientState> clients_;
  std::size_t receipt_count_ = 0;
  std::map<RequestId, RequestState> requests_;

  std::map<std::string, TopicState, std::less<>> topics_;
  TopicTrie subscriptions_;

  // Timers. Ties are broken by what is the same in every run, never by addresses.
  struct Waker {
    Lane* lane = nullptr;
    Queue* queue = nullptr;
  };
  std::map<std::pair<Time, MessageId>, Waker> wakes_;
  std::map<std::tuple<Time, QueueId, std::string>, Lane*> hint_ends_;
  std::map<std::pair<Time, Epoch>, LeaseNode*> lease_ends_;
  std::map<std::pair<Time, MessageId>, MessageNode*> ttl_ends_;
  std::multimap<Time, std::string> dedup_ends_;
  std::multimap<Time, std::pair<std::uint64_t, std::uint64_t>> receipt_ends_;
  std::multimap<Time, std::uint64_t> client_ends_;
  std::multimap<Time, RequestId> request_ends_;
  std::set<std::pair<Time, std::string>> retention_ends_;
};

}  // namespace strand::engine
