// Worker processes that keep instances in memory, and what may befall them and their server. See
// README.md.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <strand/workflows.h>

#include "crash/child.h"
#include "postgres/server.h"
#include "store/postgres/check.h"
#include "workflow/wire.h"
#include "workflow_faults/collecting.h"

namespace strand::workflow_faults {
namespace {

using namespace std::chrono_literals;
using crash::Child;
using postgres::TestServer;
using Clock = std::chrono::steady_clock;

// Longer than anything takes on a machine that has much else to do.
constexpr auto patience = 60s;
// Longer than what a lease brings of a history: such instances stay in memory without their lease.
constexpr int many = 40;

template <class Condition>
void wait_until(const std::string& what, Condition condition) {
  for (const auto end = Clock::now() + patience; !condition();) {
    if (Clock::now() > end) throw std::runtime_error("it does not happen: " + what);
    std::this_thread::sleep_for(5ms);
  }
}

struct WorkerOptions {
  std::string owner = "a";
  std::string strategy = "automatic";
  std::string idle_timeout = "30s";
  std::string turn_lease = "2s";
  std::string halt_word = {};
};

class WorkerProcess {
 public:
  struct Counts {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t lost = 0;     // commits that were refused because the lease was over
    std::uint64_t evicted = 0;  // instances that were dropped for it, or had run elsewhere
  };

  WorkerProcess(const std::string& url, const WorkerOptions& options)
      : child_({std::string(STRAND_BINARY_DIR) + "/strand-workflow-child", url, options.owner,
                options.strategy, options.idle_timeout, options.turn_lease, options.halt_word}) {
    EXPECT_EQ(line(), "ready");
  }

  // Returns when the whole process has stopped, in the middle of a turn. Its id.
  pid_t wait_until_halted() {
    std::istringstream words(line());
    std::string halted;
    pid_t pid = 0;
    words >> halted >> pid;
    EXPECT_EQ(halted, "halted");
    wait_until("the process stops", [&] {
      std::ifstream file(fmt::format("/proc/{}/stat", pid));
      std::string number;
      std::string name;
      std::string state;
      file >> number >> name >> state;
      return state == "T";
    });
    return pid;
  }

  Counts counts() {
    child_.say("counts\n");
    std::istringstream words(line());
    Counts counts;
    words >> counts.hits >> counts.misses >> counts.lost >> counts.evicted;
    return counts;
  }

  void signal(int number) const { child_.signal(number); }
  void kill() {
    child_.signal(SIGKILL);
    child_.wait();
  }

 private:
  std::string line() { return child_.line(Clock::now() + patience).value_or("(nothing)"); }
  Child child_;
};

// Instances on a database of its own, and the client who sends to them.
class WorkflowFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = TestServer::missing()) GTEST_SKIP() << *reason;
  }

  void use(TestServer& server) {
    url_ = server.fresh_database();
    auto store = open(url_ + "?connections=4");
    if (!store) throw std::runtime_error(store.error().message);
    store_ = *std::move(store);
    workflows_ = std::make_unique<Workflows>(Workflows::open(*store_).value());
  }

  // With so many words that they stay in memory.
  void start_instances(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string id = fmt::format("i{}", i);
      ASSERT_TRUE(workflows_->start(collecting(), id));
      words_[id];
    }
    for (int i = 0; i < many; ++i)
      send_to_all();
  }

  // Whatever becomes of the server meanwhile: once, and in order.
  void send(const std::string& id, const std::string& word) {
    namespace wire = workflow::wire;
    Transaction transaction;
    Send& send = transaction.sends.emplace_back();
    send.queue = WorkflowsOptions{}.queue;
    send.key = id;
    send.body = word;
    send.dedup_id = fmt::format("{} {}", id, words_[id].size());
    wire::add(send.headers, wire::kind_header, wire::event_kind);
    wire::add(send.headers, wire::name_header, "word");
    wait_until("a word is sent to " + id, [&] {
      const auto sent = store_->apply(transaction);
      const bool again = !sent && (sent.error().code == Errc::unavailable ||
                                   sent.error().code == Errc::unknown_outcome);
      if (!sent && !again) throw std::runtime_error(sent.error().message);
      return sent.has_value();
    });
    if (word != last_word) words_[id].push_back(word);
  }
  void send_to_all() {
    for (const auto& [id, words] : words_)
      send(id, fmt::format("w{}", words.size()));
  }

  // All turns of what was sent are committed.
  void wait_for_turns() {
    for (const auto& one : words_) {
      const std::string count = std::to_string(one.second.size());
      wait_until(one.first + " has all its words", [&] {
        const auto info = workflows_->get(one.first);
        return info && info->status == count;
      });
    }
  }
  void wait_until_no_lease_is_held() {
    wait_until("no lease is held", [&] {
      const auto stats = store_->stats(WorkflowsOptions{}.queue);
      return stats && stats->leases == 0;
    });
  }

  // Each has what it was sent, once and in order; so has its history, which is one chain; and the
  // store is whole.
  void end_and_check() {
    for (const auto& [id, words] : words_)
      send(id, last_word);
    for (const auto& [id, words] : words_) {
      const auto ended = workflows_->wait(id, patience);
      ASSERT_TRUE(ended) << ended.error().message;
      ASSERT_TRUE(*ended) << id << " has not ended";
      EXPECT_EQ((*ended)->state, InstanceState::completed);
      EXPECT_EQ((*ended)->result, text(words));
      check_history(id, words);
    }
    const auto location = postgres::parse_location(url_).value();
    const auto connection = postgres::Connection::open(location.conninfo).value();
    const auto report = postgres::check(*connection, location);
    ASSERT_TRUE(report) << report.error().message;
    for (const postgres::Finding& finding : report->findings)
      ADD_FAILURE() << finding.kind << ": " << finding.what;
    EXPECT_EQ(store_->stats(WorkflowsOptions{}.queue)->live(), 0);
    EXPECT_EQ(store_->stats(WorkflowsOptions{}.queue)->dead, 0);
  }

  std::string url_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Workflows> workflows_;
  std::map<std::string, std::vector<std::string>> words_;  // sent, by instance

 private:
  static std::string text(const std::vector<std::string>& words) {
    std::string result;
    for (const std::string& word : words)
      result += word + " ";
    return result;
  }

  void check_history(const std::string& id, const std::vector<std::string>& words) {
    const auto page = workflows_->history(id, 0, 0, 10'000);
    ASSERT_TRUE(page) << page.error().message;
    std::vector<std::string> received;
    int ends = 0;
    for (const HistoryEvent& event : page->events) {
      if (event.kind == EventKind::event_received) received.push_back(event.data);
      ends += event.kind == EventKind::completed ? 1 : 0;
    }
    std::vector<std::string> expected = words;
    expected.emplace_back(last_word);
    EXPECT_EQ(received, expected) << id;
    EXPECT_EQ(ends, 1) << id;
    EXPECT_EQ(page->events.back().kind, EventKind::completed) << id;
  }
};

