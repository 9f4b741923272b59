#include "conformance/suite.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <tuple>

#include <unistd.h>

#include "postgres/server.h"
#include "pq/connection.h"
#include "server/served_store.h"
#include "store/postgres/answers.h"
#include "store/postgres/check.h"
#include "store/postgres/location.h"
#include "store/postgres/schema.h"

namespace strand::conformance {

// --- The stores ---

namespace {

// How long a callback may stay away before the test has failed: far beyond any loaded machine.
constexpr auto patience = std::chrono::seconds{60};

// Where stores on disk are put: in memory if the machine has such a folder, because the suite is
// about rules and not about disks.
std::filesystem::path folder_of(const std::string& name) {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code none;
  const bool usable =
      std::filesystem::is_directory(memory, none) && ::access(memory.c_str(), W_OK | X_OK) == 0;
  return (usable ? memory : std::filesystem::temp_directory_path()) / ("strand-" + name);
}

// A store on disk: all that it makes lies in one folder, which goes with it.
StoreUnderTest on_disk(const std::string& scheme) {
  return {.name = scheme,
          .url =
              [scheme](const std::string& name) {
                const std::filesystem::path folder = folder_of(name);
                std::filesystem::create_directories(folder);
                return scheme + ":" + (folder / "store").string();
              },
          .remove =
              [scheme](const std::string& url) {
                const std::filesystem::path path = url.substr(scheme.size() + 1);
                std::filesystem::remove_all(path.parent_path());
              }};
}

// Schemas in one database of a server that the tests start. A schema takes longer to make than most
// tests to run, so those of removed stores are emptied and used again.
class Schemas {
 public:
  std::string url(const std::string& name) {
    std::string& schema = by_name_[name];
    if (schema.empty() && !free_.empty()) {
      schema = free_.back();
      free_.pop_back();
    } else if (schema.empty()) {
      schema = "store_" + std::to_string(++count_);
    }
    return database_ + "?schema=" + schema;
  }

  void remove(const std::string& url) {
    const std::string schema = url.substr(url.find('=') + 1);
    std::erase_if(by_name_, [&](const auto& named) { return named.second == schema; });
    const std::size_t name = database_.rfind('/') + 1;
    postgres::shared_server().sql(
        "do $$ declare t text; begin if to_regclass('" + schema +
            ".store') is null then return; "
            "end if; select string_agg(format('%I.%I', schemaname, tablename), ', ') into t "
            "from pg_tables where schemaname = '" +
            schema +
            "' and tablename not in ('store', "
            "'migrations'); execute 'truncate ' || t; update " +
            schema + ".store set time = 0; end $$",
        database_.substr(name));
    free_.push_back(schema);
  }

  std::vector<std::string> findings(const std::string& url) {
    const auto location = postgres::parse_location(url).value();
    std::unique_ptr<postgres::Connection>& connection = checking_[location.schema];
    if (!connection) connection = postgres::Connection::open(location.conninfo).value();
    // Two who leave a body at the same time leave it to the upkeep.
    const auto swept =
        connection->script(postgres::session_script(location) + "select release_left_bodies();");
    if (!swept) return {postgres::error_of(swept.error(), "the upkeep").message};
    const auto report = postgres::check(*connection, location);
    if (!report) return {report.error().message};
    std::vector<std::string> found;
    for (const postgres::Finding& finding : report->findings)
      found.push_back(finding.kind + ": " + finding.what);
    return found;
  }

