#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/saga.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "server/http/router.h"
#include "server/http_fixture.h"
#include "server/json_schema.h"

// The OpenAPI document says what is so.

namespace strand::server {
namespace {

using boost::json::value;
using testing::ElementsAre;
using testing::IsEmpty;

std::string reserve(const std::string& seat) { return "reserved " + seat; }
void give_back(const std::string& seat) { static_cast<void>(seat); }
std::string pay(const std::string& seat) {
  throw ApplicationError("declined", "no money for " + seat).final();
}
const Activity reserve_seat{"reserve_seat", reserve};
const Activity give_back_seat{"give_back_seat", give_back};
const Activity pay_seat{"pay_seat", pay};

Task<> run_trip(Workflow& wf, std::string seat) {
  Saga saga{wf, {.name = "trip", .data = seat}};
  co_await saga.step(reserve_seat, seat, give_back_seat);
  co_await saga.step(pay_seat, seat);
}
const WorkflowType trip{"trip", run_trip};

class AdminHttpDocument : public AdminHttp {
 protected:
  value document() { return get("/openapi.json").json(); }

  static void each_operation(
      const value& document,
      const std::function<void(const std::string&, const std::string&, const value&)>& visit) {
    for (const auto& path : document.at("paths").as_object()) {
      for (const auto& operation : path.value().as_object())
        visit(std::string(operation.key()), std::string(path.key()), operation.value());
    }
  }

