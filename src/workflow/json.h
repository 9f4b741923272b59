#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include <strand/workflows.h>

// Instances of workflows, their histories and sagas, as JSON; see queue/json.h.

namespace strand::shown {

Result<SagaStatus> parse_saga_status(std::string_view text);

boost::json::object to_json(const InstanceInfo& info);
// Without its steps, and with them.
boost::json::object to_json(const SagaInfo& saga);
boost::json::object with_steps(const SagaInfo& saga);
boost::json::object to_json(const HistoryEvent& event, std::uint64_t number);

// Says which of them are parked. One look at what is parked costs less than one at each instance.
Result<void> add_parked(Store& store, const std::string& queue, std::vector<InstanceInfo>& infos);

// All that can be known of an instance without its history.
struct Shown {
  InstanceInfo info = {};
  std::map<std::string, Bytes> values = {};
  std::vector<std::string> children = {};
  std::vector<SagaInfo> sagas = {};
};

Result<Shown> look_at(Workflows& workflows, const std::string& id);
boost::json::object to_json(const Shown& shown);

}  // namespace strand::shown
