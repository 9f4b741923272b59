#include "server/metrics.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/workflow.h>
#include <strand/workflow_worker.h>

#include "server/doc_tables.h"
#include "server/metered_store.h"
#include "server/process_metrics.h"
#include "server/store_metrics.h"
#include "unit/fresh_folder.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

void send(Store& store, const std::string& queue, int messages = 1) {
  Transaction transaction;
  for (int i = 0; i < messages; ++i) {
    Send& send = transaction.sends.emplace_back();
    send.queue = queue;
    send.body = "x";
  }
  ASSERT_TRUE(store.apply(transaction));
}

// The figures of a store, counted anew at each look.
struct Shown {
  Shown(Store& store, std::uint32_t queues_max, const std::string& url = "memory:")
      : source(store, {.queues_max = queues_max, .interval = 0ms, .url = url}),
        handle(metrics.add([this] { return source.read(); })) {}

  std::string text() { return metrics.text(); }

  Metrics metrics;
  StoreMetrics source;
  std::shared_ptr<void> handle;
};

TEST(Metrics, The_same_name_and_labels_are_the_same_figure) {
  Metrics metrics;
  metrics.counter("a_total", "Help", {{"x", "1"}}).Increment();
  metrics.counter("a_total", "Help", {{"x", "1"}}).Increment();
  metrics.counter("a_total", "Help", {{"x", "2"}}).Increment();
  metrics.gauge("b", "Other").Set(3);
  metrics.histogram("c", "Third", {1, 2}).Observe(1.5);
  EXPECT_EQ(metrics.text(),
            "# HELP a_total Help\n# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 1\n"
            "# HELP b Other\n# TYPE b gauge\nb 3\n"
            "# HELP c Third\n# TYPE c histogram\nc_count 1\nc_sum 1.5\nc_bucket{le=\"1\"} 0\n"
            "c_bucket{le=\"2\"} 1\nc_bucket{le=\"+Inf\"} 1\n");
}

TEST(Metrics, A_source_is_asked_at_each_look_until_it_is_dropped) {
  Metrics metrics;
  double value = 1;
  auto handle = metrics.add([&]() -> std::vector<Metric> {
    return {{.name = "s", .help = "h", .kind = Metric::Kind::gauge, .value = value}};
  });
  EXPECT_THAT(metrics.text(), HasSubstr("\ns 1\n"));
  value = 2;
  EXPECT_THAT(metrics.text(), HasSubstr("\ns 2\n"));
  handle.reset();
  EXPECT_EQ(metrics.text(), "");
}

TEST(Metrics, What_two_sources_tell_of_one_name_stands_together) {
  Metrics metrics;
  const auto worker = [](const char* name) {
    return [name]() -> std::vector<Metric> {
      return {{.name = "turns_total", .help = "h", .labels = {{"worker", name}}, .value = 1}};
    };
  };
  const auto a = metrics.add(worker("a"));
  const auto b = metrics.add(worker("b"));
  EXPECT_EQ(metrics.text(),
            "# HELP turns_total h\n# TYPE turns_total counter\nturns_total{worker=\"a\"} 1\n"
            "turns_total{worker=\"b\"} 1\n");
}

TEST(Metrics, A_distribution_is_a_histogram_of_all_up_to_a_bound) {
  Metrics metrics;
  const auto handle = metrics.add([]() -> std::vector<Metric> {
    return {{.name = "d",
             .help = "h",
             .kind = Metric::Kind::distribution,
             .distribution = {.bounds = {1, 2}, .counts = {3, 4, 5}, .count = 12, .sum = 30}}};
  });
  EXPECT_THAT(metrics.text(), HasSubstr("d_count 12\nd_sum 30\nd_bucket{le=\"1\"} 3\n"
                                        "d_bucket{le=\"2\"} 7\nd_bucket{le=\"+Inf\"} 12\n"));
}

TEST(Metrics, Labels_are_escaped_and_valid_text) {
  Metrics metrics;
  const auto handle = metrics.add([]() -> std::vector<Metric> {
    return {{.name = "q", .help = "h", .labels = {{"queue", "a\"\n\\b"}}, .value = 1},
            {.name = "q", .help = "h", .labels = {{"queue", "\xff"}}, .value = 1}};
  });
  EXPECT_THAT(metrics.text(), HasSubstr("q{queue=\"\\\\xff\"} 1\nq{queue=\"a\\\"\\n\\\\b\"} 1\n"));
}

