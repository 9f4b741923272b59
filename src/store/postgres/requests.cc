#include "store/postgres/requests.h"

#include <algorithm>
#include <array>
#include <deque>

#include <fmt/format.h>

#include "store/contract/check.h"
#include "store/contract/fingerprint.h"
#include "store/postgres/places.h"

namespace strand::postgres {

namespace {

using MaybeText = std::optional<std::string_view>;
using MaybeNumber = std::optional<std::int64_t>;

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Limits may be the largest number there is.
std::int64_t capped(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
}

MaybeNumber duration(const std::optional<Duration>& value) {
  return value ? MaybeNumber(value->count()) : std::nullopt;
}

MaybeText text(const std::optional<std::string>& value) {
  return value ? MaybeText(*value) : std::nullopt;
}

// What is empty is left out.
MaybeText stated(std::string_view value) { return value.empty() ? std::nullopt : MaybeText(value); }

// The columns that sends and publications have in common.
struct ContentColumns {
  std::vector<MaybeText> keys, bodies, headers, dedup_ids;
  std::vector<std::int32_t> bytes, priorities;
  std::vector<MaybeNumber> delays, ttls;
  std::deque<std::string> encoded;  // headers

  void add(const Content& content) {
    keys.push_back(text(content.key));
    bodies.emplace_back(content.body);
    encoded.push_back(encode_headers(content.headers));
    headers.push_back(stated(encoded.back()));
    dedup_ids.push_back(text(content.dedup_id));
    bytes.push_back(static_cast<std::int32_t>(content_bytes(content.body, content.headers)));
    priorities.push_back(static_cast<std::int32_t>(content.priority));
    delays.push_back(content.delay > Duration{} ? MaybeNumber(content.delay.count())
                                                : std::nullopt);
    ttls.push_back(duration(content.ttl));
  }
  void put(Params& params) const {
    params.sparse_byteas(keys)
        .byteas(bodies)
        .sparse_byteas(headers)
        .int4s(std::span<const std::int32_t>(bytes))
        .int4s(std::span<const std::int32_t>(priorities))
        .sparse_int8s(delays)
        .sparse_int8s(ttls)
        .sparse_byteas(dedup_ids);
  }
};

Statement send_statement(const std::vector<Send>& sends, const Limits& limits, MaybeNumber room) {
  ContentColumns content;
  std::vector<MaybeText> queues, labels, names, notice_queues, notice_keys;
  std::vector<MaybeNumber> attempts;
  for (const Send& send : sends) {
    content.add(send);
    queues.emplace_back(send.queue);
    labels.push_back(stated(send.label));
    names.push_back(text(send.name));
    attempts.push_back(send.max_attempts ? MaybeNumber(*send.max_attempts) : std::nullopt);
    notice_queues.push_back(send.dead_notice_to ? MaybeText(send.dead_notice_to->queue)
                                                : std::nullopt);
    notice_keys.push_back(send.dead_notice_to ? text(send.dead_notice_to->key) : std::nullopt);
  }
  Statement statement{
      .sql =
          "select ids, duplicates::int[]::bigint[] from send($1, $2, $3, $4, $5, $6, $7, $8, "
          "$9, $10, $11, $12, $13, $14, $15, $16, $17)"};
  statement.params.texts(queues);
  content.put(statement.params);
  statement.params.sparse_texts(labels)
      .sparse_byteas(names)
      .sparse_int8s(attempts)
      .sparse_texts(notice_queues)
      .sparse_byteas(notice_keys)
      .int8(capped(limits.queues_max))
      .int8(capped(limits.dedup_ids_max))
      .int8(room);
  return statement;
}

Statement publish_statement(const std::vector<Publish>& publishes, const Limits& limits,
                            MaybeNumber room) {
  ContentColumns content;
  std::vector<MaybeText> topics, patterns;
  std::deque<std::optional<std::string>> matching;
  for (const Publish& publish : publishes) {
    content.add(publish);
    topics.emplace_back(publish.topic);
    matching.push_back(patterns_of(publish.topic));
    patterns.push_back(text(matching.back()));
  }
  Statement statement{
      .sql =
          "select ids, duplicates::int[]::bigint[], matches::bigint[] from publish($1, $2, $3, "
          "$4, $5, $6, $7, $8, $9, $10, $11, $12)"};
  statement.params.texts(topics).texts(patterns);
  content.put(statement.params);
  statement.params.int8(capped(limits.dedup_ids_max)).int8(room);
  return statement;
}

struct TokenColumns {
  std::vector<std::int64_t> places, epochs;

