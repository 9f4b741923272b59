#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "store/check/check.h"
#include "store/engine/records.h"
#include "store/local/pipeline.h"
#include "store/memory/memory_backend.h"
#include "unit/requests.h"

namespace strand {

// An engine on a backend in memory, without threads: whenever no call runs, everything is written
// and the store is at rest.
class QuietStore {
 public:
  QuietStore() { start_again(); }

  // Throws everything away.
  void start_again() {
    pipeline_.reset();
    backend_ = std::make_unique<memory::MemoryBackend>();
    now_ = Time{std::chrono::hours{24 * 365 * 56}};
    open();
  }

  void open() {
    pipeline_.emplace(*backend_, Limits{}, engine::Identity{.store = 1, .secret = {2, 3}});
    opened_ = pipeline_->open(now_);
    if (!opened_) return;
    now_ = engine().now();  // damage may have brought the store into the future
    write();
  }
  // What the last open() said.
  [[nodiscard]] const Result<void>& opened() const { return opened_; }
  engine::Engine& engine() { return pipeline_->engine(); }
  memory::MemoryBackend& backend() { return *backend_; }
  [[nodiscard]] Time now() const { return now_; }

  void advance(Duration step) {
    now_ += step;
    engine().advance(now_);
    write();
  }
  Result<Receipt> apply(const Transaction& transaction) {
    engine().advance(now_);
    write();
    return written(engine().apply(transaction, now_));
  }
  Result<std::vector<engine::Grant>> lease(const LeaseRequest& request) {
    return written(engine().lease(request, now_));
  }
  Result<engine::PullGrant> pull(const Token& token, Cursor cursor) {
    return written(engine().pull(token, cursor, PullLimits{}, now_));
  }
  Result<Time> renew(const Token& token, Duration lease) {
    return written(engine().renew(token, lease, now_));
  }

 private:
  void write() {
    while (pipeline_->can_take()) {
      const engine::Decisions& decisions = pipeline_->take();
      Result<void> done;
      if (!decisions.mutations.empty()) {
        done = backend_->write(decisions.mutations, decisions.durability);
      }
      pipeline_->complete(done, now_);
    }
  }
  template <class T>
  T written(T result) {
    write();
    return result;
  }

  std::unique_ptr<memory::MemoryBackend> backend_;
  Time now_{};
  std::optional<local::Pipeline> pipeline_;
  Result<void> opened_;
};

// Every finding on a line, for messages of failed tests.
inline std::string to_text(const check::Report& report) {
  std::string text;
  for (const check::Finding& finding : report.findings) {
    text += std::string(to_string(finding.kind)) + (finding.repairable ? " (repairable): " : ": ") +
            finding.what + "\n";
  }
  return text;
}

inline Transaction settle(const Token& token, std::vector<Outcome> outcomes,
                          Settle::Then then = Settle::Then::end) {
  Settle part;
  part.token = token;
  part.outcomes = std::move(outcomes);
  part.then = then;
  if (then == Settle::Then::park) part.park_reason = "by hand";
  Transaction transaction;
  transaction.settles.push_back(std::move(part));
  return transaction;
}

inline Outcome outcome(MessageId id, Outcome::Kind kind,
                       std::optional<Duration> delay = std::nullopt) {
  return {.id = id, .kind = kind, .delay = delay, .reason = "because"};
}

// A store with something of everything.
class CheckFixture : public ::testing::Test {
 protected:
  using Family = engine::Family;
  using Kind = check::Kind;

  void SetUp() override { start_again(); }
  // A new rich store in the place of the old one.
  void start_again();

  // --- The rich store, and names for what is in it ---

  QuietStore store_;
  engine::QueueId orders_{}, jobs_{}, flows_{}, subscriber_{};
  MessageId waiting_{};       // keyed 'k1' in orders, never leased
  MessageId named_{};         // unkeyed in jobs, named 'timer'
  MessageId with_body_{};     // keyed, with a body of its own
  MessageId failed_{};        // has a state
  MessageId leased_{};        // keyed 'leased' in orders
  MessageId leased_alone_{};  // unkeyed in jobs
  MessageId dead_{};          // in orders
  MessageId shared_dead_{};   // in the full subscriber; shares a body
  MessageId publication_{};   // retained, shared
  Epoch keyed_lease_{}, unkeyed_lease_{}, empty_lease_{};
  std::uint64_t instance_ = 0;  // the number of 'order-1' in flows

  void send_messages();
  void make_leases();
  void make_dead_letters();
  void publish();
  void make_histories();
  void make_ids();

  MessageId must_send(Send message);
  engine::Grant must_lease(const std::string& queue, std::optional<std::string> key,
                           std::optional<RequestId> request = {});
  Receipt must(const Transaction& transaction);
  engine::QueueId id_of(std::string_view queue);

  // --- Damage, by hand ---

  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  std::string get(Family family, std::string_view key);
  template <class Record>
  void put_record(Family family, std::string_view key, const Record& record) {
    std::string value;
    engine::encode(record, value);
    put(family, key, value);
  }
  // Reads an entry, lets `change` change it, and writes it back.
  template <class Record, class Change>
  void change(Family family, std::string_view key, Change change) {
    auto record = engine::decode<Record>(get(family, key));
    ASSERT_TRUE(record);
    change(*record);
    put_record(family, key, *record);
  }

  using Entries = std::map<std::pair<Family, std::string>, std::string>;
  Entries entries();
  void write_repair();

  // --- What must follow ---

  check::Report inspect();
  // The damage is found under that name, and repair makes the store whole: nothing is found any
  // more, it opens, and all that was sound is there, but entries of `changed`.
  void expect_repaired(Kind kind, const std::set<Family>& changed = {});
  // The damage is found under that name, cannot be repaired, and repair touches nothing else.
  void expect_reported(Kind kind);

 private:
  void expect_sound_kept(const Entries& damaged, const std::set<Family>& changed);

  Entries sound_;  // before any damage
};

}  // namespace strand
