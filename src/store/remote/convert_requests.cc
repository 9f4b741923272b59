#include <utility>
#include <variant>

#include <fmt/format.h>

#include "store/remote/convert.h"
#include "store/remote/convert_parts.h"

namespace strand::remote {

namespace {

// --- Writing ---

void write_content(const Content& content, v1::Content& to) {
  if (content.key) to.set_key(*content.key);
  to.set_body(content.body);
  write(content.headers, *to.mutable_headers());
  to.set_priority(wire_priority(content.priority));
  if (content.delay != Duration{0}) to.set_delay_ms(ms(content.delay));
  if (content.ttl) to.set_ttl_ms(ms(*content.ttl));
  if (content.dedup_id) to.set_dedup_id(*content.dedup_id);
}

void write_send(const Send& send, v1::Send& to) {
  to.set_queue(send.queue);
  write_content(send, *to.mutable_content());
  if (!send.label.empty()) to.set_label(send.label);
  if (send.name) to.set_name(*send.name);
  if (send.max_attempts) to.set_max_attempts(*send.max_attempts);
  if (send.dead_notice_to) write(*send.dead_notice_to, *to.mutable_dead_notice_to());
}

v1::Outcome::Kind wire_kind(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::ack:
      return v1::Outcome::KIND_ACK;
    case Outcome::Kind::retry:
      return v1::Outcome::KIND_RETRY;
    case Outcome::Kind::dead:
      return v1::Outcome::KIND_DEAD;
    case Outcome::Kind::release:
      return v1::Outcome::KIND_RELEASE;
  }
  return one_more<v1::Outcome::Kind>(kind);
}

v1::Settle::Then wire_then(Settle::Then then) {
  switch (then) {
    case Settle::Then::end:
      return v1::Settle::THEN_END;
    case Settle::Then::keep:
      return v1::Settle::THEN_KEEP;
    case Settle::Then::park:
      return v1::Settle::THEN_PARK;
  }
  return one_more<v1::Settle::Then>(then);
}

bool is_plain_ack(const Outcome& outcome) {
  return outcome.kind == Outcome::Kind::ack && !outcome.delay && outcome.reason.empty();
}

void write_settle(const Settle& settle, v1::Settle& to) {
  to.set_token(settle.token.to_string());
  // Acks behind everything else are written short. The order of outcomes is kept.
  std::size_t plain = settle.outcomes.size();
  while (plain > 0 && is_plain_ack(settle.outcomes[plain - 1]))
    --plain;
  for (std::size_t i = 0; i < plain; ++i) {
    const Outcome& outcome = settle.outcomes[i];
    v1::Outcome& one = *to.add_outcomes();
    one.set_id(static_cast<std::uint64_t>(outcome.id));
    one.set_kind(wire_kind(outcome.kind));
    if (outcome.delay) one.set_delay_ms(ms(*outcome.delay));
    one.set_reason(outcome.reason);
  }
  to.mutable_acked()->Reserve(static_cast<int>(settle.outcomes.size() - plain));
  for (std::size_t i = plain; i < settle.outcomes.size(); ++i) {
    to.add_acked(static_cast<std::uint64_t>(settle.outcomes[i].id));
  }
  to.set_then(wire_then(settle.then));
  to.set_park_reason(settle.park_reason);
  if (settle.label) to.set_label(*settle.label);
  if (settle.owner_hint) {
    v1::OwnerHint& hint = *to.mutable_owner_hint();
    hint.set_owner(settle.owner_hint->owner);
    hint.set_valid_for_ms(ms(settle.owner_hint->valid_for));
    hint.set_grace_ms(ms(settle.owner_hint->grace));
  }
}

void write_ids(const std::vector<MessageId>& ids,
               google::protobuf::RepeatedField<std::uint64_t>& to) {
  to.Reserve(static_cast<int>(ids.size()));
  for (const MessageId id : ids)
    to.Add(static_cast<std::uint64_t>(id));
}

struct WriteAdmin {
  v1::Administration& to;