  void add(const Token& token) {
    places.push_back(number(token.place()));
    epochs.push_back(number(static_cast<std::uint64_t>(token.epoch())));
  }
  void put(Params& params) const {
    params.int8s(std::span<const std::int64_t>(places));
    params.int8s(std::span<const std::int64_t>(epochs));
  }
};

Statement settle_statement(const std::vector<Settle>& settles, const Limits& limits) {
  TokenColumns tokens;
  std::vector<std::int32_t> thens, of, kinds;
  std::vector<MaybeText> park_reasons, labels, owners, reasons;
  std::vector<MaybeNumber> valid, grace, delays;
  std::vector<std::int64_t> ids;
  for (const Settle& settle : settles) {
    tokens.add(settle.token);
    thens.push_back(static_cast<std::int32_t>(settle.then));
    park_reasons.push_back(stated(settle.park_reason));
    labels.push_back(text(settle.label));
    const auto& hint = settle.owner_hint;
    owners.push_back(hint ? MaybeText(hint->owner) : std::nullopt);
    valid.push_back(hint ? MaybeNumber(hint->valid_for.count()) : std::nullopt);
    grace.push_back(hint ? MaybeNumber(hint->grace.count()) : std::nullopt);
    for (const Outcome& outcome : settle.outcomes) {
      of.push_back(static_cast<std::int32_t>(thens.size()));
      ids.push_back(number(static_cast<std::uint64_t>(outcome.id)));
      kinds.push_back(static_cast<std::int32_t>(outcome.kind));
      delays.push_back(duration(outcome.delay));
      reasons.push_back(stated(outcome.reason));
    }
  }
  Statement statement{.sql =
                          "select settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
                          "$13, $14)"};
  tokens.put(statement.params);
  statement.params.int4s(std::span<const std::int32_t>(thens))
      .sparse_byteas(park_reasons)
      .sparse_texts(labels)
      .sparse_texts(owners)
      .sparse_int8s(valid)
      .sparse_int8s(grace)
      .int4s(std::span<const std::int32_t>(of))
      .int8s(std::span<const std::int64_t>(ids))
      .int4s(std::span<const std::int32_t>(kinds))
      .sparse_int8s(delays)
      .sparse_byteas(reasons)
      .int4(static_cast<std::int32_t>(limits.failures_kept_max));
  return statement;
}

Statement cancel_statement(const std::vector<Cancel>& cancels) {
  std::vector<MaybeText> queues, names;
  std::vector<std::int32_t> quiet;
  for (const Cancel& cancel : cancels) {
    queues.emplace_back(cancel.queue);
    names.emplace_back(cancel.name);
    quiet.push_back(cancel.quiet ? 1 : 0);
  }
  Statement statement{.sql = "select cancel($1, $2, $3)::int[]::bigint[]"};
  statement.params.texts(queues).byteas(names).int4s(std::span<const std::int32_t>(quiet));
  return statement;
}

Statement records_statement(const std::vector<WriteRecord>& records) {
  std::vector<MaybeText> spaces, keys, values;
  std::vector<MaybeNumber> expected;
  for (const WriteRecord& record : records) {
    spaces.emplace_back(record.space);
    keys.emplace_back(record.key);
    values.push_back(text(record.value));
    expected.push_back(record.expected
                           ? MaybeNumber(number(static_cast<std::uint64_t>(*record.expected)))
                           : std::nullopt);
  }
  Statement statement{.sql = "select write_records($1, $2, $3, $4)"};
  statement.params.byteas(spaces).byteas(keys).byteas(values).int8s(expected);
  return statement;
}

Statement remove_histories_statement(const std::vector<RemoveHistory>& removals) {
  TokenColumns tokens;
  std::vector<std::int64_t> through;
  for (const RemoveHistory& removal : removals) {
    tokens.add(removal.token);
    through.push_back(number(removal.through_execution));
  }
  Statement statement{.sql = "select remove_histories($1, $2, $3)"};
  tokens.put(statement.params);
  statement.params.int8s(std::span<const std::int64_t>(through));
  return statement;
}

Statement append_statement(const std::vector<Append>& appends) {
  TokenColumns tokens;
  std::vector<std::int64_t> executions, expected;
  std::vector<std::int32_t> counts;
  std::vector<MaybeText> events, closes;
  for (const Append& append : appends) {
    tokens.add(append.token);
    executions.push_back(number(append.execution));
    expected.push_back(number(append.expected_length));
    counts.push_back(static_cast<std::int32_t>(append.events.size()));
    for (const Bytes& event : append.events)
      events.emplace_back(event);
    closes.push_back(text(append.close));
  }
  Statement statement{.sql = "select append_histories($1, $2, $3, $4, $5, $6, $7)"};
  tokens.put(statement.params);
  statement.params.int8s(std::span<const std::int64_t>(executions))
      .int8s(std::span<const std::int64_t>(expected))
      .int4s(std::span<const std::int32_t>(counts))
      .byteas(events)
      .byteas(closes);
  return statement;
}

Statement trim_statement(const std::vector<TrimHistory>& trims) {
  TokenColumns tokens;
  std::vector<std::int64_t> executions, before;
  for (const TrimHistory& trim : trims) {
    tokens.add(trim.token);
    executions.push_back(capped(trim.execution));
    before.push_back(capped(trim.before));
  }
  Statement statement{.sql = "select trim_histories($1, $2, $3, $4)"};
  tokens.put(statement.params);
  statement.params.int8s(std::span<const std::int64_t>(executions))
      .int8s(std::span<const std::int64_t>(before));
  return statement;
}

// One administration, as a call of its function.
class AdminStatement {
 public:
  explicit AdminStatement(const Limits& limits) : limits_(limits) {}

