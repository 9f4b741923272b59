#pragma once

#include <string>
#include <string_view>

namespace strand::server::http {

// For people who open the server in a browser: what there is, with links to what can be looked at.
std::string first_page_html(std::string_view version);

}  // namespace strand::server::http