 private:
  const std::string database_ = postgres::shared_server().fresh_database();
  std::map<std::string, std::string> by_name_;
  std::vector<std::string> free_;
  // One for each schema, because the check takes much longer to plan than to run.
  std::map<std::string, std::unique_ptr<postgres::Connection>> checking_;
  int count_ = 0;
};

Schemas& schemas() {
  static Schemas all;
  return all;
}

StoreUnderTest in_postgres() {
  return {.name = "postgres",
          .url = [](const std::string& name) { return schemas().url(name); },
          .remove = [](const std::string& url) { schemas().remove(url); },
          .single_owner = false,
          .findings = [](const std::string& url) { return schemas().findings(url); }};
}

// A store in memory behind a server: every call goes over TCP. `badly`: and through a proxy that
// loses answers.
StoreUnderTest behind_a_server(const std::string& name, bool badly) {
  return {.name = name,
          .url = [name](const std::string& store) { return "memory:" + name + "-" + store; },
          .opener =
              [badly](const std::string& url, const OpenOptions& options) {
                return server::open_served(url, options, badly);
              }};
}

// Every store that passes this suite stands here, and only here.
std::vector<StoreUnderTest> all_stores() {
  return {
      {.name = "memory", .url = [](const std::string& name) { return "memory:" + name; }},
      on_disk("rocksdb"),
      on_disk("sqlite"),
      in_postgres(),
      behind_a_server("served", false),
      behind_a_server("badly_served", true),
  };
}

// Different for each store of this and of every other running test process.
std::string fresh_name() {
  static std::atomic<std::uint64_t> count{0};
  return "conformance-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

}  // namespace

std::vector<StoreUnderTest> stores_under_test() {
  const char* const wanted =
      std::getenv("STRAND_CONFORMANCE_STORE");  // NOLINT(concurrency-mt-unsafe)
  std::vector<StoreUnderTest> all = all_stores();
  if (wanted == nullptr || *wanted == '\0') return all;

  std::vector<StoreUnderTest> chosen;
  std::istringstream names{wanted};
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::ranges::find(all, name, &StoreUnderTest::name);
    // A misspelt store must not look like a passed suite: no such URL, so every test fails.
    chosen.push_back(found != all.end()
                         ? *found
                         : StoreUnderTest{.name = "unknown", .url = [name](const std::string&) {
                                            return "no-such-store:" + name;
                                          }});
  }
  return chosen;
}

void PrintTo(const StoreUnderTest& store, std::ostream* out) { *out << store.name; }

// --- Free helpers ---

CannotGoOn::CannotGoOn(const std::string& what, const std::source_location& where)
    : std::runtime_error(std::string{where.file_name()} + ":" + std::to_string(where.line()) +
                         ": " + what) {}

std::string describe(const Error& error) {
  return std::string{to_string(error.code)} + ": " + error.message;
}

Send send(std::string queue, const Key& key, Bytes body, SendOptions options) {
  Send made;
  made.queue = std::move(queue);
  made.key = key.value;
  made.body = std::move(body);
  made.headers = std::move(options.headers);
  made.priority = options.priority;
  made.delay = options.delay;
  made.ttl = options.ttl;
  made.dedup_id = std::move(options.dedup_id);
  made.label = std::move(options.label);
  made.name = std::move(options.name);
  made.max_attempts = options.max_attempts;
  made.dead_notice_to = std::move(options.dead_notice_to);
  return made;
}

namespace {

template <class Items>
Bodies bodies_of(const Items& items) {
  Bodies all;
  for (const auto& item : items)
    all.push_back(item.body);
  return all;
}

template <class Items>
Ids ids_of(const Items& items) {
  Ids all;
  for (const auto& item : items)
    all.push_back(item.id);
  return all;
}

template <class Items>
const auto& with_body(const Items& items, std::string_view body,
                      const std::source_location& where) {
  for (const auto& item : items) {
    if (item.body == body) return item;
  }
  throw CannotGoOn("no message \"" + std::string{body} + "\" here", where);
}

}  // namespace

Bodies bodies(const std::vector<Message>& messages) { return bodies_of(messages); }
Bodies bodies(const std::vector<PeekedMessage>& messages) { return bodies_of(messages); }
Bodies bodies(const std::vector<DeadLetter>& letters) { return bodies_of(letters); }
Bodies bodies(const Lease& lease) { return bodies_of(lease.messages); }
Bodies bodies(const Pulled& pulled) { return bodies_of(pulled.messages); }
Bodies bodies(const std::vector<Lease>& leases) {
  Bodies all;
  for (const Lease& lease : leases)
    std::ranges::copy(bodies(lease), std::back_inserter(all));
  return all;
}

Ids ids(const std::vector<Message>& messages) { return ids_of(messages); }
Ids ids(const Lease& lease) { return ids_of(lease.messages); }
Ids ids(const std::vector<DeadLetter>& letters) { return ids_of(letters); }

std::vector<std::string> reasons(const std::vector<Failure>& failures) {
  std::vector<std::string> all;
  for (const Failure& failure : failures)
    all.push_back(failure.reason);
  return all;
}

const Message& message_of(const Lease& lease, std::string_view body, std::source_location where) {
  return with_body(lease.messages, body, where);
}

MessageId id_of(const Lease& lease, std::string_view body, std::source_location where) {
  return message_of(lease, body, where).id;
}

Outcome acked(MessageId id) {
  return {.id = id, .kind = Outcome::Kind::ack, .delay = {}, .reason = {}};
}
Outcome retried(MessageId id, std::optional<Duration> delay, std::string reason) {
  return {.id = id, .kind = Outcome::Kind::retry, .delay = delay, .reason = std::move(reason)};
}
Outcome made_dead(MessageId id, std::string reason) {
  return {.id = id, .kind = Outcome::Kind::dead, .delay = {}, .reason = std::move(reason)};
}
Outcome released(MessageId id) {
  return {.id = id, .kind = Outcome::Kind::release, .delay = {}, .reason = {}};
}

Settle settlement(const Lease& lease, std::vector<Outcome> outcomes, Then then) {
  return {.token = lease.token,
          .outcomes = std::move(outcomes),
          .then = then,
          .park_reason = {},
          .label = {},
          .owner_hint = {}};
}

std::function<void()> Calls::callback() {
  return [this] {
    // Notified under the lock: whoever waits may destroy this as soon as it has seen the count.
    const std::lock_guard lock{mutex_};
    ++count_;
    changed_.notify_all();
  };
}

std::uint64_t Calls::count() const {
  const std::lock_guard lock{mutex_};
  return count_;
}

bool Calls::more_than(std::uint64_t seen) const {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, patience, [&] { return count_ > seen; });
}