  Statement operator()(const ConfigureQueue& op) const {
    const QueueSettings& s = op.settings;
    std::vector<std::int64_t> backoff;
    for (const Duration step : s.backoff)
      backoff.push_back(step.count());
    Statement statement{.sql =
                            "select configure_queue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
                            "$11, $12, $13, $14, $15)"};
    statement.params.text(op.queue)
        .int8(s.max_attempts)
        .int8s(std::span<const std::int64_t>(backoff))
        .int4(static_cast<std::int32_t>(s.backoff_jitter_percent))
        .text(s.retry_policy == RetryPolicy::skip ? "skip" : "block")
        .text(s.on_exhausted == OnExhausted::park ? "park" : "dead")
        .int8(duration(s.ttl))
        .text(s.on_expired == OnExpired::dead ? "dead" : "drop")
        .int8(s.dedup_window.count())
        .int8(s.lease.count())
        .int8(s.starvation_after.count())
        .int8(capped(s.max_length))
        .text(s.dead_notice_to ? MaybeText(s.dead_notice_to->queue) : std::nullopt)
        .bytea(s.dead_notice_to ? text(s.dead_notice_to->key) : std::nullopt)
        .int8(capped(limits_.queues_max));
    return statement;
  }
  Statement operator()(const PauseQueue& op) const { return pause(op.queue, true); }
  Statement operator()(const ResumeQueue& op) const { return pause(op.queue, false); }
  Statement operator()(const ResumeLane& op) const {
    Statement statement{.sql = "select resume_lane($1, $2, $3)"};
    statement.params.text(op.queue)
        .bytea(text(op.key))
        .int8(op.id ? MaybeNumber(number(static_cast<std::uint64_t>(*op.id))) : std::nullopt);
    return statement;
  }
  Statement operator()(const PurgeQueue& op) const {
    Statement statement{.sql = "select purge_queue($1, $2)"};
    statement.params.text(op.queue).bytea(text(op.key));
    return statement;
  }
  Statement operator()(const RemoveQueue& op) const {
    Statement statement{.sql = "select remove_queue($1, $2)"};
    statement.params.text(op.queue).boolean(op.force);
    return statement;
  }
  Statement operator()(const Redrive& op) const {
    Statement statement{.sql = "select redrive($1, $2, $3, $4, $5)"};
    statement.params.text(op.queue)
        .int8s(std::span<const std::int64_t>(ids(op.ids)))
        .text(text(op.to))
        .int8(capped(limits_.queues_max))
        .int8(capped(limits_.transaction_bytes_max));
    return statement;
  }
  Statement operator()(const DropDead& op) const {
    Statement statement{.sql = "select drop_dead($1, $2)"};
    statement.params.text(op.queue).int8s(std::span<const std::int64_t>(ids(op.ids)));
    return statement;
  }
  Statement operator()(const Subscribe& op) const {
    Statement statement{.sql = "select subscribe($1, $2, $3, $4, $5, $6)"};
    statement.params.text(op.queue)
        .text(op.pattern)
        .int8(op.from ? MaybeNumber(milliseconds(*op.from)) : std::nullopt)
        .int8(capped(limits_.queues_max))
        .int8(capped(limits_.subscriptions_max))
        .int8(capped(limits_.transaction_operations_max));
    return statement;
  }
  Statement operator()(const Unsubscribe& op) const {
    Statement statement{.sql = "select unsubscribe($1)"};
    statement.params.text(op.queue);
    return statement;
  }
  Statement operator()(const ConfigureTopic& op) const {
    Statement statement{.sql = "select configure_topic($1, $2, $3)"};
    statement.params.text(op.topic)
        .int8(op.settings.retain.count())
        .int8(capped(limits_.subscriptions_max));
    return statement;
  }

