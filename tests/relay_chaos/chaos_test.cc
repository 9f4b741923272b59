// Relay processes, and what may befall them, their database and their broker. See README.md.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/broker.h"
#include "postgres/server.h"
#include "relay/read_topics.h"
#include "relay/verify.h"
#include "relay_chaos/fleet.h"
#include "relay_chaos/producers.h"
#include "relay_chaos/slices.h"
#include "relay_chaos/trace.h"
#include "sim/random.h"

namespace strand::relay_chaos {
namespace {

using namespace std::chrono_literals;
using kafka::TestBroker;
using postgres::TestServer;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("STRAND_SEED");  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

bool full() {
  return std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

struct Way {
  std::string name;
  std::string strategy;
  std::string relay = {};  // more settings
  bool fenced = true;      // by epochs
  std::chrono::milliseconds lease{2000};
};

std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

class RelayChaos : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (const auto reason = TestServer::missing()) GTEST_SKIP() << *reason;
    if (const auto reason = TestBroker::missing()) GTEST_SKIP() << *reason;
    std::cout << repeat() << std::endl;
  }

  [[nodiscard]] std::string repeat() const {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return fmt::format(
        "the same choices (the processes may run otherwise) with STRAND_SEED={} "
        "build/release/relay_chaos_tests --gtest_filter={}.{}",
        seed_, test->test_suite_name(), test->name());
  }

  // One server for all tests: it is restarted by them, so it is not that of other suites.
  static TestServer& server() {
    static TestServer one({.settings = {{"max_connections", "200"}}});
    return one;
  }
  static TestBroker& broker() { return kafka::shared_broker(); }

  // Everything that may happen, about as often as in the table of README.md.
  void befall(Fleet& fleet) {
    const std::uint64_t dice = random_.below(36);
    if (dice == 0) {
      fleet.restart_postgres(random_.one_in(2) ? TestServer::Stop::fast
                                               : TestServer::Stop::immediate);
    } else if (dice == 1) {
      fleet.restart_kafka(random_.one_in(2));
    } else if (dice < 7) {
      fleet.pause_one(random_);
    } else if (dice < 20) {
      fleet.kill_one(random_);
    } else {
      fleet.end_connection(random_);
    }
  }

