#include "cli/bench/relay_baseline.h"

#include <array>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>

#include "pq/connection.h"
#include "relay/outbox.h"

namespace strand::cli {

namespace {

using postgres::Group;
using postgres::Params;

constexpr int flush_ms = 30'000;

struct Destroy {
  void operator()(rd_kafka_t* producer) const { rd_kafka_destroy(producer); }
};
using Producer = std::unique_ptr<rd_kafka_t, Destroy>;

// What Kafka said of the last message. Without it a flush would notice the end only at its next
// look.
void take_report(rd_kafka_t* /*producer*/, const rd_kafka_message_t* message, void* last) {
  *static_cast<rd_kafka_resp_err_t*>(last) = message->err;
}

Result<Producer> make_producer(const std::string& servers, rd_kafka_resp_err_t& last) {
  std::array<char, 256> reason{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  // As safe as the relay's.
  rd_kafka_conf_set(conf, "bootstrap.servers", servers.c_str(), reason.data(), reason.size());
  rd_kafka_conf_set(conf, "enable.idempotence", "true", reason.data(), reason.size());
  rd_kafka_conf_set(conf, "linger.ms", "0", reason.data(), reason.size());
  rd_kafka_conf_set_dr_msg_cb(conf, take_report);
  rd_kafka_conf_set_opaque(conf, &last);
  Producer producer(rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason.data(), reason.size()));
  if (producer == nullptr) {
    rd_kafka_conf_destroy(conf);
    return failure(Errc::invalid_argument, reason.data());
  }
  return producer;
}

Result<void> publish(rd_kafka_t* producer, const rd_kafka_resp_err_t& last,
                     const std::string& topic, std::string_view key, std::string_view value) {
  std::array<rd_kafka_vu_t, 4> parts{};
  parts[0] = {.vtype = RD_KAFKA_VTYPE_TOPIC, .u = {.cstr = topic.c_str()}};
  parts[1] = {.vtype = RD_KAFKA_VTYPE_KEY,
              .u = {.mem = {.ptr = const_cast<char*>(key.data()), .size = key.size()}}};
  parts[2] = {.vtype = RD_KAFKA_VTYPE_VALUE,
              .u = {.mem = {.ptr = const_cast<char*>(value.data()), .size = value.size()}}};
  parts[3] = {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u = {.i = RD_KAFKA_MSG_F_COPY}};
  if (rd_kafka_error_t* error = rd_kafka_produceva(producer, parts.data(), parts.size())) {
    std::string reason = rd_kafka_error_string(error);
    rd_kafka_error_destroy(error);
    return failure(Errc::unavailable, std::move(reason));
  }
  if (const auto error = rd_kafka_flush(producer, flush_ms)) {
    return failure(Errc::unavailable, rd_kafka_err2str(error));
  }
  if (last != RD_KAFKA_RESP_ERR_NO_ERROR) return failure(Errc::unavailable, rd_kafka_err2str(last));
  return {};
}

Result<void> make_table(RelayPlace& place, std::uint64_t rows) {
  if (auto made = place.make_outbox("advisory"); !made) return made;
  if (auto filled = place.fill(rows); !filled) return filled;
  const std::string& schema = place.schema();
  return place.run_script(fmt::format(
      "CREATE TABLE {0}.naive (id bigserial PRIMARY KEY, entity_key text NOT NULL, payload text, "
      "status text NOT NULL DEFAULT 'NEW', locked_at timestamptz); "
      "INSERT INTO {0}.naive (entity_key, payload) SELECT aggregateid, payload::text FROM "
      "{0}.outbox ORDER BY id; "
      "CREATE INDEX ON {0}.naive (id) WHERE status = 'NEW'; ANALYZE {0}.naive",
      schema));
}

}  // namespace

Result<Counted> naive_relay(RelayPlace& place, const RelayBenchOptions& options) {
  if (auto made = make_table(place, options.rows); !made) return std::unexpected(made.error());
  rd_kafka_resp_err_t last = RD_KAFKA_RESP_ERR_NO_ERROR;
  const auto producer = make_producer(options.kafka, last);
  if (!producer) return std::unexpected(producer.error());
  const std::string claim = fmt::format(
      "UPDATE {0}.naive SET status = 'PROCESSING', locked_at = now() WHERE id = (SELECT id FROM "
      "{0}.naive WHERE status = 'NEW' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) "
      "RETURNING id, entity_key, payload",
      place.schema());
  const std::string mark =
      fmt::format("UPDATE {}.naive SET status = 'SENT' WHERE id = $1", place.schema());
  // The first message waits for connections and for an id of the producer; the loop is not to
  // blame.
  if (auto sent = publish(producer->get(), last, place.topic(), "first", "{}"); !sent) {
    return std::unexpected(sent.error());
  }
  Counted counted;
  const auto begin = Stopwatch::now();
  while (counted.messages < options.naive_rows) {
    const auto claimed = place.connection().run(Group{{.sql = claim}});
    if (!claimed) return std::unexpected(relay::error_of(claimed.error(), "the plain loop"));
    const postgres::Rows& row = claimed->front();
    if (row.empty()) break;
    if (auto sent = publish(producer->get(), last, place.topic(), row.bytes(0, 1), row.bytes(0, 2));
        !sent) {
      return std::unexpected(sent.error());
    }
    const auto marked =
        place.connection().run(Group{{.sql = mark, .params = Params().int8(row.int8(0, 0))}});
    if (!marked) return std::unexpected(relay::error_of(marked.error(), "the plain loop"));
    ++counted.messages;
  }
  counted.seconds = seconds_since(begin);
  return counted;
}

}  // namespace strand::cli
