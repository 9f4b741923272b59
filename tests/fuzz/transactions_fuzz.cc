// Transactions of any shape: what the checks refuse the engine refuses in the same way, what they
// accept it applies or refuses with an error, and no message is lost or made by either (S16).

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "fuzz/target.h"
#include "store/check/check.h"
#include "store/contract/check.h"
#include "store/engine/reads.h"
#include "unit/check_fixture.h"

namespace strand::fuzz {

namespace {

constexpr int steps_max = 40;

// Makes requests of the input's bytes. Names are few, so that they meet each other.
class Draw {
 public:
  explicit Draw(std::string_view bytes)
      : input_(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) {}

  bool more() { return input_.remaining_bytes() > 0; }
  int below(int end) { return input_.ConsumeIntegralInRange(0, end - 1); }
  bool rarely() { return below(16) == 0; }

  // Mostly one of a few good ones, now and then anything.
  std::string name() {
    static constexpr std::array good = {"a", "b", "c", "jobs", "a.b"};
    return rarely() ? input_.ConsumeRandomLengthString(600) : good[index(good.size())];
  }
  std::string pattern() {
    static constexpr std::array good = {"a", "a.b", "a.*", "a.#", "#", "*.b"};
    return rarely() ? input_.ConsumeRandomLengthString(600) : good[index(good.size())];
  }
  Bytes body() {
    const int kind = below(8);
    if (kind == 0) return Bytes(2'000, 'x');
    return kind < 4 ? Bytes("body") : input_.ConsumeRandomLengthString(40);
  }
  Duration duration() {
    static constexpr std::array<std::int64_t, 7> good = {0,      1,         1'000,     30'000,
                                                         60'000, 3'600'000, 86'400'000};
    return Duration{rarely() ? input_.ConsumeIntegral<std::int64_t>() : good[index(good.size())]};
  }
  Duration step() { return Duration{input_.ConsumeIntegralInRange<std::int64_t>(0, 7'200'000)}; }
  std::uint64_t number() {
    return rarely() ? input_.ConsumeIntegral<std::uint64_t>()
                    : static_cast<std::uint64_t>(below(4));
  }
  template <class T>
  std::optional<T> maybe(T value) {
    return below(3) == 0 ? std::optional<T>(std::move(value)) : std::nullopt;
  }
  template <class Enum>
  Enum kind(int count) {
    return static_cast<Enum>(rarely() ? below(256) : below(count));
  }
  // An id near those that were given out.
  MessageId id(const std::vector<MessageId>& known) {
    return known.empty() || rarely() ? MessageId{number()} : known[index(known.size())];
  }
  Token token(const std::vector<engine::Grant>& grants) {
    if (grants.empty() || rarely()) return {Epoch{number()}, number(), number()};
    return grants[index(grants.size())].token;
  }
  std::size_t index(std::size_t end) {
    return input_.ConsumeIntegralInRange<std::size_t>(0, end - 1);
  }

 private:
  FuzzedDataProvider input_;
};

// A store that is given whatever is drawn.
class Run {
 public:
  explicit Run(std::string_view bytes) : draw_(bytes) {}

  void go() {
    for (int left = steps_max; left > 0 && draw_.more(); --left) {
      switch (draw_.below(8)) {
        case 0:
          store_.advance(draw_.step());
          break;
        case 1:
        case 2:
          lease();
          break;
        case 3:
          administer();
          break;
        default:
          apply(transaction());
      }
      conserved();
    }
    sound();
  }

 private:
  void apply(const Transaction& transaction) {
    const auto checked = check_transaction(transaction, Limits{});
    const auto before = stats();
    const auto receipt = store_.apply(transaction);
    FUZZ_REQUIRE(checked || !receipt, "what the checks refuse is not applied");
    if (!receipt) {
      FUZZ_REQUIRE(!receipt.error().message.empty(), "an error says something");
      FUZZ_REQUIRE(receipt.error().code != Errc::corrupt && receipt.error().code != Errc::io_error,
                   "a sound store in memory fails for reasons of the request only");
      FUZZ_REQUIRE(stats() == before, "an error leaves no trace");
      return;
    }
    FUZZ_REQUIRE(receipt->sent.size() == transaction.sends.size() &&
                     receipt->published.size() == transaction.publishes.size() &&
                     receipt->cancelled.size() == transaction.cancels.size() &&
                     receipt->versions.size() == transaction.records.size(),
                 "a receipt has an entry for each part");
    for (const Sent& sent : receipt->sent)
      ids_.push_back(sent.id);
    if (!transaction.id) return;
    const auto again = store_.apply(transaction);
    FUZZ_REQUIRE(again && *again == *receipt, "a repeat under the same id has the same receipt");
  }

  void lease() {
    LeaseRequest request;
    request.queue = draw_.name();
    request.key = draw_.maybe(draw_.name());
    request.seize = request.key && draw_.rarely();
    request.lanes = static_cast<std::uint32_t>(1 + draw_.below(3));
    request.messages = static_cast<std::uint32_t>(1 + draw_.below(5));
    request.lease = draw_.maybe(draw_.duration());
    if (draw_.rarely()) request.labels = {draw_.name()};
    request.history_from = draw_.maybe(draw_.number());
    request.history_limit = static_cast<std::size_t>(draw_.number());
    auto grants = store_.lease(request);
    FUZZ_REQUIRE(grants || !grants.error().message.empty(), "an error says something");
    if (!grants) return;
    histories(*grants, request);
    for (engine::Grant& grant : *grants) {
      if (draw_.rarely()) std::ignore = store_.pull(grant.token, grant.cursor);
      if (draw_.rarely()) std::ignore = store_.renew(grant.token, draw_.duration());
      grants_.push_back(std::move(grant));
    }
  }

  void histories(const std::vector<engine::Grant>& grants, const LeaseRequest& request) {
    const auto leases = engine::materialize(store_.backend(), grants, request);
    FUZZ_REQUIRE(leases.has_value(), "what was leased can be read");
    for (const Lease& lease : *leases) {
      if (!lease.history) continue;
      const History& history = *lease.history;
      const Execution& execution = history.execution;
      FUZZ_REQUIRE(history.first == std::max(*request.history_from, execution.first),
                   "a history begins where it was asked for, or behind what was trimmed");
      const std::uint64_t there = execution.length - std::min(history.first, execution.length);
      FUZZ_REQUIRE(history.events.size() == std::min<std::uint64_t>(there, request.history_limit),
                   "and has what there is, up to the limit");
    }
  }

  void content(Content& content) {
    content.key = draw_.maybe(draw_.name());
    content.body = draw_.body();
    if (draw_.rarely()) content.headers = {{.name = draw_.name(), .value = draw_.name()}};
    content.priority = draw_.kind<Priority>(4);
    if (draw_.below(4) == 0) content.delay = draw_.duration();
    if (draw_.below(4) == 0) content.ttl = draw_.duration();
    if (draw_.below(4) == 0) content.dedup_id = draw_.name();
  }
  Send send() {
    Send send;
    content(send);
    send.queue = draw_.name();
    if (draw_.below(4) == 0) send.label = draw_.name();
    if (draw_.below(4) == 0) send.name = draw_.name();
    if (draw_.below(4) == 0) send.max_attempts = static_cast<std::uint32_t>(draw_.number());
    if (draw_.below(4) == 0) {
      send.dead_notice_to = Address{.queue = draw_.name(), .key = draw_.maybe(draw_.name())};
    }
    return send;
  }
  Settle settle() {
    Settle settle;
    if (grants_.empty() || draw_.rarely()) {
      settle.token = draw_.token(grants_);
      return settle;
    }
    const engine::Grant& grant = grants_[draw_.index(grants_.size())];
    settle.token = grant.token;
    for (const engine::GrantedMessage& message : grant.messages) {
      if (draw_.below(4) == 0) continue;
      Outcome outcome;
      outcome.id = draw_.rarely() ? draw_.id(ids_) : message.id;
      outcome.kind = draw_.kind<Outcome::Kind>(4);
      if (draw_.below(4) == 0) outcome.delay = draw_.duration();
      outcome.reason = draw_.name();
      settle.outcomes.push_back(std::move(outcome));
    }
    settle.then = draw_.kind<Settle::Then>(3);
    if (draw_.rarely()) settle.label = draw_.name();
    if (draw_.rarely()) {
      settle.owner_hint =
          OwnerHint{.owner = draw_.name(), .valid_for = draw_.duration(), .grace = {}};
    }
    return settle;
  }
  // The last execution of a leased instance, so that most of what is drawn for it fits.
  Execution last_of(const Token& token) {
    const auto grant = std::ranges::find(grants_, token, &engine::Grant::token);
    if (grant == grants_.end() || !grant->key) return {};
    const auto history =
        engine::read_history(store_.backend(), Limits{},
                             {.queue = grant->queue, .key = *grant->key, .from = 0, .limit = 1});
    return history ? history->execution : Execution{};
  }
  Append append() {
    Append append;
    append.token = draw_.token(grants_);
    const Execution last = last_of(append.token);
    const bool open = last.number > 0 && !last.outcome;
    append.execution = draw_.rarely() ? draw_.number() : last.number + (open ? 0 : 1);
    append.expected_length = draw_.rarely() ? draw_.number() : open ? last.length : 0;
    append.events.resize(static_cast<std::size_t>(draw_.below(3)), "event");
    if (draw_.rarely()) append.events.resize(300, "one of many");
    append.close = draw_.maybe(draw_.name());
    return append;
  }
  TrimHistory trim(const Append& append) {
    const auto length = static_cast<int>((append.expected_length + append.events.size()) % 1000);
    return {.token = append.token,
            .execution = draw_.rarely() ? draw_.number() : append.execution,
            .before = draw_.rarely() ? draw_.number()
                                     : static_cast<std::uint64_t>(draw_.below(length + 1))};
  }
  Transaction transaction() {
    Transaction transaction;
    transaction.durability = draw_.kind<Durability>(2);
    if (draw_.below(4) == 0) {
      transaction.id = TransactionId{.client = draw_.number(),
                                     .number = ++numbers_,
                                     .time = draw_.rarely() ? Time{draw_.duration()} : store_.now(),
                                     .lowest_unanswered = draw_.number()};
    }
    for (int left = draw_.below(4); left > 0; --left) {
      switch (draw_.below(8)) {
        case 0:
          transaction.appends.push_back(append());
          if (draw_.below(2) == 0) {
            transaction.trim_histories.push_back(trim(transaction.appends.back()));
          }
          break;
        case 1:
          transaction.cancels.push_back(
              {.queue = draw_.name(), .name = draw_.name(), .quiet = draw_.below(2) == 0});
          break;
        case 2:
          transaction.publishes.emplace_back();
          content(transaction.publishes.back());
          transaction.publishes.back().topic = draw_.name();
          break;
        case 3:
          transaction.records.push_back({.space = draw_.name(),
                                         .key = draw_.name(),
                                         .value = draw_.maybe(draw_.body()),
                                         .expected = draw_.maybe(Version{draw_.number()})});
          break;
        case 4:
          transaction.settles.push_back(settle());
          break;
        case 5:
          if (draw_.rarely()) {
            transaction.remove_histories.push_back(
                {.token = draw_.token(grants_), .through_execution = draw_.number()});
          } else {
            transaction.settles.push_back(settle());
          }
          break;
        default:
          transaction.sends.push_back(send());
      }
    }
    return transaction;
  }

  QueueSettings settings() {
    QueueSettings settings;
    settings.max_attempts = static_cast<std::uint32_t>(draw_.number());
    settings.backoff = {draw_.duration()};
    settings.backoff_jitter_percent = static_cast<std::uint32_t>(draw_.number() % 102);
    settings.dead_notice_to =
        draw_.maybe(Address{.queue = draw_.name(), .key = draw_.maybe(draw_.name())});
    settings.retry_policy = draw_.kind<RetryPolicy>(2);
    settings.on_exhausted = draw_.kind<OnExhausted>(2);
    settings.ttl = draw_.maybe(draw_.duration());
    settings.on_expired = draw_.kind<OnExpired>(2);
    settings.dedup_window = draw_.duration();
    settings.max_length = draw_.number();
    return settings;
  }
  Administration administration() {
    switch (draw_.below(11)) {
      case 0:
        return ConfigureQueue{.queue = draw_.name(), .settings = settings()};
      case 1:
        return PauseQueue{.queue = draw_.name()};
      case 2:
        return ResumeQueue{.queue = draw_.name()};
      case 3:
        return ResumeLane{.queue = draw_.name(),
                          .key = draw_.maybe(draw_.name()),
                          .id = draw_.maybe(draw_.id(ids_))};
      case 4:
        return PurgeQueue{.queue = draw_.name(), .key = draw_.maybe(draw_.name())};
      case 5:
        return RemoveQueue{.queue = draw_.name(), .force = draw_.below(2) == 0};
      case 6:
        return Redrive{
            .queue = draw_.name(), .ids = {draw_.id(ids_)}, .to = draw_.maybe(draw_.name())};
      case 7:
        return DropDead{.queue = draw_.name(), .ids = {draw_.id(ids_)}};
      case 8:
        return Subscribe{.queue = draw_.name(),
                         .pattern = draw_.pattern(),
                         .from = draw_.maybe(store_.now() - draw_.step())};
      case 9:
        return Unsubscribe{.queue = draw_.name()};
      default:
        return ConfigureTopic{.topic = draw_.name(), .settings = {.retain = draw_.duration()}};
    }
  }
  void administer() {
    Transaction transaction;
    transaction.admin = administration();
    if (draw_.rarely()) transaction.sends.push_back(send());
    apply(transaction);
  }

  // S16, of every queue.
  void conserved() {
    for (const auto& [name, stats] : stats()) {
      FUZZ_REQUIRE(stats.accepted == stats.acked + stats.expired + stats.dropped + stats.moved +
                                         stats.purged + stats.dead + stats.live(),
                   "every message that was accepted is somewhere, once");
    }
  }
  std::vector<std::pair<std::string, QueueStats>> stats() {
    store_.advance(Duration{0});
    std::vector<std::pair<std::string, QueueStats>> all;
    for (const QueueInfo& queue : store_.engine().queues())
      all.emplace_back(queue.name, store_.engine().stats(queue.name).value());
    return all;
  }
  // What all of it has written is whole, and reads as what there was.
  void sound() {
    const auto report = check::inspect(store_.backend());
    FUZZ_REQUIRE(report && report->clean(), "what the engine writes is whole");
    const auto before = stats();
    store_.open();
    FUZZ_REQUIRE(store_.opened().has_value(), "and can be opened again");
    FUZZ_REQUIRE(stats().size() == before.size(), "with the same queues");
    conserved();
  }

  Draw draw_;
  QuietStore store_;
  std::vector<engine::Grant> grants_;
  std::vector<MessageId> ids_;
  std::uint64_t numbers_ = 0;
};

void run(std::string_view bytes) { Run(bytes).go(); }

const Target target("transactions", run, 5'000);

}  // namespace

}  // namespace strand::fuzz