// --- Opening and closing ---

void StoreConformance::SetUp() {
  clock_ = std::make_shared<ManualClock>();
  wall_at_zero_ = clock_->wall() - clock_->monotonic();
  options_.clock = clock_;
  options_.cache_bytes = std::size_t{4} << 20U;  // little is stored, and buffers take time to make
  name_ = fresh_name();
  reopen();
}

void StoreConformance::TearDown() {
  // A test that ended by an exception has failed already, and may have left anything behind.
  if (store_ != nullptr && !HasFailure()) {
    for (const QueueInfo& info : Answer(store_->queues()).value())
      expect_conserved(info.name);
    expect_reopening_changes_nothing();
    if (GetParam().findings) EXPECT_THAT(GetParam().findings(GetParam().url(name_)), IsEmpty());
  }
  close();
  if (GetParam().remove) {
    GetParam().remove(GetParam().url(name_));
    for (const std::string& url : other_urls_)
      GetParam().remove(url);
  }
}

Store& StoreConformance::store() {
  if (store_ == nullptr) {
    throw CannotGoOn("the store is closed", std::source_location::current());
  }
  return *store_;
}

void StoreConformance::reopen() {
  close();
  const std::string url = GetParam().url(name_);
  auto opened = GetParam().open(url, options_);
  if (!opened) {
    throw CannotGoOn("opening " + url + ": " + describe(opened.error()),
                     std::source_location::current());
  }
  store_ = std::move(*opened);
}

void StoreConformance::reopen(const Limits& limits) {
  options_.limits = limits;
  reopen();
}

void StoreConformance::close() { store_.reset(); }

Answer<std::unique_ptr<Store>> StoreConformance::open_again() {
  return GetParam().open(GetParam().url(name_), options_);
}

std::unique_ptr<Store> StoreConformance::open_another() {
  other_urls_.push_back(GetParam().url(fresh_name()));
  return Answer(GetParam().open(other_urls_.back(), options_)).value();
}

// --- Sending ---

Answer<Receipt> StoreConformance::apply(const Transaction& transaction) {
  return store().apply(transaction);
}

