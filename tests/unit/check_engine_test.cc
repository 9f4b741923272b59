#include <chrono>
#include <cstdlib>
#include <random>

#include "unit/check_fixture.h"

// What the engine itself writes is clean, whatever it was asked to do.

namespace strand {

using namespace std::chrono_literals;

namespace {

// Does something random at each step: most of what the contract offers, on few names, so that
// things meet.
class Someone {
 public:
  Someone(QuietStore& store, std::uint64_t seed) : store_(store), random_(seed) {}

  // Returns what was done, for the message of a failed test.
  std::string act() {
    using Step = std::string (Someone::*)();
    static constexpr Step steps[] = {&Someone::send,
                                     &Someone::send,
                                     &Someone::send,
                                     &Someone::publish,
                                     &Someone::lease,
                                     &Someone::lease,
                                     &Someone::lease,
                                     &Someone::settle_one,
                                     &Someone::settle_one,
                                     &Someone::settle_one,
                                     &Someone::pull,
                                     &Someone::renew,
                                     &Someone::cancel,
                                     &Someone::append,
                                     &Someone::append,
                                     &Someone::trim_history,
                                     &Someone::remove_history,
                                     &Someone::record,
                                     &Someone::administer_queue,
                                     &Someone::administer_dead,
                                     &Someone::administer_topic,
                                     &Someone::wait,
                                     &Someone::wait,
                                     &Someone::reopen};
    return (this->*steps[below(std::size(steps))])();
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool once_in(std::uint64_t times) { return below(times) == 0; }
  std::string pick(std::initializer_list<const char*> names) {
    return names.begin()[below(names.size())];
  }
  std::string queue() { return pick({"a", "b", "c", "d"}); }
  std::string key() { return pick({"k1", "k2", "k3", "k4", "k5"}); }
  std::string label() { return pick({"", "", "x", "y"}); }
  std::string topic() { return pick({"t.a", "t.b", "u"}); }
  Duration time() { return Duration{std::int64_t{1} << below(24)}; }  // up to about 4 h
  Bytes body() { return Bytes(once_in(3) ? 600 + below(100) : below(20), 'b'); }

  void fill(Content& content) {
    if (!once_in(3)) content.key = key();
    content.body = body();
    content.priority = static_cast<Priority>(below(4));
    if (once_in(3)) content.delay = time();
    if (once_in(4)) content.ttl = time();
    if (once_in(4)) content.dedup_id = pick({"d1", "d2", "d3"});
    if (once_in(4)) content.headers.push_back({.name = "h", .value = "v"});
  }
  // Many are refused, which is fine: an error leaves no trace.
  bool apply(Transaction transaction) {
    if (once_in(5)) {
      transaction.id = TransactionId{.client = 1 + below(3),
                                     .number = ++numbers_,
                                     .time = store_.now(),
                                     .lowest_unanswered = numbers_ - below(5)};
      if (transaction.id->lowest_unanswered > numbers_) transaction.id->lowest_unanswered = 0;
    }
    return store_.apply(transaction).has_value();
  }

  std::string send() {
    Transaction transaction;
    add_sends(transaction);
    apply(std::move(transaction));
    return "send";
  }
  void add_sends(Transaction& transaction) {
    for (std::uint64_t left = 1 + below(3); left > 0; --left) {
      Send message;
      fill(message);
      message.queue = queue();
      message.label = label();
      if (once_in(4)) message.name = pick({"n1", "n2", "n3"});
      if (once_in(4)) message.max_attempts = static_cast<std::uint32_t>(below(3));
      if (once_in(4)) message.dead_notice_to = Address{.queue = queue(), .key = key()};
      transaction.sends.push_back(std::move(message));
    }
  }
  std::string publish() {
    Publish message;
    fill(message);
    message.topic = topic();
    Transaction transaction;
    transaction.publishes.push_back(std::move(message));
    apply(std::move(transaction));
    return "publish";
  }
  std::string lease() {
    LeaseRequest request = from(queue());
    if (once_in(2)) request.key = key();
    request.seize = request.key && once_in(4);
    if (once_in(3)) request.request = RequestId{.client = 1, .number = below(50)};
    request.lanes = static_cast<std::uint32_t>(1 + below(3));
    request.messages = static_cast<std::uint32_t>(1 + below(4));
    if (once_in(2)) request.lease = time();
    if (auto grants = store_.lease(request)) {
      for (engine::Grant& grant : *grants)
        held_.push_back(std::move(grant));
    }
    return "lease";
  }
  engine::Grant* any_held() { return held_.empty() ? nullptr : &held_[below(held_.size())]; }

  std::string settle_one() {
    engine::Grant* grant = any_held();
    if (grant == nullptr) return "nothing to settle";
    Settle part;
    part.token = grant->token;
    part.then = static_cast<Settle::Then>(below(3));
    if (part.then == Settle::Then::park) part.park_reason = "parked";
    if (grant->key && once_in(4)) part.label = label();
    if (grant->key && once_in(4)) {
      part.owner_hint = OwnerHint{.owner = "me", .valid_for = time(), .grace = Duration{500}};
    }
    std::erase_if(grant->messages, [&](const engine::GrantedMessage& message) {
      if (once_in(4)) return false;
      const auto kind = static_cast<Outcome::Kind>(below(4));
      part.outcomes.push_back(outcome(message.id, kind));
      if (kind == Outcome::Kind::retry && once_in(2)) part.outcomes.back().delay = time();
      if (kind == Outcome::Kind::ack) part.outcomes.back().reason.clear();
      return true;
    });
    const bool kept = part.then == Settle::Then::keep;
    Transaction transaction;
    transaction.settles.push_back(std::move(part));
    if (once_in(5)) add_sends(transaction);
    if (!apply(std::move(transaction)) || !kept)
      held_.erase(held_.begin() + (grant - held_.data()));
    return "settle";
  }
  std::string pull() {
    engine::Grant* grant = any_held();
    if (grant == nullptr) return "nothing to pull";
    if (auto pulled = store_.pull(grant->token, grant->cursor)) {
      grant->cursor = pulled->cursor;
      for (const engine::GrantedMessage& message : pulled->messages)
        grant->messages.push_back(message);
    }
    return "pull";
  }
  std::string renew() {
    const engine::Grant* grant = any_held();
    const bool renewed = grant != nullptr && store_.renew(grant->token, time());
    return renewed ? "renew" : "nothing to renew";
  }
  std::string cancel() {
    Transaction transaction;
    transaction.cancels.push_back({.queue = queue(), .name = pick({"n1", "n2", "n3"})});
    apply(std::move(transaction));
    return "cancel";
  }

  std::string append() {
    const engine::Grant* grant = any_held();
    if (grant == nullptr || !grant->key) return "nothing to append to";
    const Execution last = last_execution(*grant);
    const bool open = last.number > 0 && !last.outcome;
    Append first{.token = grant->token,
                 .execution = open ? last.number : last.number + 1,
                 .expected_length = open ? last.length : 0,
                 .events = std::vector<Bytes>(below(4), "event"),
                 .close = once_in(2) ? std::optional<std::string>("done") : std::nullopt};
    Transaction transaction;
    transaction.appends.push_back(first);
    if (first.close && once_in(2)) {
      transaction.appends.push_back({.token = grant->token,
                                     .execution = first.execution + 1,
                                     .expected_length = 0,
                                     .events = {"again"},
                                     .close = std::nullopt});
    }
    apply(std::move(transaction));
    return "append";
  }
  std::string trim_history() {
    const engine::Grant* grant = any_held();
    if (grant == nullptr || !grant->key) return "no history to trim";
    const Execution last = last_execution(*grant);
    if (last.number == 0 || last.outcome) return "no open history to trim";
    Transaction transaction;
    // Now and then so many at once that they are not erased one by one.
    const std::uint64_t added = once_in(4) ? 300 : below(4);
    transaction.appends.push_back({.token = grant->token,
                                   .execution = last.number,
                                   .expected_length = last.length,
                                   .events = std::vector<Bytes>(added, "event"),
                                   .close = std::nullopt});
    transaction.trim_histories.push_back({.token = grant->token,
                                          .execution = last.number,
                                          .before = below(last.length + added + 1)});
    apply(std::move(transaction));
    return "trim history";
  }
  Execution last_execution(const engine::Grant& grant) {
    auto& backend = store_.backend();
    const auto id = backend.get(engine::Family::queue_name, grant.queue);
    if (!id || !*id) return {};
    const auto value = backend.get(engine::Family::instance, **id + *grant.key);
    if (!value || !*value) return {};
    return engine::decode<engine::InstanceRecord>(**value)->last;
  }
  std::string remove_history() {
    const engine::Grant* grant = any_held();
    if (grant == nullptr || !grant->key) return "no history to remove";
    const std::uint64_t last = last_execution(*grant).number;
    Transaction transaction;
    transaction.remove_histories.push_back(
        {.token = grant->token, .through_execution = last == 0 ? 0 : below(last)});
    if (transaction.remove_histories.front().through_execution == 0 && once_in(2)) {
      transaction.appends.push_back({.token = grant->token,
                                     .execution = 1,
                                     .expected_length = 0,
                                     .events = {"anew"},
                                     .close = std::nullopt});
    }
    apply(std::move(transaction));
    return "remove history";
  }
  std::string record() {
    Transaction transaction = write_record("s", key(), body());
    if (once_in(3)) transaction.records.front().value.reset();
    apply(std::move(transaction));
    return "record";
  }

  QueueSettings settings() {
    QueueSettings settings;
    settings.max_attempts = static_cast<std::uint32_t>(below(3));
    settings.backoff = {time()};
    settings.backoff_jitter_percent = static_cast<std::uint32_t>(below(101));
    if (once_in(3)) settings.dead_notice_to = Address{.queue = queue(), .key = key()};
    settings.retry_policy = once_in(2) ? RetryPolicy::block : RetryPolicy::skip;
    settings.on_exhausted = once_in(2) ? OnExhausted::dead : OnExhausted::park;
    if (once_in(3)) settings.ttl = time();
    settings.on_expired = once_in(2) ? OnExpired::dead : OnExpired::drop;
    settings.dedup_window = time();
    settings.max_length = once_in(3) ? 2 : 0;
    return settings;
  }
  std::string administer_queue() {
    switch (below(6)) {
      case 0:
      case 1:
        apply(administer(ConfigureQueue{queue(), settings()}));
        return "configure queue";
      case 2:
        apply(once_in(2) ? administer(PauseQueue{queue()}) : administer(ResumeQueue{queue()}));
        return "pause or resume";
      case 3:
        return resume_lane();
      case 4:
        apply(administer(PurgeQueue{queue(), once_in(2) ? std::optional(key()) : std::nullopt}));
        return "purge";
      default:
        apply(administer(RemoveQueue{queue(), !once_in(3)}));
        return "remove queue";
    }
  }
  std::string resume_lane() {
    const std::string where = queue();
    PeekQuery parked = all_of(where);
    parked.state = MessageState::parked;
    const auto found = store_.engine().peek(parked);
    if (once_in(2) && found && !found->items.empty()) {
      apply(administer(ResumeLane{where, std::nullopt, found->items.front().message.id}));
      return "resume message";
    }
    apply(administer(ResumeLane{where, key(), std::nullopt}));
    return "resume lane";
  }
  std::string administer_dead() {
    const std::string where = queue();
    const auto id = store_.backend().get(engine::Family::queue_name, where);
    if (!id || !*id) return "no such queue";
    std::vector<MessageId> ids;
    EXPECT_TRUE(store_.backend().scan(engine::Family::dead, **id, engine::behind_prefix(**id),
                                      [&](std::string_view found, auto) {
                                        if (once_in(2)) {
                                          ids.push_back(engine::decode_dead_key(found)->second);
                                        }
                                        return true;
                                      }));
    if (ids.empty()) return "no dead letters";
    if (once_in(3)) {
      apply(administer(DropDead{where, ids}));
      return "drop dead";
    }
    apply(administer(Redrive{where, ids, once_in(2) ? std::optional(queue()) : std::nullopt}));
    return "redrive";
  }
  std::string administer_topic() {
    switch (below(3)) {
      case 0:
        apply(administer(ConfigureTopic{topic(), {.retain = once_in(4) ? Duration{0} : time()}}));
        return "configure topic";
      case 1:
        apply(administer(Subscribe{queue(), pick({"t.*", "#", "u"}),
                                   once_in(2) ? std::optional(Time{}) : std::nullopt}));
        return "subscribe";
      default:
        apply(administer(Unsubscribe{queue()}));
        return "unsubscribe";
    }
  }
  std::string wait() {
    store_.advance(time());
    return "wait";
  }
  std::string reopen() {
    store_.open();
    EXPECT_TRUE(store_.opened());
    return "reopen";
  }

  QuietStore& store_;
  std::mt19937_64 random_;
  std::vector<engine::Grant> held_;
  std::uint64_t numbers_ = 0;
};

constexpr std::uint64_t runs = 30;
constexpr std::uint64_t steps = 500;

}  // namespace

// A message that outlived its TTL under a lease becomes a dead letter when the lease ends, also by
// the removal of its queue: which must then remove that dead letter too.
TEST(CheckEngine, A_removed_queue_leaves_no_dead_letter_behind) {
  QuietStore store;
  QueueSettings settings;
  settings.on_expired = OnExpired::dead;
  ASSERT_TRUE(store.apply(administer(ConfigureQueue{"orders", settings})));
  ASSERT_TRUE(store.apply(administer(Subscribe{"orders", "events", std::nullopt})));
  ASSERT_TRUE(store.apply(administer(Subscribe{"others", "events", std::nullopt})));
  Transaction transaction = send("orders", Bytes(1'000, 'x'), "k1");
  transaction.sends.front().ttl = 10s;
  Publish shared;
  shared.topic = "events";
  shared.key = "k2";
  shared.ttl = 10s;
  transaction.publishes.push_back(shared);
  ASSERT_TRUE(store.apply(transaction));
  LeaseRequest both = from("orders");
  both.lanes = 2;
  const auto leases = store.lease(both);
  ASSERT_TRUE(leases);
  ASSERT_EQ(leases->size(), 2U);
  store.advance(20s);

  ASSERT_TRUE(store.apply(administer(RemoveQueue{"orders", true})));
  const auto report = check::inspect(store.backend());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->clean()) << to_text(*report);
  EXPECT_EQ(report->family(engine::Family::dead).entries, 0U);
}

TEST(CheckEngine, Every_commit_leaves_a_clean_store) {
  const char* given = std::getenv("STRAND_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : runs); ++seed) {
    QuietStore store;
    Someone someone(store, seed);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const std::string did = someone.act();
      const auto report = check::inspect(store.backend());
      ASSERT_TRUE(report) << report.error().message;
      ASSERT_TRUE(report->clean())
          << "after step " << step << " (" << did << "), repeat with STRAND_SEED=" << seed
          << " unit_tests --gtest_filter=CheckEngine.*\n"
          << to_text(*report);
    }
  }
}

}  // namespace strand
