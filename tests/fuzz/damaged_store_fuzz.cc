// A store whose entries were damaged, as by a disk or by somebody's hand. Opening it fails with an
// error, or it works; it never ends the process. One repair leaves nothing that could be repaired,
// and a store that is called clean opens, works and stays clean.
//
// The input is a list of changes to the entries of a store with something of everything.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fuzz/target.h"
#include "store/check/check.h"
#include "store/engine/reads.h"
#include "store/engine/records.h"
#include "unit/check_fixture.h"

namespace strand::fuzz {

namespace {

using namespace std::chrono_literals;
using engine::Family;
using Entries = std::map<std::pair<Family, std::string>, std::string>;

constexpr int changes_max = 12;
constexpr Time time_last{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}};

// The rich store of the unit tests, made once.
class RichStore : public CheckFixture {
 public:
  static const Entries& contents() {
    static const Entries all = [] {
      RichStore store;
      store.start_again();
      FUZZ_REQUIRE(!HasFailure(), "the store that is to be damaged can be made");
      return store.entries();
    }();
    return all;
  }

 private:
  void TestBody() override {}
};

// Takes the changes apart, from the front, so that the end of an input does not touch its
// beginning.
class Changes {
 public:
  explicit Changes(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool more() const { return !rest_.empty(); }

  void next(Entries& entries) {
    const std::uint8_t kind = byte() % 8;
    if (kind == 0 || entries.empty()) return put_new(entries);
    auto entry = std::next(entries.begin(), static_cast<std::ptrdiff_t>(byte() % entries.size()));
    std::string& value = entry->second;
    switch (kind) {
      case 1:
        entries.erase(entry);
        return;
      case 2:
        return flip(value);
      case 3:
        value.resize(value.empty() ? 0 : byte() % value.size());
        return;
      case 4:
        value = text();
        return;
      case 5: {
        const std::size_t at = byte() % (value.size() + 1);
        value.replace(at, byte() % 12, text());
        return;
      }
      case 6: {  // under a key that is near its own
        auto place = entry->first;
        flip(place.second);
        entries[place] = value;
        return;
      }
      default: {  // with the value of another one
        const auto other =
            std::next(entries.begin(), static_cast<std::ptrdiff_t>(byte() % entries.size()));
        value = other->second;
      }
    }
  }

 private:
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string text() {
    const std::string_view part = rest_.substr(0, byte());
    const std::string result(rest_.substr(0, part.size()));
    rest_.remove_prefix(result.size());
    return result;
  }
  void flip(std::string& bytes) {
    const std::size_t at = byte();
    const std::uint8_t mask = byte();
    if (!bytes.empty()) bytes[at % bytes.size()] ^= static_cast<char>(mask);
  }
  void put_new(Entries& entries) {
    const auto family = static_cast<Family>(byte() % engine::family_count);
    std::string key = text();
    // A backend may have fixed columns for these.
    const bool by_id = family == Family::message || family == Family::body ||
                       family == Family::state || family == Family::lease;
    if (by_id) key.resize(8);
    entries[{family, std::move(key)}] = text();
  }

  std::string_view rest_;
};

void fill(QuietStore& store, const Entries& entries) {
  engine::MutationBatch batch;
  for (std::size_t i = 0; i < engine::family_count; ++i)
    batch.erase_prefix(static_cast<Family>(i), {});
  for (const auto& [place, value] : entries)
    batch.put(place.first, place.second, value);
  FUZZ_REQUIRE(store.backend().write(batch, Durability::async), "memory takes every write");
}

// The ids that dead letters of the queue may have.
std::vector<MessageId> dead_letters_of(QuietStore& store, std::string_view queue) {
  std::vector<MessageId> ids;
  const auto id = store.backend().get(Family::queue_name, queue);
  if (!id || !*id || (*id)->empty()) return ids;
  const auto read = [&](std::string_view key, std::string_view) {
    if (const auto name = engine::decode_dead_key(key)) ids.push_back(name->second);
    return true;
  };
  std::ignore = store.backend().scan(Family::dead, **id, engine::behind_prefix(**id), read);
  return ids;
}

// Reads the history of a leased instance, and forgets it.
void trim(QuietStore& store, const engine::Grant& grant) {
  LeaseRequest request = from(grant.queue);
  request.history_from = 0;
  request.history_limit = 2;
  const auto leases = engine::materialize(store.backend(), {grant}, request);
  if (!leases || !leases->front().history) return;
  const Execution& last = leases->front().history->execution;
  Transaction transaction;
  transaction.trim_histories.push_back(
      {.token = grant.token, .execution = last.number, .before = last.length});
  std::ignore = store.apply(transaction);
}

// Everything that a store is there for. What a damaged one answers does not matter.
void use(QuietStore& store) {
  for (const QueueInfo& queue : store.engine().queues()) {
    std::ignore = store.engine().stats(queue.name);
    std::ignore = store.engine().peek(all_of(queue.name));
    LeaseRequest request = from(queue.name);
    request.lanes = 5;
    const auto grants = store.lease(request);
    if (!grants) continue;
    for (const engine::Grant& grant : *grants) {
      trim(store, grant);
      std::vector<Outcome> outcomes;
      for (const engine::GrantedMessage& message : grant.messages) {
        const auto kind = static_cast<Outcome::Kind>(outcomes.size() % 4);
        outcomes.push_back({.id = message.id, .kind = kind, .delay = std::nullopt, .reason = "r"});
      }
      std::ignore = store.apply(settle(grant.token, std::move(outcomes)));
    }
  }
  for (const MessageId id : dead_letters_of(store, "orders"))
    std::ignore = store.apply(administer(Redrive{"orders", {id}, std::nullopt}));
  for (const MessageId id : dead_letters_of(store, "full"))
    std::ignore = store.apply(administer(DropDead{"full", {id}}));
  std::ignore = store.apply(send("orders", "one more", "k1"));
  Publish message;
  message.topic = "events.a";
  Transaction publication;
  publication.publishes.push_back(message);
  std::ignore = store.apply(publication);
  std::ignore = store.apply(administer(PurgeQueue{.queue = "jobs", .key = std::nullopt}));
  std::ignore = store.apply(administer(RemoveQueue{.queue = "flows", .force = true}));
  if (store.now() < time_last) store.advance(24h);
}

void require_clean(const check::Report& report) {
  if (!report.clean()) std::fputs(to_text(report).c_str(), stderr);
  FUZZ_REQUIRE(report.clean(), "a clean store that was used is clean");
}

// A store that was called clean.
void must_work(QuietStore& store) {
  store.open();
  FUZZ_REQUIRE(store.opened().has_value(), "a clean store opens");
  use(store);
  store.open();
  FUZZ_REQUIRE(store.opened().has_value(), "a clean store opens again");
  require_clean(check::inspect(store.backend()).value());
}

void open_damaged(const Entries& entries) {
  QuietStore store;
  fill(store, entries);
  store.open();
  if (!store.opened()) {
    FUZZ_REQUIRE(!store.opened().error().message.empty(), "an error says something");
    return;
  }
  use(store);
}

void repair_damaged(const Entries& entries) {
  QuietStore store;
  fill(store, entries);
  auto repair = check::repair(store.backend(), engine::Identity{.store = 5, .secret = {6, 7}});
  if (!repair) {
    FUZZ_REQUIRE(repair.error().code == Errc::unsupported, "damage is a report, not an error");
    return;
  }
  for (const engine::MutationBatch& batch : repair->batches)
    FUZZ_REQUIRE(store.backend().write(batch, Durability::sync), "memory takes every write");
  const auto after = check::inspect(store.backend());
  FUZZ_REQUIRE(after.has_value(), "a repaired store can be inspected");
  if (after->total().repairable != 0) std::fputs(to_text(*after).c_str(), stderr);
  FUZZ_REQUIRE(after->total().repairable == 0, "one repair is enough");
  if (after->clean()) must_work(store);
}

void run(std::string_view bytes) {
  Entries entries = RichStore::contents();
  Changes changes(bytes);
  for (int left = changes_max; left > 0 && changes.more(); --left)
    changes.next(entries);
  repair_damaged(entries);
  open_damaged(entries);
}

const Target target("damaged_store", run, 1'000);

}  // namespace

}  // namespace strand::fuzz