// It had the leases, the instances in memory, and a turn that was decided: all of it is worth
// nothing when it goes on.
TEST_F(WorkflowFaults, A_worker_that_was_stopped_past_its_lease_commits_nothing_and_goes_on) {
  use(postgres::shared_server());
  WorkerProcess stopped(url_, {.owner = "stopped", .turn_lease = "1s", .halt_word = "halt"});
  start_instances(6);
  wait_for_turns();
  send("i0", "halt");
  stopped.wait_until_halted();

  WorkerProcess other(url_, {.owner = "other", .turn_lease = "2s"});
  send_to_all();
  wait_for_turns();  // of the other, and only when the leases have run out
  EXPECT_GE(other.counts().misses, 6U);
  stopped.signal(SIGCONT);
  wait_until("the commit is refused, and the instance dropped", [&] {
    const auto counts = stopped.counts();
    return counts.lost > 0 && counts.evicted > 0;
  });

  for (int i = 0; i < 3; ++i)
    send_to_all();
  wait_for_turns();
  end_and_check();
}

class RestartedServer : public WorkflowFaults,
                        public testing::WithParamInterface<TestServer::Stop> {};

TEST_P(RestartedServer, Instances_in_memory_survive_their_server_and_fork_nothing) {
  // One that loses nothing which it has confirmed.
  TestServer server({.durable = true, .settings = {{"synchronous_commit", "on"}}});
  use(server);
  WorkerProcess worker(url_, {});
  start_instances(4);
  wait_for_turns();
  const auto before = worker.counts();
  {
    std::jthread client([&](const std::stop_token& stop) {
      // At least so many when it is up again; the number decides nothing else.
      for (int more = 10; more > 0; more -= stop.stop_requested() ? 1 : 0)
        send_to_all();
    });
    wait_until("messages go on", [&] { return worker.counts().hits > before.hits; });
    server.restart(GetParam());
  }
  wait_for_turns();
  const auto after = worker.counts();
  EXPECT_GT(after.hits, before.hits);
  send_to_all();
  wait_for_turns();
  EXPECT_GT(worker.counts().hits, after.hits) << "what is in memory is used again";
  end_and_check();
}

INSTANTIATE_TEST_SUITE_P(Stops, RestartedServer,
                         testing::Values(TestServer::Stop::immediate, TestServer::Stop::fast),
                         [](const auto& info) {
                           return info.param == TestServer::Stop::fast ? "fast" : "immediate";
                         });

class KilledWorker : public WorkflowFaults, public testing::WithParamInterface<std::string> {};

// Their lanes wait for it by their hints, for a grace: less than the lease that it might have had.
TEST_P(KilledWorker, Instances_of_a_killed_worker_go_on_elsewhere_within_the_lease_time) {
  use(postgres::shared_server());
  const WorkerOptions options{.strategy = GetParam(), .idle_timeout = "50ms", .turn_lease = "8s"};
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (const char* owner : {"a", "b"}) {
    WorkerOptions own = options;
    own.owner = owner;
    workers.push_back(std::make_unique<WorkerProcess>(url_, own));
  }
  start_instances(8);
  // Until each has worked, and both know of each other.
  const auto round = [&] {
    for (const auto& [id, words] : words_) {
      send(id, fmt::format("w{}", words.size()));
      std::this_thread::sleep_for(10ms);  // so that not one of them takes all
    }
    wait_for_turns();
    wait_until_no_lease_is_held();
  };
  wait_until("both have instances in memory", [&] {
    round();
    return workers[0]->counts().hits > 8 && workers[1]->counts().hits > 8;
  });

  workers.front()->kill();
  const auto killed = Clock::now();
  send_to_all();
  wait_for_turns();
  EXPECT_LT(Clock::now() - killed, 8s) << "the length of a lease";
  end_and_check();
}

INSTANTIATE_TEST_SUITE_P(Strategies, KilledWorker, testing::Values("automatic", "consistent_hash"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strand::workflow_faults