  void nap(Fleet& fleet, std::int64_t ms_max) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.between(0, ms_max)));
    fleet.look_after();
  }

  // Lets all finish, and judges what is in Kafka and in the traces.
  void judge(Fleet& fleet, Producers& producers) {
    producers.stop();
    fleet.wait_until([&] { return producers.waiting() == 0; }, 90s, "no row waits");
    fleet.stop();

    const std::vector<relay::ExpectedRow> rows = producers.rows();
    auto reader = relay::TopicReader::open({{"bootstrap.servers", broker().address()}}, 20s);
    ASSERT_TRUE(reader) << reader.error().message;
    const auto ranges = (*reader)->ranges({fleet.topic()});
    ASSERT_TRUE(ranges) << ranges.error().message;
    const auto deliveries = (*reader)->read({fleet.topic()}, *ranges);
    ASSERT_TRUE(deliveries) << deliveries.error().message;
    const relay::VerifyReport report = relay::verify(rows, *deliveries);
    EXPECT_TRUE(report.ok) << describe(report);
    EXPECT_EQ(report.sent, report.rows);
    EXPECT_EQ(report.delivered, report.rows);

    const TraceJudgement traces = judge_traces(fleet.steps(), fleet.faults(), GetParam().fenced);
    for (std::size_t i = 0; i < std::min<std::size_t>(traces.violations.size(), 10); ++i)
      ADD_FAILURE() << traces.violations[i];
    EXPECT_LE(traces.totals.marked, report.rows);

    // The command that users have says the same, by the ids of the outbox.
    EXPECT_THAT(fleet.run({"relay", "verify", "-o", "json"}), ::testing::HasSubstr(R"("ok":true)"));
    std::cout << fmt::format(
        "{} faults; {} rows of {} entities, {} deliveries more; {} holds, {} taken over, {} lost, "
        "{} "
        "cut off\n",
        fleet.faults_count(), report.rows, report.entities, report.repeated, traces.totals.holds,
        traces.totals.takeovers, traces.totals.lost, traces.totals.cut);
    std::cout << std::flush;  // of a slice that a later one may outlast
    if (HasFailure()) keep(fleet);
  }

  static std::string describe(const relay::VerifyReport& report) {
    std::string text = fmt::format("missing {}, gaps {}, reordered {}, unknown {}\n",
                                   report.missing, report.gaps, report.reordered, report.unknown);
    for (const relay::VerifyFinding& finding : report.findings) {
      text += fmt::format(
          "{}: row {} of {}, {}\n", to_string(finding.kind), finding.id, finding.entity,
          finding.at ? fmt::format("offset {}, after {}", finding.at->offset, finding.other)
                     : finding.other);
    }
    return text;
  }

  // The traces go with the test otherwise.
  static void keep(const Fleet& fleet) {
    const auto to = std::filesystem::path(STRAND_BINARY_DIR) / "relay_chaos_failed";
    std::error_code ignored;
    std::filesystem::remove_all(to, ignored);
    std::filesystem::copy(fleet.folder(), to, ignored);
    std::cout << "traces and logs are in " << to.native() << "\n";
  }

  void run_slice(std::size_t faults) {
    Fleet fleet(
        server(), broker(),
        {.strategy = GetParam().strategy, .lease = GetParam().lease, .relay = GetParam().relay});
    Producers producers(fleet.url(), random_.next());
    producers.insert_backlog(10'000);
    fleet.start();
    producers.start(4, 300);
    fleet.wait_until([&] { return producers.waiting() < 9000; }, 60s, "rows are sent");
    // Some find nobody to befall. Kafka and PostgreSQL go away once at least.
    for (std::size_t i = 0; fleet.faults_count() < faults; ++i) {
      // So that there is something to disturb: the workers wake up at once.
      producers.insert_backlog(400);
      nap(fleet, 80);
      if (i == faults / 3) {
        fleet.restart_kafka(true);
      } else if (i == 2 * faults / 3) {
        fleet.restart_postgres(TestServer::Stop::immediate);
      } else if (i % 6 == 1) {
        fleet.pause_one(random_);
      } else {
        befall(fleet);
      }
    }
    judge(fleet, producers);
  }

  const std::uint64_t seed_ = chosen_seed();
  sim::Random random_{seed_};
};

TEST_P(RelayChaos, Every_row_arrives_in_order_whatever_befalls_its_workers) {
  if (!full()) {
    run_slice(18);
    return;
  }
  // Thousands of faults take longer than one may want to wait: a run that was interrupted goes on.
  Slices slices(fmt::format("relay_chaos_{}", GetParam().name), 10);
  while (const auto slice = slices.next()) {
    run_slice(100);
    if (HasFailure()) return;
    slices.done(*slice);
  }
}

TEST_P(RelayChaos, Undisturbed_workers_never_meet_and_send_nothing_twice) {
  // Patient: a machine that is busy is no fault.
  Fleet fleet(server(), broker(),
              {.strategy = GetParam().strategy, .lease = 30s, .relay = GetParam().relay});
  Producers producers(fleet.url(), random_.next());
  producers.insert_backlog(2000);
  fleet.start();
  producers.start(4, 300);
  const auto until = std::chrono::steady_clock::now() + (full() ? 30s : 2s);
  fleet.wait_until([&] { return std::chrono::steady_clock::now() > until; }, 60s, "time passes");
  judge(fleet, producers);
  const TraceJudgement traces = judge_traces(fleet.steps(), {}, GetParam().fenced);
  EXPECT_THAT(traces.violations, ::testing::IsEmpty());
  EXPECT_EQ(traces.totals.lost, 0U);
  EXPECT_EQ(traces.totals.published, producers.rows().size());
}

// The three strategies; in a long run also what they can be combined with.
std::vector<Way> ways() {
  std::vector<Way> all{{.name = "advisory", .strategy = "advisory"},
                       {.name = "skip_locked", .strategy = "skip_locked"},
                       {.name = "shards", .strategy = "shards"}};
  if (!full()) return all;
  all.push_back({.name = "shards_transactional",
                 .strategy = "shards",
                 .relay = "transactional = true",
                 .lease = 6s});
  all.push_back({.name = "advisory_by_polling", .strategy = "advisory", .relay = "notify = false"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Strategies, RelayChaos, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace strand::relay_chaos