TEST(StoreMetrics, A_queue_has_its_depth_by_state_and_the_age_of_the_oldest) {
  const auto clock = std::make_shared<ManualClock>();
  OpenOptions options;
  options.clock = clock;
  const auto store = *open("memory:", options);
  send(*store, "orders", 3);
  LeaseRequest request;
  request.queue = "orders";
  request.lanes = 1;
  request.lease = 1min;
  const auto leases = store->lease(request);
  ASSERT_TRUE(leases);
  clock->advance(1500ms);
  Shown shown(*store, 10);
  const std::string text = shown.text();
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"orders\",state=\"ready\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"orders\",state=\"leased\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"orders\",state=\"dead\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_oldest_ready_seconds{queue=\"orders\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_total{queue=\"orders\",outcome=\"accepted\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_leases{queue=\"orders\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_lanes_ready{queue=\"orders\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("strand_queues 1\n"));
  EXPECT_THAT(text, HasSubstr("strand_store_up 1\n"));
}

TEST(StoreMetrics, However_many_queues_there_are_few_have_names) {
  const auto store = *open("memory:");
  for (int i = 0; i < 300; ++i)
    send(*store, fmt::format("q{:03}", i), i == 299 ? 5 : 1);
  send(*store, "(others)");
  Shown shown(*store, 10);
  const std::string text = shown.text();
  EXPECT_EQ(count_of(text, "strand_queue_leases{queue="), 11U);
  EXPECT_THAT(text, HasSubstr("strand_queues 301\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"q299\",state=\"ready\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"q008\",state=\"ready\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"q009\"")));
  EXPECT_THAT(text, HasSubstr("strand_queue_messages{queue=\"(others)\",state=\"ready\"} 291\n"));
  EXPECT_LT(text.size(), 20'000U);
}

TEST(StoreMetrics, A_queue_that_is_removed_disappears) {
  const auto store = *open("memory:");
  send(*store, "stays");
  send(*store, "goes");
  Shown shown(*store, 10);
  EXPECT_THAT(shown.text(), HasSubstr("\"goes\""));
  Transaction removal;
  removal.admin = RemoveQueue{.queue = "goes"};
  ASSERT_TRUE(store->apply(removal));
  const std::string text = shown.text();
  EXPECT_THAT(text, Not(HasSubstr("\"goes\"")));
  EXPECT_THAT(text, HasSubstr("\"stays\""));
  EXPECT_THAT(text, HasSubstr("strand_queues 1\n"));
}

TEST(StoreMetrics, Queues_are_not_counted_more_often_than_the_interval_says) {
  const auto store = *open("memory:");
  send(*store, "orders");
  StoreMetrics source(*store, {.queues_max = 10, .interval = 1h, .url = ""});
  const auto before = source.read();
  send(*store, "another");
  EXPECT_EQ(source.read().size(), before.size());
}

TEST(StoreMetrics, Writes_and_their_transactions_are_counted) {
  const FreshFolder folder;
  const std::string url = "sqlite:" + (folder / "store.db").string();
  const auto store = *open(url);
  const auto read = [&] {
    Shown shown(*store, 10, url);
    return shown.metrics.text();
  };
  EXPECT_THAT(read(), HasSubstr("strand_commit_transactions_sum 0\n"));
  std::vector<Transaction> three(3);
  for (Transaction& transaction : three)
    transaction.sends.emplace_back().queue = "orders";
  static_cast<void>(store->apply(three));
  const std::string text = read();
  EXPECT_THAT(text, HasSubstr("strand_commit_transactions_sum 3\n"));
  EXPECT_THAT(text, HasSubstr("strand_commit_transactions_count 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("strand_commit_write_seconds_count{durability=\"sync\"} 0\n")));
  EXPECT_THAT(text, HasSubstr("strand_commit_failures_total 0\n"));
  EXPECT_THAT(text, HasSubstr("\nstrand_disk_free_bytes "));
  EXPECT_THAT(text, Not(HasSubstr("\nstrand_disk_used_bytes 0\n")));
}