  void operator()(const ConfigureQueue& admin) const {
    v1::ConfigureQueue& one = *to.mutable_configure_queue();
    one.set_queue(admin.queue);
    write(admin.settings, *one.mutable_settings());
  }
  void operator()(const PauseQueue& admin) const {
    to.mutable_pause_queue()->set_queue(admin.queue);
  }
  void operator()(const ResumeQueue& admin) const {
    to.mutable_resume_queue()->set_queue(admin.queue);
  }
  void operator()(const ResumeLane& admin) const {
    v1::ResumeLane& one = *to.mutable_resume_lane();
    one.set_queue(admin.queue);
    if (admin.key) one.set_key(*admin.key);
    if (admin.id) one.set_id(static_cast<std::uint64_t>(*admin.id));
  }
  void operator()(const PurgeQueue& admin) const {
    v1::PurgeQueue& one = *to.mutable_purge_queue();
    one.set_queue(admin.queue);
    if (admin.key) one.set_key(*admin.key);
  }
  void operator()(const RemoveQueue& admin) const {
    to.mutable_remove_queue()->set_queue(admin.queue);
    to.mutable_remove_queue()->set_force(admin.force);
  }
  void operator()(const Redrive& admin) const {
    v1::Redrive& one = *to.mutable_redrive();
    one.set_queue(admin.queue);
    write_ids(admin.ids, *one.mutable_ids());
    if (admin.to) one.set_to(*admin.to);
  }
  void operator()(const DropDead& admin) const {
    v1::DropDead& one = *to.mutable_drop_dead();
    one.set_queue(admin.queue);
    write_ids(admin.ids, *one.mutable_ids());
  }
  void operator()(const Subscribe& admin) const {
    v1::Subscribe& one = *to.mutable_subscribe();
    one.set_queue(admin.queue);
    one.set_pattern(admin.pattern);
    if (admin.from) one.set_from_ms(ms(*admin.from));
  }
  void operator()(const Unsubscribe& admin) const {
    to.mutable_unsubscribe()->set_queue(admin.queue);
  }
  void operator()(const ConfigureTopic& admin) const {
    v1::ConfigureTopic& one = *to.mutable_configure_topic();
    one.set_topic(admin.topic);
    write(admin.settings, *one.mutable_settings());
  }
};

// --- Reading ---

// Takes what the message holds, or keeps what the value has.
template <class Field>
std::optional<std::string> taken(bool has, Field* field) {
  if (!has) return std::nullopt;
  return std::move(*field);
}

Result<void> read_content(v1::Content& from, Content& content) {
  content.key = taken(from.has_key(), from.mutable_key());
  content.body = std::move(*from.mutable_body());
  content.headers = read_headers(*from.mutable_headers());
  const auto priority = read_priority(from.priority());
  if (!priority) return std::unexpected(priority.error());
  content.priority = *priority;
  content.delay = Duration{from.delay_ms()};
  if (from.has_ttl_ms()) content.ttl = Duration{from.ttl_ms()};
  content.dedup_id = taken(from.has_dedup_id(), from.mutable_dedup_id());
  return {};
}

Result<Send> read_send(v1::Send& from) {
  Send send;
  if (auto read = read_content(*from.mutable_content(), send); !read) {
    return std::unexpected(std::move(read).error());
  }
  send.queue = std::move(*from.mutable_queue());
  send.label = std::move(*from.mutable_label());
  send.name = taken(from.has_name(), from.mutable_name());
  if (from.has_max_attempts()) send.max_attempts = from.max_attempts();
  if (from.has_dead_notice_to()) send.dead_notice_to = read_address(from.dead_notice_to());
  return send;
}

Result<Outcome> read_outcome(v1::Outcome& from) {
  Outcome outcome{.id = MessageId{from.id()}, .reason = std::move(*from.mutable_reason())};
  if (from.has_delay_ms()) outcome.delay = Duration{from.delay_ms()};
  switch (from.kind()) {
    case v1::Outcome::KIND_ACK:
      outcome.kind = Outcome::Kind::ack;
      return outcome;
    case v1::Outcome::KIND_RETRY:
      outcome.kind = Outcome::Kind::retry;
      return outcome;
    case v1::Outcome::KIND_DEAD:
      outcome.kind = Outcome::Kind::dead;
      return outcome;
    case v1::Outcome::KIND_RELEASE:
      outcome.kind = Outcome::Kind::release;
      return outcome;
    default:
      return no_such_value("kind of an outcome", from.kind());
  }
}

Result<Settle::Then> read_then(v1::Settle::Then then) {
  switch (then) {
    case v1::Settle::THEN_UNSPECIFIED:
    case v1::Settle::THEN_END:
      return Settle::Then::end;
    case v1::Settle::THEN_KEEP:
      return Settle::Then::keep;
    case v1::Settle::THEN_PARK:
      return Settle::Then::park;
    default:
      return no_such_value("then", then);
  }
}

Result<Settle> read_settle(v1::Settle& from) {
  Settle settle;
  const auto token = Token::parse(from.token());
  if (!token) return std::unexpected(token.error());
  settle.token = *token;
  settle.outcomes.reserve(static_cast<std::size_t>(from.outcomes_size()) +
                          static_cast<std::size_t>(from.acked_size()));
  for (v1::Outcome& one : *from.mutable_outcomes()) {
    auto outcome = read_outcome(one);
    if (!outcome) return std::unexpected(std::move(outcome).error());
    settle.outcomes.push_back(*std::move(outcome));
  }
  for (const std::uint64_t id : from.acked())
    settle.outcomes.push_back({.id = MessageId{id}});
  const auto then = read_then(from.then());
  if (!then) return std::unexpected(then.error());
  settle.then = *then;
  settle.park_reason = std::move(*from.mutable_park_reason());
  settle.label = taken(from.has_label(), from.mutable_label());
  if (from.has_owner_hint()) {
    settle.owner_hint = OwnerHint{.owner = from.owner_hint().owner(),
                                  .valid_for = Duration{from.owner_hint().valid_for_ms()},
                                  .grace = Duration{from.owner_hint().grace_ms()}};
  }
  return settle;
}

std::vector<MessageId> read_ids(const google::protobuf::RepeatedField<std::uint64_t>& from) {
  std::vector<MessageId> ids;
  ids.reserve(static_cast<std::size_t>(from.size()));
  for (const std::uint64_t id : from)
    ids.push_back(MessageId{id});
  return ids;
}

Result<Administration> read_configure(const v1::ConfigureQueue& from) {
  auto settings = read_settings(from.settings());
  if (!settings) return std::unexpected(std::move(settings).error());
  return ConfigureQueue{.queue = from.queue(), .settings = *std::move(settings)};
}

Administration read_resume_lane(const v1::ResumeLane& from) {
  ResumeLane admin{.queue = from.queue(), .key = {}, .id = {}};
  if (from.has_key()) admin.key = from.key();
  if (from.has_id()) admin.id = MessageId{from.id()};
  return admin;
}

Administration read_redrive(const v1::Redrive& from) {
  Redrive admin{.queue = from.queue(), .ids = read_ids(from.ids()), .to = {}};
  if (from.has_to()) admin.to = from.to();
  return admin;
}

Administration read_subscribe(const v1::Subscribe& from) {
  Subscribe admin{.queue = from.queue(), .pattern = from.pattern(), .from = {}};
  if (from.has_from_ms()) admin.from = time_of(from.from_ms());
  return admin;
}

Administration read_purge(const v1::PurgeQueue& from) {
  PurgeQueue admin{.queue = from.queue(), .key = {}};
  if (from.has_key()) admin.key = from.key();
  return admin;
}

Result<Administration> read_admin(const v1::Administration& from) {
  switch (from.operation_case()) {
    case v1::Administration::kConfigureQueue:
      return read_configure(from.configure_queue());
    case v1::Administration::kPauseQueue:
      return PauseQueue{from.pause_queue().queue()};
    case v1::Administration::kResumeQueue:
      return ResumeQueue{from.resume_queue().queue()};
    case v1::Administration::kResumeLane:
      return read_resume_lane(from.resume_lane());
    case v1::Administration::kPurgeQueue:
      return read_purge(from.purge_queue());
    case v1::Administration::kRemoveQueue:
      return RemoveQueue{.queue = from.remove_queue().queue(),
                         .force = from.remove_queue().force()};
    case v1::Administration::kRedrive:
      return read_redrive(from.redrive());
    case v1::Administration::kDropDead:
      return DropDead{.queue = from.drop_dead().queue(), .ids = read_ids(from.drop_dead().ids())};
    case v1::Administration::kSubscribe:
      return read_subscribe(from.subscribe());
    case v1::Administration::kUnsubscribe:
      return Unsubscribe{from.unsubscribe().queue()};
    case v1::Administration::kConfigureTopic:
      return ConfigureTopic{.topic = from.configure_topic().topic(),
                            .settings = read_settings(from.configure_topic().settings())};
    case v1::Administration::OPERATION_NOT_SET:
      break;
  }
  return failure(Errc::invalid_argument,
                 "an administration names no operation that this version knows; see proto/");
}

Result<void> read_histories(v1::Transaction& from, Transaction& transaction) {
  for (const v1::RemoveHistory& one : from.remove_histories()) {
    const auto token = Token::parse(one.token());
    if (!token) return std::unexpected(token.error());
    transaction.remove_histories.push_back(
        {.token = *token, .through_execution = one.through_execution()});
  }
  for (v1::Append& one : *from.mutable_appends()) {
    const auto token = Token::parse(one.token());
    if (!token) return std::unexpected(token.error());
    Append append{.token = *token,
                  .execution = one.execution(),
                  .expected_length = one.expected_length(),
                  .events = {},
                  .close = taken(one.has_close(), one.mutable_close())};
    append.events.reserve(static_cast<std::size_t>(one.events_size()));
    for (std::string& event : *one.mutable_events())
      append.events.push_back(std::move(event));
    transaction.appends.push_back(std::move(append));
  }
  for (const v1::TrimHistory& one : from.trim_histories()) {
    const auto token = Token::parse(one.token());
    if (!token) return std::unexpected(token.error());
    transaction.trim_histories.push_back(
        {.token = *token, .execution = one.execution(), .before = one.before()});
  }
  return {};
}

void read_records(v1::Transaction& from, Transaction& transaction) {
  transaction.records.reserve(static_cast<std::size_t>(from.records_size()));
  for (v1::WriteRecord& one : *from.mutable_records()) {
    WriteRecord record{.space = std::move(*one.mutable_space()),
                       .key = std::move(*one.mutable_key()),
                       .value = taken(one.has_value(), one.mutable_value()),
                       .expected = {}};
    if (one.has_expected()) record.expected = Version{one.expected()};
    transaction.records.push_back(std::move(record));
  }
}

Result<void> read_messages(v1::Transaction& from, Transaction& transaction) {
  transaction.sends.reserve(static_cast<std::size_t>(from.sends_size()));
  for (v1::Send& one : *from.mutable_sends()) {
    auto send = read_send(one);
    if (!send) return std::unexpected(std::move(send).error());
    transaction.sends.push_back(*std::move(send));
  }
  transaction.publishes.reserve(static_cast<std::size_t>(from.publishes_size()));
  for (v1::Publish& one : *from.mutable_publishes()) {
    Publish publish;
    if (auto read = read_content(*one.mutable_content(), publish); !read) return read;
    publish.topic = std::move(*one.mutable_topic());
    transaction.publishes.push_back(std::move(publish));
  }
  return {};
}

}  // namespace

