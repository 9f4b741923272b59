// strand check and strand bench.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/vfs.h>

#include "e2e/program.h"
#include "postgres/server.h"
#include "store/engine/records.h"
#include "store/open.h"

namespace strand::e2e {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckProgram : public Program {
 protected:
  // Changes the store behind its back, as a bug or a bad disk would.
  void damage(const engine::MutationBatch& batch) const {
    auto backend = store::open_backend(url(), {});
    ASSERT_TRUE(backend) << backend.error().message;
    ASSERT_TRUE((*backend)->write(batch, Durability::sync));
  }
  void damage_counters() const {
    engine::MutationBatch batch;
    std::string value;
    engine::encode(engine::CountersRecord{.accepted = 77}, value);
    batch.put(engine::Family::counters, engine::queue_key(engine::QueueId{1}), value);
    batch.put(engine::Family::body, engine::number_key(99), "a body of nothing");
    damage(batch);
  }
  [[nodiscard]] std::vector<fs::path> copies() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().filename().native().find(".before-repair-") != std::string::npos) {
        found.push_back(entry.path());
      }
    }
    return found;
  }
};

TEST_F(CheckProgram, A_sound_store_is_found_sound) {
  ok({"send", "orders", "--lines"}, "a\nb\nc\n");
  ok({"receive", "orders"});
  EXPECT_THAT(ok({"check", url()}), HasSubstr("3 messages, 0 dead letters, 1 queues: all is well"));
  const auto report = json({"check", url()});
  EXPECT_THAT(names_of(report), ElementsAre("clean", "entries", "messages", "dead_letters",
                                            "queues", "found", "repairable", "counts", "findings"));
  EXPECT_EQ(text(report, "clean"), "true");
}

TEST_F(CheckProgram, What_is_wrong_is_named_and_the_store_stays_as_it_is) {
  ok({"send", "orders", "a"});
  damage_counters();
  for (int time = 0; time < 2; ++time) {
    const Finished finished = run({"check", url(), "-o", "json"});
    EXPECT_EQ(finished.exit, 1);
    EXPECT_THAT(finished.err, HasSubstr("strand: 2 things are wrong"));
    const auto reports = json_lines(finished.out);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(text(reports[0], "clean"), "false");
    EXPECT_EQ(serialize(reports[0].at("counts")), R"({"not_conserved":1,"orphan_body":1})");
  }
  EXPECT_THAT(run({"check", url()}).out, HasSubstr("orphan_body: "));
  EXPECT_TRUE(copies().empty());
}

TEST_F(CheckProgram, A_repair_makes_a_copy_first_and_loses_no_message) {
  ok({"send", "orders", "--lines"}, "a\nb\n");
  damage_counters();
  const auto report = json({"check", url(), "--repair"});
  EXPECT_EQ(text(report, "clean"), "true");
  EXPECT_EQ(count(report, "repaired"), 2U);
  ASSERT_EQ(copies().size(), 1U);
  EXPECT_EQ(text(report, "copy"), copies().front().native());

  EXPECT_EQ(run({"check", "rocksdb:" + copies().front().native()}).exit, 1) << "as it was";
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a"));
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("b"));
  EXPECT_THAT(ok({"check", url(), "--repair"}), HasSubstr("all is well"));
  EXPECT_EQ(copies().size(), 1U) << "nothing to repair, nothing to copy";
}

TEST_F(CheckProgram, A_store_that_is_not_there_or_not_at_rest_is_refused) {
  EXPECT_THAT(refused(1, {"check", url()}), HasSubstr("there is no store"));
  EXPECT_FALSE(fs::exists(folder() + "/store"));
  const auto held = store::open_backend(url(), {});
  ASSERT_TRUE(held);
  EXPECT_THAT(refused(1, {"check", url()}), HasSubstr("in use by process"));
  EXPECT_THAT(refused(2, {"check"}), HasSubstr("URL"));
}

