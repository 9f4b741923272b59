#include "server/json_schema.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <strand/time.h>

namespace strand::server {

namespace json = boost::json;

const json::value* find_schema(const json::value& document, std::string_view reference) {
  static constexpr std::string_view prefix = "#/components/schemas/";
  if (!reference.starts_with(prefix)) return nullptr;
  const auto& schemas = document.at("components").at("schemas").as_object();
  return schemas.if_contains(reference.substr(prefix.size()));
}

namespace {

using Complaints = std::vector<std::string>;

bool has_type(const json::value& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_int64() || value.is_uint64();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return false;
}

void append(Complaints& all, Complaints more) { all.insert(all.end(), more.begin(), more.end()); }

void check_members(const json::value& document, const json::object& schema,
                   const json::object& object, const std::string& path, Complaints& all) {
  static const json::object nothing;
  const json::value* const listed = schema.if_contains("properties");
  const json::object& properties = listed != nullptr ? listed->as_object() : nothing;
  for (const auto& member : object) {
    const std::string name(member.key());
    if (const json::value* const known = properties.if_contains(name)) {
      append(all, schema_complaints(document, *known, member.value(), path + "." + name));
    } else if (schema.contains("additionalProperties")) {
      all.push_back(fmt::format("{}.{}: not in the schema", path, name));
    }
  }
  if (const json::value* const required = schema.if_contains("required")) {
    for (const json::value& name : required->as_array()) {
      if (!object.contains(name.as_string()))
        all.push_back(fmt::format("{}.{}: missing", path, name.as_string().c_str()));
    }
  }
}

}  // namespace

Complaints schema_complaints(const json::value& document, const json::value& schema_value,
                             const json::value& value, const std::string& path) {
  const json::object& schema = schema_value.as_object();
  if (const json::value* const reference = schema.if_contains("$ref")) {
    const json::value* const found = find_schema(document, reference->as_string());
    if (found == nullptr) return {path + ": a reference to nothing"};
    return schema_complaints(document, *found, value, path);
  }
  Complaints all;
  static constexpr std::array known = {"type",     "properties", "required",
                                       "nullable", "items",      "additionalProperties",
                                       "enum",     "format",     "description"};
  for (const auto& keyword : schema) {
    if (std::ranges::find(known, std::string_view(keyword.key())) == known.end())
      all.push_back(fmt::format("{}: unknown keyword {}", path, std::string(keyword.key())));
  }
  if (value.is_null() && schema.contains("nullable")) return all;
  const json::value* const type = schema.if_contains("type");
  if (type == nullptr) return all;
  if (!has_type(value, type->as_string())) {
    all.push_back(fmt::format("{}: not of type {}", path, type->as_string().c_str()));
    return all;
  }
  if (const json::value* const allowed = schema.if_contains("enum")) {
    const auto& words = allowed->as_array();
    if (std::ranges::find(words, value) == words.end()) all.push_back(path + ": not in the list");
  }
  if (const json::value* const format = schema.if_contains("format")) {
    if (*format == "date-time" && !parse_time(std::string(value.as_string())))
      all.push_back(path + ": not a time");
  }
  if (value.is_object()) check_members(document, schema, value.get_object(), path, all);
  if (value.is_array()) {
    std::size_t number = 0;
    for (const json::value& item : value.get_array()) {
      append(all, schema_complaints(document, schema.at("items"), item,
                                    fmt::format("{}[{}]", path, number++)));
    }
  }
  return all;
}

}  // namespace strand::server
