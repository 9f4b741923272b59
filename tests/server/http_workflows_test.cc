#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "server/http_fixture.h"

// Instances of workflows, their sagas, and who runs them.

namespace strand::server {
namespace {

using boost::json::value;
using testing::HasSubstr;

Task<std::string> run_greeting(Workflow& wf, std::string name) {
  static_cast<void>(wf);
  co_return "hello " + name;
}
const WorkflowType greeting{"greeting", run_greeting};

class AdminHttpWorkflows : public AdminHttp {
 protected:
  // Nobody runs it.
  void start_instance(const std::string& id) {
    Workflows::open(*store_)
        .value()
        .start(StartRequest{.name = "checkout", .id = id, .input = "{}"})
        .value();
  }
  static std::string instance(const std::string& id, const std::string& rest = "") {
    return "/api/v1/workflows/" + id + rest;
  }
};

TEST_F(AdminHttpWorkflows, Nothing_is_made_by_looking) {
  EXPECT_EQ(get("/api/v1/workflows").json().at("items").as_array().size(), 0U);
  EXPECT_EQ(get("/api/v1/sagas").json().at("items").as_array().size(), 0U);
  EXPECT_EQ(get(instance("order-1")).status, 404U);
  EXPECT_EQ(post(instance("order-1", "/terminate")).status, 404U);
  EXPECT_EQ(post(instance("order-1", "/events"), R"({"name":"paid"})").status, 404U);
  EXPECT_TRUE(store_->queues()->empty());
}

TEST_F(AdminHttpWorkflows, Instances_are_listed_and_filtered) {
  for (const char* id : {"order-1", "order-2", "trip-1"})
    start_instance(id);
  post(instance("order-2", "/terminate"), R"({"reason":"enough"})");
  EXPECT_EQ(get("/api/v1/workflows").json().at("items").as_array().size(), 3U);
  const value ended = get("/api/v1/workflows?state=terminated").json();
  EXPECT_EQ(ended.at("items").at(0).at("id"), "order-2");
  EXPECT_EQ(ended.at("items").at(0).at("error"), "enough");
  EXPECT_EQ(get("/api/v1/workflows?ended=false&prefix=order").json().at("items").as_array().size(),
            1U);
  EXPECT_EQ(
      get("/api/v1/workflows?since=2200-01-01T00:00:00Z").json().at("items").as_array().size(), 0U);
  EXPECT_EQ(get("/api/v1/workflows?name=other").json().at("items").as_array().size(), 0U);
  const value page = get("/api/v1/workflows?limit=1&after=order-1").json();
  EXPECT_EQ(page.at("items").at(0).at("id"), "order-2");
  EXPECT_EQ(page.at("next"), "order-2");
  EXPECT_EQ(get("/api/v1/workflows?state=odd").status, 400U);
  EXPECT_EQ(get("/api/v1/workflows?since=yesterday").status, 400U);
}

TEST_F(AdminHttpWorkflows, An_instance_that_has_run_is_shown_with_its_history) {
  const auto worker = WorkflowWorker::start(*store_, {.workflows = {greeting}}).value();
  auto workflows = Workflows::open(*store_).value();
  workflows.start(greeting, "g-1", "Ada").value().wait().value();
  const value shown = get(instance("g-1")).json();
  EXPECT_EQ(shown.at("state"), "completed");
  EXPECT_EQ(shown.at("name"), "greeting");
  EXPECT_TRUE(shown.at("sagas").is_array());
  const value history = get(instance("g-1", "/history")).json();
  EXPECT_EQ(history.at("items").at(0).at("kind"), "started");
  EXPECT_EQ(history.at("execution"), 1);
  EXPECT_EQ(history.at("more"), false);
  const value first = get(instance("g-1", "/history?limit=1")).json();
  EXPECT_EQ(first.at("more"), true);
  const value second =
      get(instance("g-1", "/history?after=" + std::string(first.at("next").as_string()))).json();
  EXPECT_EQ(second.at("items").at(0).at("number"), 1);
  EXPECT_EQ(get(instance("g-1", "/history?execution=7")).status, 404U);
  EXPECT_EQ(get(instance("nobody", "/history")).status, 404U);
  EXPECT_EQ(post(instance("g-1", "/events"), R"({"name":"late"})").status, 404U);
}

TEST_F(AdminHttpWorkflows, An_event_is_sent) {
  start_instance("order-1");
  EXPECT_EQ(post(instance("order-1", "/events"), R"({"name":"paid","value":{"amount":12}})")
                .json()
                .at("event"),
            "paid");
  EXPECT_EQ(post(instance("order-1", "/events"), R"({"name":"note","text":"as it is"})").status,
            200U);
  const auto waiting = store_->peek({.queue = "workflow", .key = "order-1"}).value().items;
  ASSERT_EQ(waiting.size(), 3U);
  EXPECT_EQ(waiting[1].body, R"({"amount":12})");
  EXPECT_EQ(waiting[2].body, "as it is");
  for (const char* body :
       {"{}", R"({"name":7})", R"({"name":"a","text":"b","value":1})", R"({"nam":"a"})"}) {
    EXPECT_EQ(post(instance("order-1", "/events"), body).status, 400U) << body;
  }
}

TEST_F(AdminHttpWorkflows, An_instance_is_asked_to_end_or_ended) {
  start_instance("order-1");
  EXPECT_EQ(post(instance("order-1", "/cancel"), R"({"reason":"no stock"})")
                .json()
                .at("cancel_requested"),
            true);
  EXPECT_EQ(post(instance("order-1", "/terminate")).json().at("terminated"), true);
  EXPECT_EQ(post(instance("order-1", "/terminate")).json().at("terminated"), false);
  EXPECT_EQ(get(instance("order-1")).json().at("state"), "terminated");
  EXPECT_EQ(post(instance("nobody", "/terminate")).status, 404U);
  EXPECT_EQ(post(instance("order-1", "/cancel"), R"({"why":"x"})").status, 400U);
}

TEST_F(AdminHttpWorkflows, A_parked_instance_is_resumed) {
  start_instance("order-1");
  LeaseRequest wanted;
  wanted.queue = "workflow";
  const auto leases = store_->lease(wanted).value();
  Transaction park;
  park.settles.push_back(
      {.token = leases.front().token, .then = Settle::Then::park, .park_reason = "look at me"});
  store_->apply(park).value();
  EXPECT_EQ(get("/api/v1/workflows").json().at("items").at(0).at("parked"), "look at me");
  EXPECT_EQ(post(instance("order-1", "/resume")).json().at("resumed"), true);
  EXPECT_TRUE(get(instance("order-1")).json().at("parked").is_null());
}

TEST_F(AdminHttpWorkflows, Workers_are_seen_by_their_heartbeats) {
  options_.worker_metrics = [] {
    return std::vector<Metric>{{.name = "strand_workflow_cache_hits_total", .value = 3}};
  };
  const auto worker =
      WorkflowWorker::start(*store_, {.workflows = {greeting},
                                      .routing = {.strategy = Routing::consistent_hash},
                                      .owner = "worker-7"})
          .value();
  ASSERT_TRUE(
      eventually([&] { return !get("/api/v1/workers").json().at("items").as_array().empty(); }));
  const value workers = get("/api/v1/workers").json();
  EXPECT_EQ(workers.at("items").at(0).at("name"), "worker-7");
  EXPECT_LT(workers.at("items").at(0).at("silent_ms").as_int64(), 60'000);
  EXPECT_EQ(workers.at("figures").at(0).at("name"), "strand_workflow_cache_hits_total");
}

TEST_F(AdminHttpWorkflows, Instances_are_found_by_their_queue_and_permit) {
  KnownTokens tokens;
  tokens.set("looker", {{Role::receive, "workflow"}});
  tokens.set("sender", {{Role::send, "workflow"}});
  start_instance("order-1");
  start(tokens);
  EXPECT_EQ(get_as("looker", "/api/v1/workflows").status, 200U);
  EXPECT_EQ(get_as("looker", "/api/v1/workflows?queue=other").status, 403U);
  EXPECT_EQ(get_as("sender", "/api/v1/workflows").status, 403U);
  const auto as = [&](const std::string& token, const std::string& rest, const std::string& body) {
    return call("POST", instance("order-1", rest), {.token = token, .body = body}).status;
  };
  EXPECT_EQ(as("sender", "/events", R"({"name":"paid"})"), 200U);
  EXPECT_EQ(as("looker", "/events", R"({"name":"paid"})"), 403U);
  for (const char* verb : {"/cancel", "/terminate", "/resume"}) {
    EXPECT_EQ(as("sender", verb, "{}"), 403U) << verb;
    EXPECT_EQ(as("looker", verb, "{}"), 403U) << verb;
  }
  server_.reset();
}

}  // namespace
}  // namespace strand::server
