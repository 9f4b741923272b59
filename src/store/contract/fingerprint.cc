#include "store/contract/fingerprint.h"

#include <xxhash.h>

#include "base/bytes.h"

namespace strand::store {

namespace {

// Writes every field of a transaction, in order and without ambiguity, to be hashed.
class ContentWriter {
 public:
  explicit ContentWriter(std::string& out) : out_(out) {}

  void operator()(const ConfigureQueue& op) {
    out_.text(op.queue);
    settings(op.settings);
  }
  void operator()(const PauseQueue& op) { out_.text(op.queue); }
  void operator()(const ResumeQueue& op) { out_.text(op.queue); }
  void operator()(const ResumeLane& op) {
    out_.text(op.queue);
    out_.optional_text(op.key);
    number(op.id);
  }
  void operator()(const PurgeQueue& op) {
    out_.text(op.queue);
    out_.optional_text(op.key);
  }
  void operator()(const RemoveQueue& op) {
    out_.text(op.queue);
    out_.flag(op.force);
  }
  void operator()(const Redrive& op) {
    out_.text(op.queue);
    ids(op.ids);
    out_.optional_text(op.to);
  }
  void operator()(const DropDead& op) {
    out_.text(op.queue);
    ids(op.ids);
  }
  void operator()(const Subscribe& op) {
    out_.text(op.queue);
    out_.text(op.pattern);
    out_.flag(op.from.has_value());
    if (op.from) out_.time(*op.from);
  }
  void operator()(const Unsubscribe& op) { out_.text(op.queue); }
  void operator()(const ConfigureTopic& op) {
    out_.text(op.topic);
    out_.duration(op.settings.retain);
  }

  void write(const Transaction& transaction) {
    each(transaction.remove_histories, [&](const RemoveHistory& op) {
      token(op.token);
      out_.varint(op.through_execution);
    });
    each(transaction.appends, [&](const Append& op) { append(op); });
    each(transaction.trim_histories, [&](const TrimHistory& op) {
      token(op.token);
      out_.varint(op.execution);
      out_.varint(op.before);
    });
    each(transaction.settles, [&](const Settle& op) { settle(op); });
    each(transaction.cancels, [&](const Cancel& op) {
      out_.text(op.queue);
      out_.text(op.name);
      out_.varint(op.quiet ? 1 : 0);
    });
    each(transaction.sends, [&](const Send& op) { send(op); });
    each(transaction.publishes, [&](const Publish& op) {
      content(op);
      out_.text(op.topic);
    });
    each(transaction.records, [&](const WriteRecord& op) {
      out_.text(op.space);
      out_.text(op.key);
      out_.optional_text(op.value);
      number(op.expected);
    });
    out_.flag(transaction.admin.has_value());
    if (!transaction.admin) return;
    out_.varint(transaction.admin->index());
    std::visit(*this, *transaction.admin);
  }

 private:
  template <class Items, class Write>
  void each(const Items& items, const Write& write_item) {
    out_.varint(items.size());
    for (const auto& item : items)
      write_item(item);
  }
  template <class Number>
  void number(const std::optional<Number>& value) {
    out_.flag(value.has_value());
    if (value) out_.varint(static_cast<std::uint64_t>(*value));
  }
  void duration(const std::optional<Duration>& value) {
    out_.flag(value.has_value());
    if (value) out_.duration(*value);
  }
  void address(const std::optional<Address>& value) {
    out_.flag(value.has_value());
    if (!value) return;
    out_.text(value->queue);
    out_.optional_text(value->key);
  }
  void settings(const QueueSettings& value) {
    out_.varint(value.max_attempts);
    each(value.backoff, [&](Duration step) { out_.duration(step); });
    out_.varint(value.backoff_jitter_percent);
    out_.u8(static_cast<std::uint8_t>(value.retry_policy));
    out_.u8(static_cast<std::uint8_t>(value.on_exhausted));
    duration(value.ttl);
    out_.u8(static_cast<std::uint8_t>(value.on_expired));
    out_.duration(value.dedup_window);
    out_.duration(value.lease);
    out_.duration(value.starvation_after);
    out_.varint(value.max_length);
    address(value.dead_notice_to);
  }
  void ids(const std::vector<MessageId>& values) {
    each(values, [&](MessageId id) { out_.varint(static_cast<std::uint64_t>(id)); });
  }
  void token(const Token& value) {
    out_.fixed64(static_cast<std::uint64_t>(value.epoch()));
    out_.fixed64(value.place());
    out_.fixed64(value.seal());
  }
  void content(const Content& value) {
    out_.optional_text(value.key);
    out_.text(value.body);
    each(value.headers, [&](const Header& header) {
      out_.text(header.name);
      out_.text(header.value);
    });
    out_.u8(static_cast<std::uint8_t>(value.priority));
    out_.duration(value.delay);
    duration(value.ttl);
    out_.optional_text(value.dedup_id);
  }
  void send(const Send& op) {
    content(op);
    out_.text(op.queue);
    out_.text(op.label);
    out_.optional_text(op.name);
    number(op.max_attempts);
    address(op.dead_notice_to);
  }
  void append(const Append& op) {
    token(op.token);
    out_.varint(op.execution);
    out_.varint(op.expected_length);
    each(op.events, [&](const Bytes& event) { out_.text(event); });
    out_.optional_text(op.close);
  }
  void settle(const Settle& op) {
    token(op.token);
    each(op.outcomes, [&](const Outcome& outcome) {
      out_.varint(static_cast<std::uint64_t>(outcome.id));
      out_.u8(static_cast<std::uint8_t>(outcome.kind));
      duration(outcome.delay);
      out_.text(outcome.reason);
    });
    out_.u8(static_cast<std::uint8_t>(op.then));
    out_.text(op.park_reason);
    out_.optional_text(op.label);
    out_.flag(op.owner_hint.has_value());
    if (!op.owner_hint) return;
    out_.text(op.owner_hint->owner);
    out_.duration(op.owner_hint->valid_for);
    out_.duration(op.owner_hint->grace);
  }

  base::ByteWriter out_;
};

}  // namespace

Fingerprint fingerprint(const Transaction& transaction) {
  std::string content;
  ContentWriter(content).write(transaction);
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  return {.low = hash.low64, .high = hash.high64};
}

}  // namespace strand::store