void write(const Transaction& transaction, v1::Transaction& to) {
  if (transaction.id) {
    v1::TransactionId& id = *to.mutable_id();
    id.set_client(transaction.id->client);
    id.set_number(transaction.id->number);
    id.set_time_ms(ms(transaction.id->time));
    id.set_lowest_unanswered(transaction.id->lowest_unanswered);
  }
  if (transaction.durability == Durability::async) {
    to.set_durability(v1::DURABILITY_ASYNC);
  } else if (transaction.durability != Durability::sync) {
    to.set_durability(one_more<v1::Durability>(transaction.durability));
  }
  for (const RemoveHistory& part : transaction.remove_histories) {
    v1::RemoveHistory& one = *to.add_remove_histories();
    one.set_token(part.token.to_string());
    one.set_through_execution(part.through_execution);
  }
  for (const Append& part : transaction.appends) {
    v1::Append& one = *to.add_appends();
    one.set_token(part.token.to_string());
    one.set_execution(part.execution);
    one.set_expected_length(part.expected_length);
    for (const Bytes& event : part.events)
      one.add_events(event);
    if (part.close) one.set_close(*part.close);
  }
  for (const TrimHistory& part : transaction.trim_histories) {
    v1::TrimHistory& one = *to.add_trim_histories();
    one.set_token(part.token.to_string());
    one.set_execution(part.execution);
    one.set_before(part.before);
  }
  for (const Settle& part : transaction.settles)
    write_settle(part, *to.add_settles());
  for (const Cancel& part : transaction.cancels) {
    v1::Cancel& one = *to.add_cancels();
    one.set_queue(part.queue);
    one.set_name(part.name);
    one.set_quiet(part.quiet);
  }
  to.mutable_sends()->Reserve(static_cast<int>(transaction.sends.size()));
  for (const Send& part : transaction.sends)
    write_send(part, *to.add_sends());
  for (const Publish& part : transaction.publishes) {
    v1::Publish& one = *to.add_publishes();
    one.set_topic(part.topic);
    write_content(part, *one.mutable_content());
  }
  for (const WriteRecord& part : transaction.records) {
    v1::WriteRecord& one = *to.add_records();
    one.set_space(part.space);
    one.set_key(part.key);
    if (part.value) one.set_value(*part.value);
    if (part.expected) one.set_expected(static_cast<std::uint64_t>(*part.expected));
  }
  if (transaction.admin) std::visit(WriteAdmin{*to.mutable_admin()}, *transaction.admin);
}

