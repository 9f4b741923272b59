#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <strand/workflows.h>

#include "base/text.h"
#include "workflow/end_instance.h"
#include "workflow/records.h"
#include "workflow/stored_history.h"
#include "workflow/turn.h"
#include "workflow/wire.h"

// Starting instances, talking to them, and reading what is known of them.

namespace strand {

using namespace workflow;

namespace {

// The first tries may collide with others who start the same id.
constexpr int tries_max = 10;

std::unexpected<Error> no_instance(std::string_view id) {
  return failure(Errc::not_found, fmt::format("there is no instance '{}'", base::printable(id)));
}

std::unexpected<Error> has_ended_already(std::string_view id, const InstanceRecord& record) {
  return failure(Errc::not_found, fmt::format("instance '{}' has ended ({})", base::printable(id),
                                              to_string(record.state)));
}

InstanceInfo to_info(std::string id, InstanceRecord record) {
  InstanceInfo info;
  info.id = std::move(id);
  info.name = std::move(record.name);
  info.version = record.version;
  info.state = record.state;
  info.execution = record.execution;
  info.status = std::move(record.status);
  info.parent = std::move(record.parent);
  info.created_at = record.created_at;
  info.ended_at = record.ended_at;
  info.error = std::move(record.error);
  info.error_type = std::move(record.error_type);
  return info;
}

// Waits for a record to be as wanted: by its watch, not by looking again and again.
class RecordWait {
 public:
  RecordWait(Store& store, std::string_view space, std::string_view key)
      : watch_(store.watch(WatchRecord{std::string(space), std::string(key)}, [this] {
          const std::lock_guard lock(mutex_);
          changed_ = true;
          condition_.notify_all();
        })) {}

