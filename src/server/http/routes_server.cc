#include <string>
#include <utility>
#include <vector>

#include "server/http/first_page.h"
#include "server/http/openapi.h"
#include "server/http/router.h"

// The server itself: whether it lives, is ready, which version it is, its figures, its pages.

namespace strand::server::http {

namespace {

Result<Response> healthz(const Call&) { return json_response({{"status", "ok"}}); }

Result<Response> readyz(const Call& call) {
  const auto& readiness = call.surroundings.readiness;
  auto ready = readiness ? readiness() : Result<void>{};
  if (ready && call.store_or_null == nullptr) {
    ready = failure(Errc::unavailable, "loading: the store is not open yet");
  }
  if (!ready) return std::unexpected(std::move(ready.error()));
  return json_response({{"status", "ready"}});
}

Result<Response> version(const Call& call) {
  return json_response({{"name", "strand"}, {"version", call.surroundings.version}});
}

Result<Response> metrics(const Call& call) {
  // They tell of all queues at once.
  if (!call.permit.may_somewhere(Role::admin)) {
    return std::unexpected(call.permit.refusal(Role::admin, "#"));
  }
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (call.surroundings.metrics) response.body = call.surroundings.metrics();
  return response;
}

Result<Response> document(const Call&) {
  Response response;
  response.body = openapi_text();
  return response;
}

Result<Response> first_page(const Call& call) {
  Response response;
  response.content_type = "text/html; charset=utf-8";
  response.body = first_page_html(call.surroundings.version);
  return response;
}

}  // namespace

std::vector<Route> server_routes() {
  return {
      {.method = "GET",
       .path = "/healthz",
       .what = "Whether the server runs.",
       .answers = "Status",
       .needs = Needs::nothing,
       .answer = healthz},
      {.method = "GET",
       .path = "/readyz",
       .what = "Whether the store can be used, or what the server is doing instead.",
       .answers = "Status",
       .needs = Needs::nothing,
       .answer = readyz},
      {.method = "GET",
       .path = "/version",
       .what = "Which version this is.",
       .answers = "Version",
       .needs = Needs::nothing,
       .answer = version},
      {.method = "GET",
       .path = "/metrics",
       .what = "Figures, as Prometheus reads them.",
       .content_type = "text/plain",
       .needs = Needs::caller,
       .answer = metrics},
      {.method = "GET",
       .path = "/openapi.json",
       .what = "This document.",
       .answers = "Anything",
       .needs = Needs::nothing,
       .answer = document},
      {.method = "GET",
       .path = "/",
       .what = "A page for people with links to all of this.",
       .content_type = "text/html",
       .needs = Needs::nothing,
       .answer = first_page},
  };
}

}  // namespace strand::server::http
