#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "pq/connection.h"
#include "relay/outbox.h"
#include "relay/read_topics.h"
#include "relay/verify.h"

namespace strand::relay {

struct VerifyOutboxOptions {
  // Besides those that the rows are for.
  std::vector<std::string> topics = {};
  // These rows must be there, in this order, instead of those that the table says are sent.
  std::optional<std::vector<ExpectedRow>> expected = {};
  bool allow_unknown = false;
  // How long Kafka may be silent.
  Duration timeout = std::chrono::seconds{30};
};

struct OutboxVerified {
  VerifyReport report = {};
  std::vector<std::string> topics = {};
  std::vector<std::string> absent = {};  // topics that are not there
  std::vector<TopicRange> ranges = {};   // what was read
};

// Holds the topics of an outbox against its rows, while the relay may run: what was sent before it
// began must be there, what comes meanwhile may be.
//
// Memory:  the ids and keys of all rows and all messages, some 300 bytes a row.
// Failure: unsupported if sent rows are deleted and none are expected; unavailable if the database
//          or Kafka is.
Result<OutboxVerified> verify_outbox(postgres::Connection& connection, const Outbox& outbox,
                                     const std::map<std::string, std::string>& kafka,
                                     const VerifyOutboxOptions& options);

// Lines of JSON, `{"id": "4711", "key": "order-7"}`, rows of one entity in commit order.
Result<std::vector<ExpectedRow>> parse_expected(std::string_view text);

}  // namespace strand::relay