Result<Transaction> read_transaction(v1::Transaction& from) {
  Transaction transaction;
  if (from.has_id()) {
    transaction.id = TransactionId{.client = from.id().client(),
                                   .number = from.id().number(),
                                   .time = time_of(from.id().time_ms()),
                                   .lowest_unanswered = from.id().lowest_unanswered()};
  }
  if (!v1::Durability_IsValid(from.durability())) {
    return no_such_value("durability", from.durability());
  }
  if (from.durability() == v1::DURABILITY_ASYNC) transaction.durability = Durability::async;
  if (auto read = read_histories(from, transaction); !read) {
    return std::unexpected(std::move(read).error());
  }
  transaction.settles.reserve(static_cast<std::size_t>(from.settles_size()));
  for (v1::Settle& one : *from.mutable_settles()) {
    auto settle = read_settle(one);
    if (!settle) return std::unexpected(std::move(settle).error());
    transaction.settles.push_back(*std::move(settle));
  }
  for (v1::Cancel& one : *from.mutable_cancels()) {
    transaction.cancels.push_back({.queue = std::move(*one.mutable_queue()),
                                   .name = std::move(*one.mutable_name()),
                                   .quiet = one.quiet()});
  }
  if (auto read = read_messages(from, transaction); !read) {
    return std::unexpected(std::move(read).error());
  }
  read_records(from, transaction);
  if (from.has_admin()) {
    auto admin = read_admin(from.admin());
    if (!admin) return std::unexpected(std::move(admin).error());
    transaction.admin = *std::move(admin);
  }
  return transaction;
}

