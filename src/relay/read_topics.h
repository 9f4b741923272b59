#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "relay/verify.h"

struct rd_kafka_s;

namespace strand::relay {

// What lies in one partition between two offsets.
struct TopicRange {
  std::uint32_t topic = 0;  // into the list of topics
  std::int32_t partition = 0;
  std::int64_t begin = 0;  // above 0: Kafka has deleted what was before
  std::int64_t end = 0;    // of the first message that is not read
};

// Reads topics from their beginning to where they ended when it was asked.
//
// Threads: one at a time.
// Failure: unavailable when Kafka does not answer for `timeout`; not_found when there is no such
//          topic.
class TopicReader {
 public:
  // Settings of librdkafka, as the configuration has them; those for producers are left out.
  static Result<std::unique_ptr<TopicReader>> open(std::map<std::string, std::string> settings,
                                                   Duration timeout);
  TopicReader(const TopicReader&) = delete;
  TopicReader& operator=(const TopicReader&) = delete;
  ~TopicReader();

  // Where the partitions of these topics begin and end now. A topic that is not there has none, if
  // `missing` takes its name.
  Result<std::vector<TopicRange>> ranges(const std::vector<std::string>& topics,
                                         std::vector<std::string>* missing = nullptr);
  // The messages in these ranges, each partition in its order. What transactions left open or undid
  // is not among them.
  Result<std::vector<TopicMessage>> read(const std::vector<std::string>& topics,
                                         const std::vector<TopicRange>& ranges);

 private:
  TopicReader(rd_kafka_s* client, Duration timeout) : client_(client), timeout_(timeout) {}

  rd_kafka_s* client_;
  const Duration timeout_;
};

}  // namespace strand::relay
