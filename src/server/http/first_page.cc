#include "server/http/first_page.h"

#include <fmt/format.h>

#include "server/http/router.h"

namespace strand::server::http {

namespace {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

// What can be opened without filling in a name is a link.
std::string row(const Route& route) {
  const std::string path = escaped(route.path);
  const bool is_link = route.method == "GET" && route.path.find('{') == std::string::npos;
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", route.method,
                     is_link ? fmt::format("<a href=\"{}\">{}</a>", path, path) : path,
                     escaped(route.what));
}

}  // namespace

std::string first_page_html(std::string_view version) {
  std::string rows;
  for (const Route& route : all_routes())
    rows += row(route);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Strand</title>"
      "</head><body>\n<h1>Strand {}</h1>\n"
      "<p>Queues, workflows and topics of this server, as JSON. With tokens configured, the API "
      "wants <code>Authorization: Bearer TOKEN</code>. "
      "<a href=\"/openapi.json\">openapi.json</a> describes all of it.</p>\n"
      "<table>\n<tr><th>Method</th><th>Path</th><th>What it does</th></tr>\n{}</table>\n"
      "</body></html>\n",
      escaped(version), rows);
}

}  // namespace strand::server::http