// --- Leases ---

void write(const LeaseRequest& request, v1::LeaseRequest& to) {
  to.set_queue(request.queue);
  for (const std::string& label : request.labels)
    to.add_labels(label);
  if (request.key) to.set_key(*request.key);
  to.set_seize(request.seize);
  to.set_owner(request.owner);
  if (request.request) {
    to.mutable_request()->set_client(request.request->client);
    to.mutable_request()->set_number(request.request->number);
  }
  to.set_lanes(request.lanes);
  to.set_messages(request.messages);
  to.set_bytes(request.bytes);
  if (request.lease) to.set_lease_ms(ms(*request.lease));
  if (request.history_from) to.set_history_from(*request.history_from);
  to.set_history_limit(request.history_limit);
}

Result<LeaseRequest> read_lease_request(v1::LeaseRequest& from) {
  LeaseRequest request;
  request.queue = std::move(*from.mutable_queue());
  request.labels.assign(from.labels().begin(), from.labels().end());
  request.key = taken(from.has_key(), from.mutable_key());
  request.seize = from.seize();
  request.owner = std::move(*from.mutable_owner());
  if (from.has_request()) {
    request.request =
        RequestId{.client = from.request().client(), .number = from.request().number()};
  }
  if (from.has_lanes()) request.lanes = from.lanes();
  if (from.has_messages()) request.messages = from.messages();
  if (from.has_bytes()) request.bytes = from.bytes();
  if (from.has_lease_ms()) request.lease = Duration{from.lease_ms()};
  if (from.has_history_from()) request.history_from = from.history_from();
  if (from.has_history_limit()) request.history_limit = from.history_limit();
  if (from.wait_ms() < 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("wait_ms is {}, and must not be negative", from.wait_ms()));
  }
  return request;
}

