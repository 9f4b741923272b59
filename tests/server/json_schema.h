#pragma once

#include <string>
#include <vector>

#include <boost/json.hpp>

namespace strand::server {

// What is wrong with a value by a schema of an OpenAPI document, each as "path: what". Knows as
// much of schemas as ours use; a keyword that it does not know is a complaint, too.
std::vector<std::string> schema_complaints(const boost::json::value& document,
                                           const boost::json::value& schema,
                                           const boost::json::value& value,
                                           const std::string& path = "");

// The schema that "#/components/schemas/NAME" names; null if there is none.
const boost::json::value* find_schema(const boost::json::value& document,
                                      std::string_view reference);

}  // namespace strand::server