TEST(StoreMetrics, The_bytes_of_a_folder_are_those_of_its_files) {
  const FreshFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  std::ofstream(folder / "a/x") << std::string(100, 'x');
  std::ofstream(folder / "a/b/y") << std::string(11, 'y');
  EXPECT_EQ(bytes_on_disk(folder / "a"), 111U);
  EXPECT_EQ(bytes_on_disk(folder / "missing"), 0U);
  std::ofstream(folder / "d") << "1234";
  std::ofstream(folder / "d-wal") << "12";
  EXPECT_EQ(bytes_on_disk(folder / "d"), 6U);
}

TEST(ProcessMetrics, The_process_tells_of_itself) {
  std::map<std::string, double> values;
  for (const Metric& metric : process_metrics("1.2.3")) {
    values[metric.name] = metric.value;
    if (metric.name == "strand_build_info") {
      EXPECT_EQ(metric.labels.front(), std::pair(std::string("version"), std::string("1.2.3")));
    }
  }
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  EXPECT_GT(values["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(values["process_cpu_seconds_total"], 0);
  EXPECT_GE(values["process_open_fds"], 3);
  EXPECT_GE(values["process_max_fds"], values["process_open_fds"]);
  EXPECT_GE(values["process_threads"], 1);
  EXPECT_NEAR(values["process_start_time_seconds"], now.count(), 600);
}

// Families of a text, as rows of the documentation: name, type, labels, meaning.
std::set<std::vector<std::string>> families_of(const std::string& text) {
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> helps;
  std::map<std::string, std::set<std::string>> labels;
  std::istringstream lines(text);
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      const std::size_t blank = line.find(' ', 7);
      helps[line.substr(7, blank - 7)] = line.substr(blank + 1);
    }
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      words >> current >> types[current];
    }
    if (line.starts_with("#") || line.find('{') == std::string::npos) continue;
    std::string rest = line.substr(line.find('{') + 1);
    for (std::size_t equals = 0; (equals = rest.find("=\"")) != std::string::npos;) {
      const std::string name = rest.substr(0, equals);
      if (name != "le") labels[current].insert("`" + name + "`");
      const std::size_t end = rest.find('"', equals + 2);
      rest = rest.substr(end + 1 + (rest[end + 1] == ',' ? 1 : 0));
    }
  }
  std::set<std::vector<std::string>> families;
  for (const auto& [name, type] : types)
    families.insert(
        {"`" + name + "`", type, fmt::format("{}", fmt::join(labels[name], ", ")), helps[name]});
  return families;
}

Task<int> run_doubled(Workflow& /*wf*/, int x) { co_return 2 * x; }
const WorkflowType doubled{"doubled", run_doubled};

TEST(Documentation, Every_metric_is_in_the_table_and_the_other_way_round) {
  const FreshFolder folder;
  const std::string url = "sqlite:" + (folder / "store.db").string();
  const auto store = *open(url);
  Shown shown(*store, 10, url);
  MeteredStore metered(*store, shown.metrics);
  send(metered, "orders");
  EXPECT_FALSE(metered.stats("nowhere"));
  const auto process = shown.metrics.add([] { return process_metrics("0"); });
  WorkflowWorkerOptions options;
  options.workflows = {doubled};
  const auto worker = WorkflowWorker::start(metered, options);
  ASSERT_TRUE(worker);
  const auto workflows = shown.metrics.add([&] { return (*worker)->metrics(); });

  std::set<std::vector<std::string>> documented;
  for (const auto& row : test::rows_of("docs/metrics.md", "metric")) {
    // The listeners' own tests answer for theirs.
    if (row[0].starts_with("`strand_grpc_") || row[0].starts_with("`strand_http_")) continue;
    documented.insert(row);
  }
  const auto shown_families = families_of(shown.text());
  test::Rows rows(shown_families.begin(), shown_families.end());
  EXPECT_EQ(documented, shown_families) << test::as_rows(rows);
}

}  // namespace
}  // namespace strand::server