Answer<Sent> StoreConformance::try_enqueue(const std::string& queue, const Key& key, Bytes body,
                                           SendOptions options) {
  Transaction transaction;
  transaction.sends.push_back(send(queue, key, std::move(body), std::move(options)));
  const Result<Receipt> receipt = store().apply(transaction);
  if (!receipt) return Result<Sent>(std::unexpected(receipt.error()));
  return Result<Sent>(receipt->sent.at(0));
}

MessageId StoreConformance::enqueue(const std::string& queue, const Key& key, Bytes body,
                                    SendOptions options, std::source_location where) {
  return try_enqueue(queue, key, std::move(body), std::move(options)).value(where).id;
}

Ids StoreConformance::enqueue_all(const std::string& queue, const Key& key,
                                  std::initializer_list<Bytes> bodies, const SendOptions& options,
                                  std::source_location where) {
  Transaction transaction;
  for (const Bytes& body : bodies)
    transaction.sends.push_back(send(queue, key, body, options));
  return ids_of(apply(transaction).value(where).sent);
}

bool StoreConformance::cancel(const std::string& queue, const std::string& name,
                              std::source_location where) {
  Transaction transaction;
  transaction.cancels.push_back({.queue = queue, .name = name});
  return apply(transaction).value(where).cancelled.at(0);
}

// --- Leasing ---

Answer<std::vector<Lease>> StoreConformance::try_lease(const LeaseRequest& request) {
  return store().lease(request);
}

std::vector<Lease> StoreConformance::lease(const LeaseRequest& request,
                                           std::source_location where) {
  return try_lease(request).value(where);
}

namespace {

Lease only_one(std::vector<Lease> leases, const LeaseRequest& request,
               const std::source_location& where) {
  if (leases.size() != 1) {
    const std::string lane = request.key ? "lane \"" + *request.key + "\" of " : "";
    throw CannotGoOn(std::to_string(leases.size()) + " leases of " + lane + request.queue, where);
  }
  return std::move(leases.front());
}

}  // namespace

Lease StoreConformance::lease_one(const std::string& queue, std::optional<Duration> lease_for,
                                  std::source_location where) {
  const LeaseRequest request{.queue = queue, .lease = lease_for};
  return only_one(lease(request, where), request, where);
}

Lease StoreConformance::lease_key(const std::string& queue, const std::string& key,
                                  std::optional<Duration> lease_for, std::source_location where) {
  const LeaseRequest request{.queue = queue, .key = key, .lease = lease_for};
  return only_one(lease(request, where), request, where);
}

std::vector<Lease> StoreConformance::lease_all(const std::string& queue,
                                               std::optional<Duration> lease_for,
                                               std::source_location where) {
  return lease({.queue = queue, .lanes = 1000, .lease = lease_for}, where);
}

Lease StoreConformance::seize(const std::string& queue, const std::string& key,
                              std::optional<Duration> lease_for, std::source_location where) {
  const LeaseRequest request{.queue = queue, .key = key, .seize = true, .lease = lease_for};
  return only_one(lease(request, where), request, where);
}

Answer<Time> StoreConformance::renew(const Lease& lease, Duration duration) {
  return store().renew(std::array{lease.token}, duration).at(0);
}

Answer<Pulled> StoreConformance::pull(const Lease& lease, PullLimits limits) {
  return store().pull(lease.token, lease.cursor, limits);
}

Answer<Pulled> StoreConformance::pull(const Lease& lease, Cursor cursor, PullLimits limits) {
  return store().pull(lease.token, cursor, limits);
}

Bodies StoreConformance::drain(const std::string& queue, std::source_location where) {
  constexpr int leases_max = 100'000;
  Bodies all;
  for (int i = 0; i < leases_max; ++i) {
    const std::vector<Lease> leases = lease({.queue = queue}, where);
    if (leases.empty()) return all;
    std::ranges::copy(bodies(leases), std::back_inserter(all));
    std::ignore = ack(leases.front()).value(where);
  }
  throw CannotGoOn("queue " + queue + " does not become empty", where);
}