 private:
  static Statement pause(const std::string& queue, bool paused) {
    Statement statement{.sql = "select pause_queue($1, $2)"};
    statement.params.text(queue).boolean(paused);
    return statement;
  }
  static std::vector<std::int64_t> ids(const std::vector<MessageId>& ids) {
    std::vector<std::int64_t> numbers;
    for (const MessageId id : ids)
      numbers.push_back(number(static_cast<std::uint64_t>(id)));
    return numbers;
  }

  const Limits& limits_;
};

void put_length(std::string& out, std::size_t length) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(length >> static_cast<unsigned>(shift)));
}

std::string_view take_text(std::string_view& bytes) {
  std::size_t length = 0;
  for (int i = 0; i < 4; ++i)
    length = length << 8U | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  const std::string_view result = bytes.substr(4, length);
  bytes.remove_prefix(4 + length);
  return result;
}

}  // namespace

std::string encode_headers(const Headers& headers) {
  std::string out;
  for (const Header& header : headers) {
    put_length(out, header.name.size());
    out += header.name;
    put_length(out, header.value.size());
    out += header.value;
  }
  return out;
}

Headers decode_headers(std::string_view bytes) {
  Headers headers;
  while (bytes.size() >= 4) {
    const std::string_view name = take_text(bytes);
    const std::string_view value = take_text(bytes);
    headers.push_back({.name = std::string(name), .value = std::string(value)});
  }
  return headers;
}

std::optional<std::string> patterns_of(std::string_view topic) {
  constexpr std::ptrdiff_t segments_max = 8;
  if (std::ranges::count(topic, '.') >= segments_max) return std::nullopt;
  // Each round has all patterns for the segments so far.
  std::vector<std::string> begun = {""};
  std::string all = "#";
  while (true) {
    const std::size_t dot = topic.find('.');
    const std::string_view segment = topic.substr(0, dot);
    std::vector<std::string> longer;
    for (const std::string& pattern : begun) {
      for (const std::string_view next : {segment, std::string_view("*")}) {
        longer.push_back(pattern.empty() ? std::string(next) : fmt::format("{}.{}", pattern, next));
        all += "\n" + longer.back() + ".#";
        if (dot == std::string_view::npos) all += "\n" + longer.back();
      }
    }
    if (dot == std::string_view::npos) return all;
    begun = std::move(longer);
    topic.remove_prefix(dot + 1);
  }
}

Statement begin_statement(const Transaction& transaction, const Limits& limits) {
  const TransactionId& id = *transaction.id;
  const store::Fingerprint content = store::fingerprint(transaction);
  std::string bytes;
  for (const std::uint64_t half : {content.high, content.low}) {
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(half >> static_cast<unsigned>(shift)));
  }
  Statement statement{.sql = "select begin_transaction($1, $2, $3, $4, $5, $6, $7)"};
  statement.params.int8(number(id.client))
      .int8(number(id.number))
      .int8(milliseconds(id.time))
      .int8(number(id.lowest_unanswered))
      .bytea(bytes)
      .int8(limits.transaction_window.count())
      .int8(capped(limits.transaction_ids_max));
  return statement;
}

