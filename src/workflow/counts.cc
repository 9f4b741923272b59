#include "workflow/counts.h"

namespace strand::workflow {

std::vector<Metric> to_metrics(const Counts& counts, const InstanceCache& cache) {
  std::vector<Metric> metrics;
  const auto counter = [&](std::string name, std::string help, const Counts::Count& count,
                           std::vector<std::pair<std::string, std::string>> labels = {}) {
    metrics.push_back({.name = std::move(name),
                       .help = std::move(help),
                       .kind = Metric::Kind::counter,
                       .labels = std::move(labels),
                       .value = static_cast<double>(count.load())});
  };
  const auto distribution = [&](std::string name, std::string help, const Histogram& histogram) {
    metrics.push_back({.name = std::move(name),
                       .help = std::move(help),
                       .kind = Metric::Kind::distribution,
                       .distribution = histogram.read()});
  };
  counter("strand_workflow_started_total", "Executions begun by a start", counts.started);
  const std::string ended = "strand_workflow_ended_total";
  const std::string ended_help = "Executions that have ended, by outcome";
  counter(ended, ended_help, counts.completed, {{"outcome", "completed"}});
  counter(ended, ended_help, counts.failed, {{"outcome", "failed"}});
  counter(ended, ended_help, counts.cancelled, {{"outcome", "cancelled"}});
  counter(ended, ended_help, counts.terminated, {{"outcome", "terminated"}});
  counter(ended, ended_help, counts.timed_out, {{"outcome", "timed_out"}});
  counter(ended, ended_help, counts.continued, {{"outcome", "continued"}});
  counter("strand_workflow_turns_total", "Turns run", counts.turns);
  counter("strand_workflow_parked_total", "Instances stopped for a person", counts.parked);
  counter("strand_workflow_nondeterminism_total",
          "Turns whose code did not do what its history says", counts.nondeterminism);
  counter("strand_workflow_replayed_events_total", "Events handed in again",
          counts.replayed_events);
  counter("strand_workflow_checkpoints_total", "Checkpoints taken", counts.checkpoints);
  counter("strand_workflow_unreadable_checkpoints_total",
          "Checkpoints whose state the code could not read, so that an older one was used",
          counts.unreadable_checkpoints);
  counter("strand_workflow_events_total", "Events added to histories", counts.new_events);
  counter("strand_orchestration_cache_hits_total", "Turns whose instance was in memory",
          counts.cache_hits);
  counter("strand_orchestration_cache_misses_total", "Turns whose instance had to be replayed",
          counts.cache_misses);
  for (std::size_t i = 0; i < InstanceCache::eviction_names.size(); ++i) {
    const Counts::Count count = cache.evictions(static_cast<InstanceCache::Eviction>(i));
    counter("strand_orchestration_cache_evictions_total",
            "Instances that left memory before they ended, by why", count,
            {{"reason", std::string(InstanceCache::eviction_names[i])}});
  }
  const auto gauge = [&](std::string name, std::string help, std::size_t value) {
    metrics.push_back({.name = std::move(name),
                       .help = std::move(help),
                       .kind = Metric::Kind::gauge,
                       .value = static_cast<double>(value)});
  };
  gauge("strand_orchestration_cache_size_current", "Instances in memory between two turns",
        cache.size());
  gauge("strand_orchestration_cache_bytes_current", "What they take of memory, by estimate",
        cache.bytes());
  counter("strand_orchestration_replay_events_saved_total",
          "Events that would have been handed in again", counts.events_saved);
  counter("strand_routing_lanes_moved_total",
          "Instances that were in memory here, and ran elsewhere meanwhile", counts.lanes_moved);
  const std::string served = "strand_routing_turns_total";
  const std::string served_help =
      "Turns of instances that had run before, by whether this worker had run them last";
  counter(served, served_help, counts.served_by_owner, {{"served_by", "owner"}});
  counter(served, served_help, counts.served_by_other, {{"served_by", "other"}});
  counter("strand_orchestration_coalesce_batches_total", "Turns that waited for more messages",
          counts.coalesced_batches);
  distribution("strand_orchestration_coalesce_messages_per_batch",
               "Messages of a turn that waited for more", counts.coalesced_messages);
  distribution("strand_orchestration_coalesce_wait_duration_seconds",
               "How long turns waited for more messages", counts.coalesced_seconds);
  const std::string done = "strand_activity_attempts_total";
  const std::string done_help = "Attempts of activities, by how they ended";
  counter(done, done_help, counts.activities_completed, {{"outcome", "completed"}});
  counter(done, done_help, counts.activities_failed, {{"outcome", "failed"}});
  counter(done, done_help, counts.activities_retried, {{"outcome", "retried"}});
  counter(done, done_help, counts.activities_timed_out, {{"outcome", "timed_out"}});
  distribution("strand_workflow_turn_duration_seconds", "Of running a turn, without its commit",
               counts.turn_seconds);
  distribution("strand_activity_duration_seconds", "Of one attempt of an activity",
               counts.activity_seconds);
  distribution("strand_workflow_history_events", "Length of the history after a turn",
               counts.history_events);
  return metrics;
}

}  // namespace strand::workflow
