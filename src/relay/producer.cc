#include "relay/producer.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace strand::relay {
namespace {

using std::chrono::steady_clock;

// How long to wait for librdkafka before looking around.
constexpr int look_around_ms = 20;
constexpr std::chrono::seconds drain_max{5};

// Trying again cannot help: the message itself, or its topic, is wrong.
bool is_permanent(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
      return true;
    default:
      return false;
  }
}

// What librdkafka has to say is said by its errors.
void ignore_log(const rd_kafka_t* kafka, int level, const char* facility, const char* text) {
  static_cast<void>(kafka);
  static_cast<void>(level);
  static_cast<void>(facility);
  static_cast<void>(text);
}

struct DestroyError {
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
};
using ErrorHandle = std::unique_ptr<rd_kafka_error_t, DestroyError>;

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(1, left.count()));
}

rd_kafka_headers_t* make_headers(const Message& message) {
  rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size());
  for (const auto& [name, value] : message.headers) {
    rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
  }
  return headers;
}

// librdkafka copies them, and its interface does not know const.
void* unconst(const char* bytes) {
  return const_cast<char*>(bytes);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

void DestroyKafka::operator()(rd_kafka_t* kafka) const { rd_kafka_destroy(kafka); }

Result<KafkaHandle> make_kafka(rd_kafka_type_t type, const KafkaSettings& settings, void* opaque) {
  constexpr std::size_t text_max = 512;
  std::array<char, text_max> why{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, ignore_log);
  if (opaque != nullptr) {
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_conf_set_dr_msg_cb(conf, Producer::on_delivery);
    rd_kafka_conf_set_error_cb(conf, Producer::on_error);
  }
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why.data(), why.size()) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      return failure(
          Errc::invalid_argument,
          fmt::format("[kafka] {}: {}; see librdkafka's list of settings", name, why.data()));
    }
  }
  rd_kafka_t* kafka = rd_kafka_new(type, conf, why.data(), why.size());
  if (kafka == nullptr) {
    rd_kafka_conf_destroy(conf);
    return failure(Errc::invalid_argument, fmt::format("[kafka]: {}", why.data()));
  }
  return KafkaHandle(kafka);
}

// Messages under way, and what has become of them. A message is known to librdkafka by the address
// of its delivery.
class Producer::Batch {
 public:
  Batch(std::span<const Message* const> messages, Deadline deadline,
        const std::function<bool()>& go_on)
      : deadline_(deadline), go_on_(go_on), deliveries_(messages.size()), open_(messages.size()) {}

  void* address(std::size_t index) { return &deliveries_[index]; }
  void sent(std::size_t index) {
    open_[index] = true;
    ++waiting_;
  }
  void end(std::size_t index, Delivery delivery) {
    if (open_[index]) {
      open_[index] = false;
      --waiting_;
    }
    if (delivery.kind != Delivery::Kind::confirmed) broken_ = true;
    deliveries_[index] = std::move(delivery);
  }
  // It was never handed over: others are not concerned.
  void refuse(std::size_t index, std::string reason) {
    deliveries_[index] = {.kind = Delivery::Kind::refused, .reason = std::move(reason)};
  }
  std::size_t index_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const Delivery*>(address) - deliveries_.data());
  }

  [[nodiscard]] bool waiting() const { return waiting_ > 0; }
  // Something has failed: nothing more is to be sent.
  [[nodiscard]] bool broken() const { return broken_; }
  // Whether to wait on. Asks go_on now and then.
  bool look_around(const std::string& last_error) {
    const auto now = steady_clock::now();
    if (broken_) return false;
    if (now >= deadline_) {
      reason_ = fmt::format("Kafka has not confirmed in time{}{}", last_error.empty() ? "" : ": ",
                            last_error);
      return false;
    }
    if (now < asked_ + std::chrono::milliseconds{look_around_ms}) return true;
    asked_ = now;
    if (!go_on_()) {
      reason_ = "the claim is lost";
      return false;
    }
    return true;
  }
  void fail_rest(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    broken_ = true;
  }
  std::vector<Delivery> finish() {
    for (Delivery& delivery : deliveries_) {
      if (delivery.kind == Delivery::Kind::failed && delivery.reason.empty()) {
        delivery.reason =
            reason_.empty() ? "it went with, or came behind, one that failed" : reason_;
      }
    }
    return std::move(deliveries_);
  }

 private:
  Deadline deadline_;
  const std::function<bool()>& go_on_;
  std::vector<Delivery> deliveries_;
  std::vector<bool> open_;
  std::size_t waiting_ = 0;
  bool broken_ = false;
  std::string reason_;
  steady_clock::time_point asked_ = steady_clock::now();
};

Result<std::unique_ptr<Producer>> Producer::open(const KafkaSettings& settings,
                                                 bool transactional) {
  std::unique_ptr<Producer> producer(new Producer(transactional));
  auto kafka = make_kafka(RD_KAFKA_PRODUCER, settings, producer.get());
  if (!kafka) return std::unexpected(kafka.error());
  producer->kafka_ = std::move(*kafka);
  return producer;
}