TransactionPlan plan(const Transaction& transaction, const Limits& limits, bool nearly_full) {
  TransactionPlan plan;
  // What settles may pass a little later, so that a full store can be drained by those who hand on
  // what they have done.
  MaybeNumber room;
  if (nearly_full) {
    room = capped(transaction.settles.empty()
                      ? limits.memory_bytes_max
                      : limits.memory_bytes_max + (limits.memory_bytes_max / 8));
  }
  const auto add = [&](Statement statement) {
    plan.statements.push_back(std::move(statement));
    return plan.statements.size() - 1;
  };
  if (transaction.id) add(begin_statement(transaction, limits));
  const std::size_t places = transaction.settles.size() + transaction.appends.size() +
                             transaction.trim_histories.size() +
                             transaction.remove_histories.size();
  if (places > 1 || (places > 0 && !transaction.sends.empty())) {
    const Transaction* const one = &transaction;
    add(lock_lanes(std::span(&one, 1)));
  }
  if (!transaction.remove_histories.empty()) {
    add(remove_histories_statement(transaction.remove_histories));
  }
  if (!transaction.appends.empty()) add(append_statement(transaction.appends));
  if (!transaction.trim_histories.empty()) add(trim_statement(transaction.trim_histories));
  if (!transaction.settles.empty()) add(settle_statement(transaction.settles, limits));
  if (!transaction.cancels.empty()) plan.cancels = add(cancel_statement(transaction.cancels));
  if (!transaction.sends.empty()) plan.sends = add(send_statement(transaction.sends, limits, room));
  if (!transaction.publishes.empty()) {
    plan.publishes = add(publish_statement(transaction.publishes, limits, room));
  }
  if (!transaction.records.empty()) plan.records = add(records_statement(transaction.records));
  if (transaction.admin) plan.admin = add(std::visit(AdminStatement(limits), *transaction.admin));
  plan.time = add(Statement{.sql = "select end_transaction()"});
  return plan;
}

Statement lock_lanes(std::span<const Transaction* const> transactions) {
  std::vector<std::int64_t> places;
  std::vector<MaybeText> queues, keys;
  const auto add = [&](const Token& token) {
    if (!is_unkeyed(token)) places.push_back(number(token.place()));
  };
  for (const Transaction* transaction : transactions) {
    for (const RemoveHistory& removal : transaction->remove_histories)
      add(removal.token);
    for (const Append& append : transaction->appends)
      add(append.token);
    for (const TrimHistory& trim : transaction->trim_histories)
      add(trim.token);
    for (const Settle& settle : transaction->settles)
      add(settle.token);
    for (const Send& send : transaction->sends) {
      if (!send.key) continue;
      queues.emplace_back(send.queue);
      keys.emplace_back(*send.key);
    }
  }
  Statement statement{.sql = "select lock_known_lanes($1, $2, $3)"};
  statement.params.int8s(std::span<const std::int64_t>(places)).texts(queues).byteas(keys);
  return statement;
}

Statement lease_statement(const LeaseRequest& request, const Limits& limits, std::uint64_t granted,
                          const Turn& bound) {
  // A label named twice is no other wish.
  std::vector<std::string> distinct = request.labels;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  const std::vector<MaybeText> labels(distinct.begin(), distinct.end());
  Statement statement{.sql =
                          "select * from lease($1, nullif($2, '{}'::text[]), $3, $4, $5, $6, "
                          "$7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"};
  statement.params.text(request.queue)
      .texts(labels)
      .text(request.owner)
      .int4(static_cast<std::int32_t>(request.lanes))
      .int4(static_cast<std::int32_t>(request.messages))
      .int8(capped(request.bytes))
      .int8(duration(request.lease))
      .bytea(text(request.key))
      .boolean(request.seize)
      .int8(request.request ? MaybeNumber(number(request.request->client)) : std::nullopt)
      .int8(request.request ? MaybeNumber(number(request.request->number)) : std::nullopt)
      .int8(number(granted))
      .int4(bound.priority)
      .int8(bound.number)
      .int8(limits.request_window.count())
      .int8(capped(limits.request_ids_max));
  return statement;
}

Statement pull_statement(const Token& token, Cursor cursor, const PullLimits& limits) {
  Statement statement{.sql = "select * from pull($1, $2, $3, $4, $5)"};
  statement.params.int8(number(token.place()))
      .int8(number(static_cast<std::uint64_t>(token.epoch())))
      .int8(number(static_cast<std::uint64_t>(cursor)))
      .int4(static_cast<std::int32_t>(limits.messages))
      .int8(capped(limits.bytes));
  return statement;
}

Statement renew_statement(std::span<const Token> tokens, Duration lease) {
  TokenColumns columns;
  for (const Token& token : tokens)
    columns.add(token);
  Statement statement{.sql = "select renew($1, $2, $3)"};
  columns.put(statement.params);
  statement.params.int8(lease.count());
  return statement;
}

}  // namespace strand::postgres
