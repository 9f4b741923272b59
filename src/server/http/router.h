#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include <strand/metrics.h>
#include <strand/store.h>

#include "server/access.h"
#include "server/http/json_body.h"
#include "server/http/limits.h"
#include "server/http/message.h"
#include "server/http/target.h"

// The table of all that can be asked for. The OpenAPI document is made of the same table.

namespace strand::server::http {

// Ready, or `unavailable` with what the server is doing instead.
using Readiness = std::function<Result<void>()>;

// What routes need besides a store.
struct Surroundings {
  HttpLimits limits = {};
  std::string version = {};
  Readiness readiness = {};
  std::function<std::string()> metrics = {};                 // for GET /metrics
  std::function<std::vector<Metric>()> worker_metrics = {};  // of workers in this process
};

// A request on its way to the function that answers it.
struct Call {
  const Request& request;
  const std::vector<std::string>& path;  // the values of the {names} in the path of the route
  const Query& query;
  const Permit& permit;
  Store* store_or_null;  // null: none yet, and the route needs none
  const Surroundings& surroundings;

  [[nodiscard]] Store& store() const { return *store_or_null; }

  [[nodiscard]] Result<void> need(Role role, std::string_view name) const {
    if (permit.may(role, name)) return {};
    return std::unexpected(permit.refusal(role, name));
  }
  // The body; an empty one is an object without members.
  [[nodiscard]] Result<void> read_body(const std::vector<Member>& members) const;
};

// An answer, or an error of the store that becomes one. Blocks; runs on a worker thread.
using Answer = std::function<Result<Response>(const Call&)>;

// What a route needs to be answered.
enum class Needs : std::uint8_t {
  nothing,  // anybody is answered, at once
  caller,   // somebody who is known
  store,    // and a store that is open
};

// One parameter behind the '?'.
struct Parameter {
  std::string name;
  std::string type;  // of OpenAPI: "string", "integer", "boolean"
  std::string what;
};

struct Route {
  std::string method;  // "GET"
  std::string path;    // "/api/v1/queues/{queue}"
  std::string what;    // one line for the document
  std::vector<Parameter> query = {};
  std::string takes = {};                         // schema of the body; "" if it has none
  std::string answers = {};                       // schema of the answer; "" if it is not JSON
  std::string content_type = "application/json";  // of the answer
  Needs needs = Needs::store;
  bool live = false;  // answered by a stream of events, and not by `answer`
  Answer answer = {};
};

// Those of each subject, and all of them.
std::vector<Route> queue_routes();
std::vector<Route> dead_letter_routes();
std::vector<Route> topic_routes();
std::vector<Route> workflow_routes();
std::vector<Route> store_routes();   // stats, workers
std::vector<Route> server_routes();  // health, version, metrics, the document, the first page
const std::vector<Route>& all_routes();

// A route and the values of the {names} in its path.
struct Match {
  const Route* route = nullptr;  // none: another method, or no such path
  std::vector<std::string> values = {};
  std::vector<std::string> allowed = {};  // methods of this path; none: no such path
};
// HEAD is answered as GET.
Match find_route(std::span<const std::string> segments, std::string_view method);

// --- For the routes ---

Response json_response(const boost::json::object& object);
// {"items":[…],"more":…,"next":…}; `next` is what `after` has to be for the next page.
boost::json::object page_json(boost::json::array items, bool more, const std::string& next);
// Applies one operation of administration; returns how many messages it concerned.
Result<std::uint64_t> administer(Store& store, Administration administration);

// Adds up pages of a store until there are `limit` items, or more bytes of bodies than an answer
// should have: so that the largest answer does not depend on how large messages are.
inline constexpr std::size_t slice_items = 8;  // the first one; later ones grow
inline constexpr std::size_t slice_items_max = 32;
inline constexpr std::size_t answer_bytes = std::size_t{1} << 20U;

template <class T, class Read>
Result<Page<T>> read_slices(std::size_t limit, const Read& read) {
  Page<T> all;
  std::size_t bytes = 0;
  for (std::size_t count = slice_items;; count = std::min(2 * count, slice_items_max)) {
    auto slice = read(all.items, std::min(limit - all.items.size(), count));
    if (!slice) return std::unexpected(std::move(slice.error()));
    for (T& item : slice->items) {
      bytes += item.body.size();
      all.items.push_back(std::move(item));
    }
    all.more = slice->more;
    if (!slice->more || slice->items.empty() || all.items.size() >= limit || bytes >= answer_bytes)
      return all;
  }
}

}  // namespace strand::server::http