  // False: the time is over.
  bool until(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex_);
    const bool changed = condition_.wait_until(lock, end, [&] { return changed_; });
    changed_ = false;
    return changed;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool changed_ = true;  // the first look is free
  Watch watch_;          // last: its callback uses the others
};

std::chrono::steady_clock::time_point end_of(Duration patience) {
  constexpr Duration longest = std::chrono::hours{24 * 365 * 10};
  return std::chrono::steady_clock::now() + std::min(patience, longest);
}

}  // namespace

Result<Workflows> Workflows::open(Store& store, WorkflowsOptions options) {
  const auto queues = store.queues();
  if (!queues) return std::unexpected(queues.error());
  const bool there = std::ranges::any_of(
      *queues, [&](const QueueInfo& info) { return info.name == options.queue; });
  if (!there) {
    // A turn that kills its worker again and again stops its instance, where a person finds it.
    QueueSettings settings;
    settings.max_attempts = 10;
    settings.backoff = {std::chrono::seconds{1}, std::chrono::seconds{5}, std::chrono::seconds{30}};
    settings.on_exhausted = OnExhausted::park;
    settings.lease = std::chrono::seconds{15};
    Transaction transaction;
    transaction.admin = ConfigureQueue{.queue = options.queue, .settings = settings};
    if (auto done = store.apply(transaction); !done) return std::unexpected(done.error());
  }
  return Workflows(store, std::move(options));
}

// --- Starting ---

namespace {

// What starts an instance, over the record that is there.
Transaction to_start(const StartRequest& request, const std::string& queue, Time now,
                     const std::optional<Record>& before, std::uint64_t start) {
  Transaction transaction;
  InstanceRecord record;
  record.name = request.name;
  record.version = request.version;
  record.created_at = now;
  record.input_hash = hash_of(request.input);
  record.start = start;
  Send& send = transaction.sends.emplace_back();
  send.queue = queue;
  send.key = request.id;
  send.label = record.label();
  send.priority = request.priority;
  send.body = request.input;
  wire::add(send.headers, wire::kind_header, wire::start_kind);
  wire::add(send.headers, "strand-start", std::to_string(start));
  if (request.delay > Duration{0}) {
    wire::add(send.headers, wire::start_delay_header, std::to_string(request.delay.count()));
  }
  if (request.timeout) {
    wire::add(send.headers, wire::timeout_header, std::to_string(request.timeout->count()));
  }
  WriteRecord write = put_record(instances_space, request.id, encode_record(record));
  write.expected = before ? before->version : Version{0};
  transaction.records.push_back(std::move(write));
  return transaction;
}

std::unexpected<Error> differs(const StartRequest& request, const InstanceRecord& record) {
  const bool same_kind = record.name == request.name && record.version == request.version;
  return failure(Errc::already_exists,
                 fmt::format("there is an instance '{}' of {} already{}; choose another id, or say "
                             "that it shall be reused or replaced",
                             base::printable(request.id), base::printable(record.label()),
                             same_kind ? " with another input" : ""));
}

}  // namespace

Result<bool> Workflows::start(const StartRequest& request) {
  if (auto fine = check_id(request.id); !fine) return std::unexpected(fine.error());
  if (auto fine = check_name(request.name); !fine) return std::unexpected(fine.error());
  if (request.delay < Duration{0} || (request.timeout && *request.timeout <= Duration{0})) {
    return failure(Errc::invalid_argument, "a delay is not negative, and a timeout is above zero");
  }
  Error last;
  for (int i = 0; i < tries_max; ++i) {
    const auto before = store_->record(instances_space, request.id);
    if (!before) return std::unexpected(before.error());
    std::uint64_t start = 1;
    if (*before) {
      const auto record = decode_record(request.id, (*before)->value);
      if (!record) return std::unexpected(record.error());
      const bool same = record->name == request.name && record->version == request.version &&
                        record->input_hash == hash_of(request.input);
      const bool ended = has_ended(record->state);
      const bool again =
          request.if_exists == IfExists::replace || (request.if_exists == IfExists::reuse && ended);
      if (request.if_exists == IfExists::reject) return differs(request, *record);
      if (!again && !same) return differs(request, *record);
      if (!again) return false;
      if (!ended) {
        auto terminated = terminate(request.id, "replaced by another start");
        if (!terminated) return std::unexpected(terminated.error());
        continue;
      }
      start = record->start + 1;
    }
    Transaction transaction = to_start(request, options_.queue, store_->now(), *before, start);
    if (*before) {
      // The state of the run before is not that of this one.
      const auto left = state(request.id);
      if (!left) return std::unexpected(left.error());
      for (const auto& [key, value] : *left)
        transaction.records.push_back(drop_record(state_space, joined(request.id, key)));
    }
    const auto done = store_->apply(transaction);
    if (done) return true;
    if (done.error().code != Errc::version_mismatch) return std::unexpected(done.error());
    last = done.error();
  }
  return std::unexpected(last);
}

// --- Talking to instances ---

namespace {

// A message for an instance that runs; labelled, so that it is taken even if it ends meanwhile.
Send message_for(const std::string& queue, std::string_view id, std::string_view kind,
                 const std::optional<InstanceRecord>& record) {
  Send send;
  send.queue = queue;
  send.key = std::string(id);
  if (record) send.label = record->label();
  wire::add(send.headers, wire::kind_header, kind);
  return send;
}

Result<std::optional<InstanceRecord>> find_record(Store& store, std::string_view id) {
  if (auto fine = check_id(id); !fine) return std::unexpected(fine.error());
  const auto found = store.record(instances_space, id);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  auto record = decode_record(id, (*found)->value);
  if (!record) return std::unexpected(std::move(record.error()));
  return *std::move(record);
}

Result<InstanceRecord> find_running(Store& store, std::string_view id) {
  auto record = find_record(store, id);
  if (!record) return std::unexpected(std::move(record.error()));
  if (!*record) return no_instance(id);
  if (has_ended((*record)->state)) return has_ended_already(id, **record);
  return **std::move(record);
}

Result<void> apply_send(Store& store, Send send) {
  Transaction transaction;
  transaction.sends.push_back(std::move(send));
  const auto done = store.apply(transaction);
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace

Result<void> Workflows::send_event_raw(std::string_view id, const std::string& event, Bytes value) {
  const auto record = find_record(*store_, id);
  if (!record) return std::unexpected(record.error());
  if (*record && has_ended((*record)->state)) return has_ended_already(id, **record);
  Send send = message_for(options_.queue, id, wire::event_kind, *record);
  wire::add(send.headers, wire::name_header, event);
  send.body = std::move(value);
  return apply_send(*store_, std::move(send));
}

Result<void> Workflows::cancel(std::string_view id, std::string reason) {
  const auto record = find_running(*store_, id);
  if (!record) return std::unexpected(record.error());
  Send send = message_for(options_.queue, id, wire::cancel_kind, *record);
  send.body = std::move(reason);
  return apply_send(*store_, std::move(send));
}

Result<Bytes> Workflows::query(std::string_view id, const std::string& query, Bytes input,
                               Duration patience) {
  const auto record = find_running(*store_, id);
  if (!record) return std::unexpected(record.error());
  const std::string key = joined(id, random_name());
  Send send = message_for(options_.queue, id, wire::query_kind, *record);
  wire::add(send.headers, wire::name_header, query);
  wire::add(send.headers, wire::reply_record_header, key);
  send.body = std::move(input);
  send.ttl = std::max(patience, Duration{1});
  RecordWait wait(*store_, answers_space, key);
  if (auto sent = apply_send(*store_, std::move(send)); !sent) return std::unexpected(sent.error());
  const auto end = end_of(patience);
  while (wait.until(end)) {
    const auto answer = store_->record(answers_space, key);
    if (!answer) return std::unexpected(answer.error());
    if (!*answer) continue;
    Transaction forget;
    forget.durability = Durability::async;
    forget.records.push_back(drop_record(answers_space, key));
    std::ignore = store_->apply(forget);
    const std::string& text = (*answer)->value;
    constexpr std::string_view good = "value\n";
    if (text.starts_with(good)) return text.substr(good.size());
    return failure(Errc::invalid_argument,
                   fmt::format("instance '{}' does not answer '{}': {}", base::printable(id),
                               base::printable(query), text.substr(text.find('\n') + 1)));
  }
  return failure(Errc::unavailable,
                 fmt::format("no worker has answered for instance '{}' within {}; is one running "
                             "that knows {}?",
                             base::printable(id), format_duration(patience), record->label()));
}

Result<void> Workflows::resume(std::string_view id) {
  if (auto record = find_running(*store_, id); !record) return std::unexpected(record.error());
  Transaction transaction;
  transaction.admin = ResumeLane{.queue = options_.queue, .key = std::string(id)};
  const auto done = store_->apply(transaction);
  if (!done && done.error().code == Errc::not_found) {
    return failure(Errc::not_found,
                   fmt::format("instance '{}' is not parked", base::printable(id)));
  }
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<std::optional<Ended>> Workflows::wait(std::string_view id, Duration patience) {
  RecordWait changes(*store_, instances_space, id);
  const auto end = end_of(patience);
  while (changes.until(end)) {
    const auto record = find_record(*store_, id);
    if (!record) return std::unexpected(record.error());
    if (!*record) return no_instance(id);
    if (!has_ended((*record)->state)) continue;
    Ended ended{.state = (*record)->state};
    ended.error = (*record)->error.value_or("");
    ended.error_type = (*record)->error_type.value_or("");
    const auto last = store_->history({.queue = options_.queue, .key = std::string(id)});
    if (!last && last.error().code != Errc::not_found) return std::unexpected(last.error());
    // It was ended before it had begun: what there is, is of an earlier run.
    if (!last || last->execution.number != (*record)->execution) return ended;
    const auto page = history(id, last->execution.number,
                              last->execution.length > 0 ? last->execution.length - 1 : 0, 1);
    if (!page) return std::unexpected(page.error());
    if (page->events.empty()) return ended;
    HistoryEvent event = page->events.back();
    (ended.state == InstanceState::completed ? ended.result : ended.error_details) =
        std::move(event.data);
    return ended;
  }
  return std::nullopt;
}

// --- Reading ---

Result<InstanceInfo> Workflows::get(std::string_view id) {
  auto record = find_record(*store_, id);
  if (!record) return std::unexpected(std::move(record.error()));
  if (!*record) return no_instance(id);
  InstanceInfo info = to_info(std::string(id), **std::move(record));
  if (has_ended(info.state)) return info;
  const auto parked = store_->peek(
      {.queue = options_.queue, .key = std::string(id), .state = MessageState::parked, .limit = 1});
  if (parked && !parked->items.empty())
    info.parked = parked->items.front().park_reason.value_or("");
  return info;
}

namespace {

bool matches(const InstanceFilter& filter, const InstanceInfo& info) {
  if (filter.state && info.state != *filter.state) return false;
  if (filter.ended && has_ended(info.state) != *filter.ended) return false;
  if (filter.name && info.name != *filter.name) return false;
  if (filter.parent && info.parent != *filter.parent) return false;
  if (filter.created_after && info.created_at < *filter.created_after) return false;
  if (filter.created_before && info.created_at >= *filter.created_before) return false;
  return true;
}

constexpr std::size_t page_size = 500;

// All records of a space with a prefix, page by page, until told to stop.
Result<void> each_record(Store& store, std::string_view space, const std::string& prefix,
                         std::string after, const std::function<bool(Record&)>& visit) {
  while (true) {
    auto page = store.records(
        {.space = std::string(space), .prefix = prefix, .after = after, .limit = page_size});
    if (!page) return std::unexpected(std::move(page.error()));
    for (Record& record : page->items) {
      after = record.key;
      if (!visit(record)) return {};
    }
    if (!page->more || page->items.empty()) return {};
  }
}

}  // namespace

Result<Page<InstanceInfo>> Workflows::list(const InstanceFilter& filter) {
  Page<InstanceInfo> result;
  std::optional<Error> error;
  auto done =
      each_record(*store_, instances_space, filter.prefix, filter.after, [&](Record& found) {
        auto record = decode_record(found.key, found.value);
        if (!record) {
          error = std::move(record.error());
          return false;
        }
        InstanceInfo info = to_info(found.key, *std::move(record));
        if (!matches(filter, info)) return true;
        result.more = result.items.size() >= filter.limit;
        if (!result.more) result.items.push_back(std::move(info));
        return !result.more;
      });
  if (error) return std::unexpected(*std::move(error));
  if (!done) return std::unexpected(std::move(done.error()));
  return result;
}

Result<std::vector<std::string>> Workflows::children(std::string_view id) {
  std::vector<std::string> ids;
  const std::string prefix = joined(id, "");
  auto done = each_record(*store_, children_space, prefix, {}, [&](Record& found) {
    ids.push_back(found.key.substr(prefix.size()));
    return true;
  });
  if (!done) return std::unexpected(std::move(done.error()));
  return ids;
}

Result<std::vector<std::string>> Workflows::tree(std::string_view id) {
  std::vector<std::string> ids{std::string(id)};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto found = children(ids[i]);
    if (!found) return found;
    for (std::string& child : *found)
      ids.push_back(std::move(child));
  }
  return ids;
}

Result<std::optional<Bytes>> Workflows::state(std::string_view id, std::string_view key) {
  auto record = store_->record(state_space, joined(id, key));
  if (!record) return std::unexpected(std::move(record.error()));
  if (!*record) return std::nullopt;
  return std::move((*record)->value);
}

Result<std::map<std::string, Bytes>> Workflows::state(std::string_view id) {
  std::map<std::string, Bytes> values;
  const std::string prefix = joined(id, "");
  auto done = each_record(*store_, state_space, prefix, {}, [&](Record& found) {
    values[found.key.substr(prefix.size())] = std::move(found.value);
    return true;
  });
  if (!done) return std::unexpected(std::move(done.error()));
  return values;
}

Result<HistoryPage> Workflows::history(std::string_view id, std::uint64_t execution,
                                       std::uint64_t from, std::size_t limit) {
  if (auto fine = check_id(id); !fine) return std::unexpected(fine.error());
  const auto found = store_->history({.queue = options_.queue,
                                      .key = std::string(id),
                                      .execution = execution,
                                      .from = from,
                                      .limit = limit});
  if (!found) {
    if (found.error().code != Errc::not_found) return std::unexpected(found.error());
    return failure(Errc::not_found,
                   fmt::format("there is no history of instance '{}'{}", base::printable(id),
                               execution > 0 ? fmt::format(", execution {}", execution) : ""));
  }
  auto events = decode_history(*found);
  if (!events) return std::unexpected(std::move(events.error()));
  return HistoryPage{.execution = found->execution.number,
                     .length = found->execution.length,
                     .first = found->first,
                     .events = *std::move(events)};
}

namespace {

Result<void> read_steps(Store& store, const std::string& key, SagaInfo& saga) {
  std::optional<Error> error;
  auto done = each_record(store, saga_steps_space, joined(key, ""), {}, [&](Record& found) {
    auto step = decode_step(found.value);
    if (!step) {
      error = std::move(step.error());
      return false;
    }
    saga.steps.push_back(*std::move(step));
    return true;
  });
  if (error) return std::unexpected(*std::move(error));
  return done;
}

}  // namespace

Result<std::vector<SagaInfo>> Workflows::sagas(std::string_view id) {
  std::vector<SagaInfo> sagas;
  std::optional<Error> error;
  auto done = each_record(*store_, sagas_space, joined(id, ""), {}, [&](Record& found) {
    auto saga = decode_saga(found.value);
    Result<void> read;
    if (saga) read = read_steps(*store_, found.key, *saga);
    if (!saga || !read) {
      error = saga ? read.error() : saga.error();
      return false;
    }
    sagas.push_back(*std::move(saga));
    return true;
  });
  if (error) return std::unexpected(*std::move(error));
  if (!done) return std::unexpected(std::move(done.error()));
  return sagas;
}

Result<Page<SagaInfo>> Workflows::all_sagas(std::optional<SagaStatus> status, std::string after,
                                            std::size_t limit) {
  Page<SagaInfo> result;
  std::optional<Error> error;
  // Behind all sagas of that instance.
  if (!after.empty()) after += static_cast<char>(separator + 1);
  auto done = each_record(*store_, sagas_space, {}, after, [&](Record& found) {
    auto saga = decode_saga(found.value);
    if (!saga) {
      error = std::move(saga.error());
      return false;
    }
    if (status && saga->status != *status) return true;
    const bool same = !result.items.empty() && result.items.back().coordinator == saga->coordinator;
    result.more = result.items.size() >= limit && !same;
    if (!result.more) result.items.push_back(*std::move(saga));
    return !result.more;
  });
  if (error) return std::unexpected(*std::move(error));
  if (!done) return std::unexpected(std::move(done.error()));
  return result;
}

}  // namespace strand