// --- Settling ---

Answer<Receipt> StoreConformance::settle(const Settle& settle) {
  Transaction transaction;
  transaction.settles.push_back(settle);
  return apply(transaction);
}

Answer<Receipt> StoreConformance::settle(const Lease& lease, std::vector<Outcome> outcomes,
                                         Then then) {
  return settle(settlement(lease, std::move(outcomes), then));
}

Answer<Receipt> StoreConformance::ack(const Lease& lease, Then then) {
  std::vector<Outcome> outcomes;
  for (const Message& message : lease.messages)
    outcomes.push_back(acked(message.id));
  return settle(lease, std::move(outcomes), then);
}

Answer<Receipt> StoreConformance::retry(const Lease& lease, std::optional<Duration> delay,
                                        std::string reason) {
  return settle(lease, {retried(lease.messages.at(0).id, delay, std::move(reason))});
}

Answer<Receipt> StoreConformance::dead(const Lease& lease, std::string reason) {
  return settle(lease, {made_dead(lease.messages.at(0).id, std::move(reason))});
}

Answer<Receipt> StoreConformance::release(const Lease& lease) { return settle(lease, {}); }

Answer<Receipt> StoreConformance::keep(const Lease& lease) { return settle(lease, {}, Then::keep); }

Answer<Receipt> StoreConformance::park(const Lease& lease, std::string reason) {
  Settle parking = settlement(lease, {}, Then::park);
  parking.park_reason = std::move(reason);
  return settle(parking);
}

// --- Administration ---

Answer<Receipt> StoreConformance::admin(Administration administration) {
  Transaction transaction;
  transaction.admin = std::move(administration);
  return apply(transaction);
}

void StoreConformance::configure(const std::string& queue, const QueueSettings& settings,
                                 std::source_location where) {
  std::ignore = admin(ConfigureQueue{.queue = queue, .settings = settings}).value(where);
}

void StoreConformance::pause(const std::string& queue, std::source_location where) {
  std::ignore = admin(PauseQueue{queue}).value(where);
}

void StoreConformance::resume(const std::string& queue, std::source_location where) {
  std::ignore = admin(ResumeQueue{queue}).value(where);
}

void StoreConformance::resume_lane(const std::string& queue, const std::string& key,
                                   std::source_location where) {
  std::ignore = admin(ResumeLane{.queue = queue, .key = key, .id = {}}).value(where);
}

void StoreConformance::redrive(const std::string& queue, Ids ids, std::optional<std::string> to,
                               std::source_location where) {
  std::ignore =
      admin(Redrive{.queue = queue, .ids = std::move(ids), .to = std::move(to)}).value(where);
}

void StoreConformance::purge(const std::string& queue, std::optional<std::string> key,
                             std::source_location where) {
  std::ignore = admin(PurgeQueue{.queue = queue, .key = std::move(key)}).value(where);
}

// --- Reading ---

QueueStats StoreConformance::stats(const std::string& queue, std::source_location where) {
  return Answer(store().stats(queue)).value(where);
}

QueueSettings StoreConformance::settings(const std::string& queue, std::source_location where) {
  for (const QueueInfo& info : Answer(store().queues()).value(where)) {
    if (info.name == queue) return info.settings;
  }
  throw CannotGoOn("no queue " + queue, where);
}

bool StoreConformance::has_queue(const std::string& queue, std::source_location where) {
  const std::vector<QueueInfo> all = Answer(store().queues()).value(where);
  return std::ranges::find(all, queue, &QueueInfo::name) != all.end();
}

std::vector<PeekedMessage> StoreConformance::all_pages(PeekQuery query,
                                                       const std::source_location& where) {
  std::vector<PeekedMessage> all;
  while (true) {
    const Page<PeekedMessage> page = Answer(store().peek(query)).value(where);
    std::ranges::copy(page.items, std::back_inserter(all));
    if (!page.more) return all;
    if (page.items.empty()) throw CannotGoOn("an empty page of peek with more behind it", where);
    query.after = page.items.back().id;
  }
}

