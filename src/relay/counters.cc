#include "relay/counters.h"

namespace strand::relay {

std::vector<Metric> Counters::metrics(const std::string& table) const {
  std::vector<Metric> metrics;
  const auto add = [&](const char* name, const char* help,
                       const std::atomic<std::uint64_t>& value) {
    metrics.push_back({.name = name,
                       .help = help,
                       .kind = Metric::Kind::counter,
                       .labels = {{"table", table}},
                       .value = static_cast<double>(value.load())});
  };
  add("strand_relay_claims_total", "Entities claimed", claims);
  add("strand_relay_batches_total", "Batches handed to Kafka", batches);
  add("strand_relay_rows_total", "Rows confirmed by Kafka and marked", rows);
  add("strand_relay_lost_claims_total", "Entities whose claim was lost before the mark", lost);
  add("strand_relay_poison_total", "Rows that cannot be sent", poison);
  add("strand_relay_dead_letters_total", "Rows sent to a dead-letter topic", dead_letters);
  add("strand_relay_outages_total", "Batches that Kafka did not confirm in time", outages);
  add("strand_relay_reconnects_total", "Connections to the database that were made anew",
      reconnects);
  return metrics;
}

}  // namespace strand::relay