  // Something of each kind.
  void fill() {
    put("/api/v1/queues/orders",
        R"({"ttl_ms":600000,"dead_notice_to":{"queue":"notices","key":"k"}})");
    send("orders", "a", "text");
    send("orders", std::string("\xff"), "\xfe");
    send("orders", {}, "no key");
    dead_ = std::to_string(static_cast<std::uint64_t>(bury("orders", "dead", "bad")));
    put("/api/v1/topics/orders.paid", R"({"retain_ms":1000})");
    put("/api/v1/subscriptions/mails", R"({"pattern":"orders.#"})");
    worker_ =
        WorkflowWorker::start(*store_, {.workflows = {trip},
                                        .activities = {reserve_seat, give_back_seat, pay_seat},
                                        .routing = {.strategy = Routing::consistent_hash}})
            .value();
    options_.worker_metrics = [this] { return worker_->metrics(); };
    auto workflows = Workflows::open(*store_).value();
    workflows.start(trip, "trip-1", "7A").value().wait().value();
  }

  std::string filled_in(std::string path) const {
    const std::map<std::string, std::string> values = {{"{queue}", "orders"}, {"{key}", "a"}};
    for (const auto& [name, with] : values) {
      if (const auto at = path.find(name); at != std::string::npos)
        path.replace(at, name.size(), with);
    }
    if (const auto at = path.find("{id}"); at != std::string::npos)
      path.replace(at, 4, path.find("dead-letters") != std::string::npos ? dead_ : "trip-1");
    return path;
  }

  std::string dead_;
  std::unique_ptr<WorkflowWorker> worker_;
};

TEST_F(AdminHttpDocument, It_has_the_routes_of_the_server_and_no_others) {
  std::set<std::pair<std::string, std::string>> described;
  each_operation(document(), [&](const std::string& method, const std::string& path, const value&) {
    described.emplace(method, path);
  });
  std::set<std::pair<std::string, std::string>> served;
  for (const http::Route& route : http::all_routes()) {
    std::string method;
    for (const char c : route.method)
      method += static_cast<char>(c - 'A' + 'a');
    EXPECT_TRUE(served.emplace(method, route.path).second) << route.path;
    EXPECT_TRUE(route.live || route.answer) << route.path;
  }
  EXPECT_EQ(described, served);
  EXPECT_GT(served.size(), 30U);
}

TEST_F(AdminHttpDocument, Its_references_lead_somewhere) {
  const value all = document();
  std::size_t found = 0;
  std::set<std::string> used;
  const std::function<void(const value&)> visit = [&](const value& part) {
    if (part.is_array()) {
      for (const value& item : part.get_array())
        visit(item);
    }
    if (!part.is_object()) return;
    for (const auto& member : part.get_object()) {
      if (member.key() == "$ref") {
        ++found;
        used.emplace(member.value().as_string());
        EXPECT_NE(find_schema(all, member.value().as_string()), nullptr) << member.value();
      }
      visit(member.value());
    }
  };
  visit(all);
  EXPECT_GT(found, 50U);
  for (const auto& schema : all.at("components").at("schemas").as_object()) {
    EXPECT_TRUE(used.contains("#/components/schemas/" + std::string(schema.key())))
        << std::string(schema.key()) << " is used by nobody";
  }
}

TEST_F(AdminHttpDocument, Names_in_paths_are_parameters_and_operations_have_names) {
  std::set<std::string> names;
  each_operation(
      document(), [&](const std::string&, const std::string& path, const value& operation) {
        EXPECT_TRUE(names.emplace(operation.at("operationId").as_string()).second) << path;
        EXPECT_FALSE(operation.at("summary").as_string().empty()) << path;
        std::set<std::string> parameters;
        for (const value& parameter : operation.at("parameters").as_array()) {
          if (parameter.at("in") == "path") parameters.emplace(parameter.at("name").as_string());
        }
        for (const char* name : {"queue", "key", "id", "topic"}) {
          const bool in_path = path.find(std::string("{") + name + "}") != std::string::npos;
          EXPECT_EQ(parameters.contains(name), in_path) << path;
        }
      });
}

TEST_F(AdminHttpDocument, Real_answers_are_as_it_says) {
  fill();
  start();
  const value all = document();
  std::size_t checked = 0;
  each_operation(
      all, [&](const std::string& method, const std::string& path, const value& operation) {
        const auto& content = operation.at("responses").at("200").at("content").as_object();
        if (method != "get" || !content.contains("application/json")) return;
        const auto answer = get(filled_in(path));
        EXPECT_EQ(answer.status, 200U) << path << answer.body;
        const value& schema = content.at("application/json").at("schema");
        EXPECT_THAT(schema_complaints(all, schema, answer.json()), IsEmpty()) << path << "\n"
                                                                              << answer.body;
        if (const auto body = answer.json(); body.get_object().contains("items")) {
          EXPECT_FALSE(body.at("items").as_array().empty()) << path << " shows nothing";
        }
        ++checked;
      });
  EXPECT_GE(checked, 17U);
  server_.reset();
}

TEST_F(AdminHttpDocument, Answers_to_changes_and_errors_are_as_it_says) {
  fill();
  start();
  const value all = document();
  const std::vector<std::tuple<std::string, std::string, std::string>> changes = {
      {"PUT", "/api/v1/queues/{queue}", "{}"},
      {"POST", "/api/v1/queues/{queue}/pause", ""},
      {"POST", "/api/v1/queues/{queue}/resume", ""},
      {"POST", "/api/v1/queues/{queue}/purge", ""},
      {"POST", "/api/v1/queues/{queue}/dead-letters/redrive", R"({"all":true})"},
      {"POST", "/api/v1/queues/{queue}/dead-letters/drop", R"({"all":true})"},
      {"PUT", "/api/v1/topics/{topic}", R"({"retain_ms":5})"},
      {"PUT", "/api/v1/subscriptions/{queue}", R"({"pattern":"a.*"})"},
      {"DELETE", "/api/v1/subscriptions/{queue}", ""},
      {"POST", "/api/v1/workflows/{id}/terminate", ""},
      {"DELETE", "/api/v1/queues/{queue}", ""},
      // These fail, and say so.
      {"POST", "/api/v1/workflows/{id}/resume", ""},
      {"POST", "/api/v1/workflows/{id}/cancel", ""},
      {"POST", "/api/v1/queues/{queue}/lanes/{key}/resume", ""},
      {"PUT", "/api/v1/queues/{queue}", "nonsense"},
  };
  for (const auto& [method, path, body] : changes) {
    const auto answer =
        call(method, filled_in(path),
             {.body = body.empty() ? std::nullopt : std::optional<std::string>(body)});
    std::string small;
    for (const char c : method)
      small += static_cast<char>(c - 'A' + 'a');
    const value& responses = all.at("paths").at(path).at(small).at("responses");
    const value& schema = responses.at(answer.status == 200 ? "200" : "default")
                              .at("content")
                              .at("application/json")
                              .at("schema");
    EXPECT_THAT(schema_complaints(all, schema, answer.json()), IsEmpty()) << path << "\n"
                                                                          << answer.body;
  }
  server_.reset();
}

TEST(JsonSchema, Complains_of_what_does_not_fit) {
  const value document = boost::json::parse(R"({"components":{"schemas":{
      "A":{"type":"object","properties":{"b":{"type":"integer"},"c":{"type":"string","nullable":true}},
           "required":["b"],"additionalProperties":false}}}})");
  const value schema = boost::json::parse(R"({"$ref":"#/components/schemas/A"})");
  const auto complaints = [&](const char* text) {
    return schema_complaints(document, schema, boost::json::parse(text));
  };
  EXPECT_THAT(complaints(R"({"b":1,"c":null})"), IsEmpty());
  EXPECT_THAT(complaints(R"({"c":"x"})"), ElementsAre(".b: missing"));
  EXPECT_THAT(complaints(R"({"b":"1"})"), ElementsAre(".b: not of type integer"));
  EXPECT_THAT(complaints(R"({"b":1,"d":1})"), ElementsAre(".d: not in the schema"));
  EXPECT_THAT(complaints("[]"), ElementsAre(": not of type object"));
}

}  // namespace
}  // namespace strand::server