Producer::~Producer() {
  if (kafka_) rd_kafka_purge(kafka_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

void Producer::on_delivery(rd_kafka_t* kafka, const rd_kafka_message_t* message, void* opaque) {
  static_cast<void>(kafka);
  auto* producer = static_cast<Producer*>(opaque);
  STRAND_ASSERT(producer->batch_ != nullptr, "no message outlives its batch");
  Batch& batch = *producer->batch_;
  const std::size_t index = batch.index_of(message->_private);
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    batch.end(index, {.kind = Delivery::Kind::confirmed});
    return;
  }
  const bool permanent = is_permanent(message->err);
  const bool purged = message->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
                      message->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
  batch.end(index, {.kind = permanent ? Delivery::Kind::refused : Delivery::Kind::failed,
                    .reason = purged ? "" : rd_kafka_err2str(message->err)});
}

void Producer::on_error(rd_kafka_t* kafka, int error, const char* reason, void* opaque) {
  static_cast<void>(kafka);
  static_cast<void>(error);
  static_cast<Producer*>(opaque)->last_error_ = reason;
}

bool Producer::enqueue(const Message& message, std::size_t index, Batch& batch) {
  rd_kafka_headers_t* headers = make_headers(message);
  std::array<rd_kafka_vu_t, 8> parts{};
  std::size_t count = 0;
  const auto next = [&](rd_kafka_vtype_t type) -> rd_kafka_vu_t& {
    parts[count].vtype = type;
    return parts[count++];
  };
  next(RD_KAFKA_VTYPE_TOPIC).u.cstr = message.topic.c_str();
  next(RD_KAFKA_VTYPE_PARTITION).u.i32 = message.partition.value_or(RD_KAFKA_PARTITION_UA);
  next(RD_KAFKA_VTYPE_MSGFLAGS).u.i = RD_KAFKA_MSG_F_COPY;
  next(RD_KAFKA_VTYPE_KEY).u.mem = {unconst(message.key.data()), message.key.size()};
  // No value at all is a tombstone; an empty one is not.
  if (message.value) {
    next(RD_KAFKA_VTYPE_VALUE).u.mem = {unconst(message.value->data()), message.value->size()};
  }
  next(RD_KAFKA_VTYPE_OPAQUE).u.ptr = batch.address(index);
  next(RD_KAFKA_VTYPE_HEADERS).u.headers = headers;
  if (message.timestamp_ms) next(RD_KAFKA_VTYPE_TIMESTAMP).u.i64 = *message.timestamp_ms;
  while (true) {
    const ErrorHandle error(rd_kafka_produceva(kafka_.get(), parts.data(), count));
    if (error == nullptr) {
      batch.sent(index);
      return true;
    }
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error.get());
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && batch.look_around(last_error_)) {
      rd_kafka_poll(kafka_.get(), look_around_ms);
      continue;
    }
    rd_kafka_headers_destroy(headers);
    if (is_permanent(code)) {
      batch.refuse(index, rd_kafka_error_string(error.get()));
      return false;
    }
    batch.end(index,
              {.kind = Delivery::Kind::failed, .reason = rd_kafka_error_string(error.get())});
    return false;
  }
}

std::vector<Delivery> Producer::publish(std::span<const Message* const> messages, Deadline deadline,
                                        const std::function<bool()>& go_on) {
  Batch batch(messages, deadline, go_on);
  batch_ = &batch;
  if (auto begun = begin(deadline); !begun) batch.fail_rest(begun.error().message);
  // One that is refused at once ends its entity here, and no other.
  std::set<std::string_view> stopped;
  for (std::size_t i = 0; i < messages.size() && !batch.broken(); ++i) {
    if (stopped.contains(messages[i]->key)) continue;
    if (!enqueue(*messages[i], i, batch)) stopped.insert(messages[i]->key);
  }
  wait(batch);
  if (!batch.broken()) {
    if (auto committed = commit(deadline); !committed) {
      for (std::size_t i = 0; i < messages.size(); ++i)
        batch.end(i, {.kind = Delivery::Kind::failed, .reason = committed.error().message});
    }
  }
  batch_ = nullptr;
  usable_ = !batch.broken();
  return batch.finish();
}

void Producer::wait(Batch& batch) {
  while (batch.waiting() && batch.look_around(last_error_))
    rd_kafka_poll(kafka_.get(), look_around_ms);
  if (batch.waiting()) purge(batch);
}

// Everything at once: if one message were given up alone, those behind it could still be sent.
void Producer::purge(Batch& batch) {
  rd_kafka_purge(kafka_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  batch.fail_rest("");
  const auto give_up = steady_clock::now() + drain_max;
  while (batch.waiting() && steady_clock::now() < give_up)
    rd_kafka_poll(kafka_.get(), look_around_ms);
  // No callback comes after this.
  if (batch.waiting()) kafka_.reset();
}

Result<void> Producer::begin(Deadline deadline) {
  if (!transactional_) return {};
  if (!initialised_) {
    const ErrorHandle error(rd_kafka_init_transactions(kafka_.get(), milliseconds_until(deadline)));
    if (error) return failure(Errc::unavailable, rd_kafka_error_string(error.get()));
    initialised_ = true;
  }
  const ErrorHandle error(rd_kafka_begin_transaction(kafka_.get()));
  if (error) return failure(Errc::unavailable, rd_kafka_error_string(error.get()));
  return {};
}

Result<void> Producer::commit(Deadline deadline) {
  if (!transactional_) return {};
  const ErrorHandle error(rd_kafka_commit_transaction(kafka_.get(), milliseconds_until(deadline)));
  if (error) return failure(Errc::unavailable, rd_kafka_error_string(error.get()));
  return {};
}

}  // namespace strand::relay