// --- Queries ---

void write(const HistoryQuery& query, v1::HistoryRequest& to) {
  to.set_queue(query.queue);
  to.set_key(query.key);
  to.set_execution(query.execution);
  to.set_from(query.from);
  to.set_limit(query.limit);
}

HistoryQuery read_query(const v1::HistoryRequest& from) {
  HistoryQuery query{
      .queue = from.queue(), .key = from.key(), .execution = from.execution(), .from = from.from()};
  if (from.has_limit()) query.limit = from.limit();
  return query;
}

void write(const InstancesQuery& query, v1::InstancesRequest& to) {
  to.set_queue(query.queue);
  if (query.open) to.set_open(*query.open);
  to.set_after(query.after);
  to.set_limit(query.limit);
}

InstancesQuery read_query(const v1::InstancesRequest& from) {
  InstancesQuery query{.queue = from.queue(), .open = {}, .after = from.after()};
  if (from.has_open()) query.open = from.open();
  if (from.has_limit()) query.limit = from.limit();
  return query;
}

void write(const RecordsQuery& query, v1::RecordsRequest& to) {
  to.set_space(query.space);
  to.set_prefix(query.prefix);
  to.set_after(query.after);
  to.set_limit(query.limit);
}

RecordsQuery read_query(const v1::RecordsRequest& from) {
  RecordsQuery query{.space = from.space(), .prefix = from.prefix(), .after = from.after()};
  if (from.has_limit()) query.limit = from.limit();
  return query;
}

void write(const PeekQuery& query, v1::PeekRequest& to) {
  to.set_queue(query.queue);
  if (query.key) to.set_key(*query.key);
  if (query.state) to.set_state(wire_state(*query.state));
  if (query.after) to.set_after(static_cast<std::uint64_t>(*query.after));
  to.set_limit(query.limit);
}

Result<PeekQuery> read_query(const v1::PeekRequest& from) {
  PeekQuery query{.queue = from.queue(), .key = {}, .state = {}, .after = {}};
  if (from.has_key()) query.key = from.key();
  if (from.has_state()) {
    query.state = read_state(from.state());
    if (!query.state) return no_such_value("state", from.state());
  }
  if (from.has_after()) query.after = MessageId{from.after()};
  if (from.has_limit()) query.limit = from.limit();
  return query;
}

void write(const DeadLettersQuery& query, v1::DeadLettersRequest& to) {
  to.set_queue(query.queue);
  if (query.after) to.set_after(static_cast<std::uint64_t>(*query.after));
  to.set_limit(query.limit);
}

DeadLettersQuery read_query(const v1::DeadLettersRequest& from) {
  DeadLettersQuery query{.queue = from.queue(), .after = {}};
  if (from.has_after()) query.after = MessageId{from.after()};
  if (from.has_limit()) query.limit = from.limit();
  return query;
}

}  // namespace strand::remote