TEST_F(Program, A_benchmark_measures_beside_its_baselines_and_leaves_nothing_behind) {
  const auto report =
      json({"bench", "queue", "--duration", "60ms", "--batch", "10", "--keys", "50", "--producers",
            "2", "--consumers", "2", "--backlog", "500", "--allow-memory-filesystem"});
  EXPECT_THAT(
      names_of(report),
      ElementsAre("enqueue_per_s", "lease_per_s", "ack_per_s", "cycle_per_s", "baseline_file_per_s",
                  "baseline_rocksdb_per_s", "latency_ms", "rss_mb", "syncs", "filesystem", "size",
                  "batch", "keys", "producers", "consumers", "durability", "backlog"));
  for (const char* rate : {"enqueue_per_s", "lease_per_s", "ack_per_s", "cycle_per_s",
                           "baseline_file_per_s", "baseline_rocksdb_per_s", "rss_mb"}) {
    EXPECT_GT(report.at(rate).to_number<double>(), 0) << rate;
  }
  EXPECT_GT(count(report, "syncs"), 0U);
  const auto& lease = report.at("latency_ms").at("lease").as_object();
  EXPECT_THAT(names_of(lease), ElementsAre("p50", "p99", "p999"));
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(Program, A_benchmark_shows_what_instances_in_memory_save) {
  const auto trickle = json({"bench", "workflow", "--scenario", "trickle", "--history", "120",
                             "--messages", "4", "--spacing", "1ms", "--allow-memory-filesystem"});
  const auto& replayed = trickle.at("replayed_events");
  EXPECT_GE(replayed.at("on").to_number<double>(), 120);
  EXPECT_LT(replayed.at("on").to_number<double>(), 130);
  EXPECT_GE(replayed.at("off").to_number<double>(), 480);
  const auto checkpoint =
      json({"bench", "workflow", "--scenario", "checkpoint", "--history", "1200", "--messages", "2",
            "--spacing", "1ms", "--allow-memory-filesystem"});
  EXPECT_GE(checkpoint.at("replayed_events").at("off").to_number<double>(), 2400);
  EXPECT_LT(checkpoint.at("replayed_events").at("on").to_number<double>(), 1020);
  const auto turn = json({"bench", "workflow", "--scenario", "cached-turn", "--history", "300",
                          "--messages", "5", "--allow-memory-filesystem"});
  EXPECT_EQ(turn.at("bytes_ratio").to_number<double>(), 1);
  const auto live = json({"bench", "workflow", "--scenario", "live", "--instances", "60",
                          "--cached", "10", "--duration", "30ms", "--allow-memory-filesystem"});
  EXPECT_LE(live.at("many").at("cache_bytes_max").to_number<double>(),
            live.at("max_memory").to_number<double>());
}

TEST_F(Program, A_benchmark_of_routing_needs_a_store_that_several_processes_can_open) {
  EXPECT_THAT(refused(1, {"bench", "workflow", "--scenario", "routing"}),
              HasSubstr("can be opened by one only"));
  EXPECT_THAT(refused(1, {"bench", "workflow", "--scenario", "routing", "--store",
                          "postgres://localhost/none", "--spacing", "10ms"}),
              HasSubstr("--spacing must be more than --idle-timeout (200ms)"));
  EXPECT_THAT(refused(2, {"bench", "workflow", "--strategy", "best"}), HasSubstr("cache_aware"));
  EXPECT_THAT(ok({"bench", "--help"}), testing::Not(HasSubstr("routing-worker")));
  EXPECT_THAT(refused(2, {"bench", "que"}), testing::Not(HasSubstr("routing-worker")));
}

TEST_F(Program, A_benchmark_counts_how_many_messages_find_their_instance_in_memory) {
  if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
  const auto report = json({"bench",          "workflow",
                            "--scenario",     "routing",
                            "--store",        postgres::shared_server().fresh_database(),
                            "--strategy",     "cache_aware",
                            "--workers",      "3",
                            "--instances",    "6",
                            "--messages",     "3",
                            "--spacing",      "150ms",
                            "--idle-timeout", "50ms",
                            "--turn-lease",   "500ms"});
  EXPECT_THAT(names_of(report),
              ElementsAre("cache_aware", "workers", "instances", "messages", "history",
                          "spacing_ms", "idle_timeout_ms", "turn_lease_ms", "grace_ms"));
  const auto& way = report.at("cache_aware").as_object();
  EXPECT_THAT(names_of(way), ElementsAre("hit_rate", "hits", "misses", "lanes_moved", "latency_ms",
                                         "killed_between_leases", "killed_holding_leases"));
  EXPECT_EQ(count(way, "hits") + count(way, "misses"), 18U);
  EXPECT_GT(count(way, "hits"), 0U);
  for (const char* killed : {"killed_between_leases", "killed_holding_leases"})
    EXPECT_GT(way.at(killed).at("slowest_ms").to_number<double>(), 0) << killed;
}

TEST_F(Program, A_benchmark_refuses_a_store_that_exists_and_a_disk_that_is_none) {
  ok({"send", "orders", "a"});
  EXPECT_THAT(refused(1, {"bench", "queue", "--duration", "10ms"}), HasSubstr("exists already"));
  EXPECT_THAT(bodies(json({"receive", "orders"})), ElementsAre("a"));

  struct statfs found = {};
  constexpr long tmpfs = 0x01021994;
  if (::statfs("/dev/shm", &found) != 0 || found.f_type != tmpfs) {
    GTEST_SKIP() << "there is no file system in memory here";
  }
  EXPECT_THAT(refused(1, {"bench", "queue", "--store", "rocksdb:/dev/shm/strand-e2e-bench"}),
              HasSubstr("--allow-memory-filesystem"));
}

}  // namespace
}  // namespace strand::e2e