std::vector<PeekedMessage> StoreConformance::peek(const std::string& queue,
                                                  std::optional<MessageState> state,
                                                  std::source_location where) {
  return all_pages({.queue = queue, .key = {}, .state = state, .after = {}}, where);
}

std::vector<PeekedMessage> StoreConformance::peek_lane(const std::string& queue,
                                                       const std::string& key,
                                                       std::source_location where) {
  return all_pages({.queue = queue, .key = key, .state = {}, .after = {}}, where);
}

PeekedMessage StoreConformance::peek_one(const std::string& queue, std::string_view body,
                                         std::source_location where) {
  return with_body(peek(queue, {}, where), body, where);
}

std::vector<DeadLetter> StoreConformance::dead_letters(const std::string& queue,
                                                       std::source_location where) {
  std::vector<DeadLetter> all;
  DeadLettersQuery query{.queue = queue, .after = {}};
  while (true) {
    const Page<DeadLetter> page = Answer(store().dead_letters(query)).value(where);
    std::ranges::copy(page.items, std::back_inserter(all));
    if (!page.more) return all;
    if (page.items.empty()) throw CannotGoOn("an empty page of dead letters with more", where);
    query.after = page.items.back().id;
  }
}

DeadLetter StoreConformance::dead_letter(const std::string& queue, std::string_view body,
                                         std::source_location where) {
  return with_body(dead_letters(queue, where), body, where);
}

// --- What holds after every test ---

void StoreConformance::expect_conserved(const std::string& queue) {
  SCOPED_TRACE("conservation in queue " + queue);
  const QueueStats s = stats(queue);
  EXPECT_EQ(s.accepted, s.acked + s.expired + s.dropped + s.moved + s.purged + s.dead + s.live())
      << ::testing::PrintToString(s);

  std::map<MessageState, std::uint64_t> seen;
  for (const PeekedMessage& message : peek(queue))
    ++seen[message.state];
  EXPECT_EQ(seen[MessageState::ready], s.ready);
  EXPECT_EQ(seen[MessageState::delayed] + seen[MessageState::backoff], s.delayed);
  EXPECT_EQ(seen[MessageState::backoff], s.backoff);
  EXPECT_EQ(seen[MessageState::waiting], s.waiting);
  EXPECT_EQ(seen[MessageState::leased], s.leased);
  EXPECT_EQ(seen[MessageState::parked], s.parked);
  EXPECT_EQ(dead_letters(queue).size(), s.dead);
}

struct StoreConformance::QueueState {
  QueueInfo info;
  QueueStats stats;
  std::vector<PeekedMessage> live;
  std::vector<DeadLetter> dead;
  std::vector<Execution> instances;
};

std::vector<StoreConformance::QueueState> StoreConformance::states_of_all_queues() {
  std::vector<QueueState> all;
  for (const QueueInfo& info : Answer(store().queues()).value()) {
    QueueState state{.info = info,
                     .stats = stats(info.name),
                     .live = peek(info.name),
                     .dead = dead_letters(info.name),
                     .instances = {}};
    // Where a lane stands in the order of service may change: see semantics.md, Leases.
    state.stats.oldest_ready.reset();
    const InstancesQuery query{.queue = info.name, .open = {}, .after = {}, .limit = 1000};
    state.instances = Answer(store().instances(query)).value().items;
    all.push_back(std::move(state));
  }
  return all;
}

void StoreConformance::expect_reopening_changes_nothing() {
  // After the wall clock was set by hand, store time may jump at the next open, and rightly so.
  if (clock_->wall() - clock_->monotonic() != wall_at_zero_) return;

  SCOPED_TRACE("reopening after the test");
  const std::vector<QueueState> before = states_of_all_queues();
  reopen();
  const std::vector<QueueState> after = states_of_all_queues();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].info, after[i].info);
    EXPECT_EQ(before[i].stats, after[i].stats);
    EXPECT_EQ(before[i].live, after[i].live);
    EXPECT_EQ(before[i].dead, after[i].dead);
    EXPECT_EQ(before[i].instances, after[i].instances);
  }
}

}  // namespace strand::conformance
