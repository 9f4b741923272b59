#pragma once

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "conformance/suite.h"

namespace strand::queue {

using namespace std::chrono_literals;
using conformance::Answer;
using conformance::bodies;
using conformance::Bodies;
using conformance::Ids;
using conformance::ids;
using conformance::key;
using conformance::reasons;
using conformance::unkeyed;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A store of each kind under a manual clock: see conformance/suite.h.
class QueueLibrary : public conformance::StoreConformance {
 protected:
  // Makes dead letters of new messages of a lane that has no others.
  Ids kill(const std::string& queue, std::initializer_list<Bytes> sent, const std::string& lane) {
    Ids made = enqueue_all(queue, key(lane), sent);
    const Lease lease = lease_key(queue, lane);
    std::vector<Outcome> outcomes;
    for (const Message& message : lease.messages)
      outcomes.push_back(conformance::made_dead(message.id));
    std::ignore = settle(lease, std::move(outcomes)).value();
    return made;
  }
};

}  // namespace strand::queue
