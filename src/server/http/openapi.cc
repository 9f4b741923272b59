#include "server/http/openapi.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "server/http/router.h"

namespace strand::server::http {

namespace {

namespace json = boost::json;

json::object reference(std::string_view schema) {
  return {{"$ref", fmt::format("#/components/schemas/{}", schema)}};
}

json::object content(std::string_view type, json::value schema) {
  json::object media;
  media[type] = json::object{{"schema", std::move(schema)}};
  return media;
}

json::array parameters_of(const Route& route) {
  json::array list;
  const auto segments = path_segments(route.path);
  for (const std::string& segment : *segments) {
    if (!segment.starts_with('{')) continue;
    list.push_back(json::object{{"name", segment.substr(1, segment.size() - 2)},
                                {"in", "path"},
                                {"required", true},
                                {"schema", json::object{{"type", "string"}}}});
  }
  for (const Parameter& parameter : route.query) {
    list.push_back(json::object{{"name", parameter.name},
                                {"in", "query"},
                                {"required", false},
                                {"description", parameter.what},
                                {"schema", json::object{{"type", parameter.type}}}});
  }
  return list;
}

json::object responses_of(const Route& route) {
  json::value schema = json::object{{"type", "string"}};
  if (!route.answers.empty()) schema = reference(route.answers);
  json::object responses;
  responses["200"] = json::object{{"description", "Done."},
                                  {"content", content(route.content_type, std::move(schema))}};
  responses["default"] = json::object{{"description", "It was not done; the answer says why."},
                                      {"content", content("application/json", reference("Error"))}};
  return responses;
}

// "GET /api/v1/queues/{queue}" is "get_api_v1_queues_queue".
std::string operation_id(const Route& route) {
  std::string id;
  for (const char c : route.method)
    id += static_cast<char>(c - 'A' + 'a');
  for (const char c : route.path) {
    if (c == '{' || c == '}') continue;
    id += c == '/' || c == '-' || c == '.' ? '_' : c;
  }
  return id;
}

json::object operation_of(const Route& route) {
  json::object operation = {{"summary", route.what},
                            {"operationId", operation_id(route)},
                            {"parameters", parameters_of(route)},
                            {"responses", responses_of(route)}};
  if (!route.takes.empty()) {
    operation["requestBody"] =
        json::object{{"content", content("application/json", reference(route.takes))}};
  }
  // Those that tell nothing of the store are for everybody.
  if (route.needs == Needs::nothing) operation["security"] = json::array{};
  return operation;
}

std::string make_text() {
  json::object paths;
  for (const Route& route : all_routes()) {
    std::string method;
    for (const char c : route.method)
      method += static_cast<char>(c - 'A' + 'a');
    json::value& path = paths[route.path];
    if (!path.is_object()) path = json::object{};
    path.get_object()[method] = operation_of(route);
  }
  json::array security;
  security.push_back(json::object{{"token", json::array{}}});
  security.push_back(json::object{});  // as long as there are no tokens
  const json::object schemes = {{"token", json::object{{"type", "http"}, {"scheme", "bearer"}}}};
  return json::serialize(json::object{
      {"openapi", "3.0.3"},
      {"info", json::object{{"title", "Strand"},
                            {"description", "The admin API of a Strand server."},
                            {"version", "1"}}},
      {"paths", std::move(paths)},
      {"components", json::object{{"schemas", json::parse(std::string(schemas_text()))},
                                  {"securitySchemes", schemes}}},
      {"security", std::move(security)}});
}

}  // namespace

const std::string& openapi_text() {
  static const std::string text = make_text();
  return text;
}

}  // namespace strand::server::http
