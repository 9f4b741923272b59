#pragma once

#include <string>
#include <string_view>

namespace strand::server::http {

// The OpenAPI document of all routes, as JSON. Made of the table by which they are found.
const std::string& openapi_text();

// The schemas that the routes name, as JSON.
std::string_view schemas_text();

}  // namespace strand::server::http
