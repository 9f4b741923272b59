#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/dead_letters.h>

#include "base/planted.h"
#include "queue/json.h"
#include "server/http/router.h"

// Dead letters: looked at, redriven, dropped.

namespace strand::server::http {

namespace {

using shown::to_json;

Result<Response> list(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::receive, queue); !may) return std::unexpected(may.error());
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  const auto after = call.query.id("after");
  if (!after) return std::unexpected(after.error());
  DeadLetters letters(call.store(), queue);
  const auto page = read_slices<DeadLetter>(
      *limit, [&](const std::vector<DeadLetter>& before, std::size_t count) {
        return letters.list(before.empty() ? *after : before.back().id, count);
      });
  if (!page) return std::unexpected(page.error());
  boost::json::array items;
  for (const DeadLetter& letter : page->items)
    items.push_back(to_json(letter));
  const std::string next =
      page->items.empty() ? "" : fmt::to_string(shown::number(page->items.back().id));
  return json_response(page_json(std::move(items), page->more, next));
}

Result<Response> show(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::receive, queue); !may) return std::unexpected(may.error());
  const auto id = parse_id(call.path[1]);
  if (!id) return std::unexpected(id.error());
  const auto letter = DeadLetters(call.store(), queue).get(*id);
  if (!letter) return std::unexpected(letter.error());
  return json_response(to_json(*letter));
}

// Which ones, and where to.
struct Which {
  std::optional<std::vector<MessageId>> ids = {};
  std::optional<bool> all = {};
  std::optional<std::string> to = {};
};

Result<void> check(const Which& which) {
  if (which.all.value_or(false) != (which.ids && !which.ids->empty())) return {};
  return failure(Errc::invalid_argument,
                 "the body: name the dead letters by `ids`, or say \"all\": true for all of them");
}

Result<Response> redrive(const Call& call) {
  const std::string& queue = call.path[0];
  if (auto may = call.need(Role::admin, queue); !may) return std::unexpected(may.error());
  Which which;
  auto read =
      call.read_body({member("ids", which.ids), member("all", which.all), member("to", which.to)});
  if (read) read = check(which);
  if (read && which.to) read = call.need(Role::send, *which.to);
  if (!read) return std::unexpected(read.error());
  DeadLetters letters(call.store(), queue);
  const auto count =
      which.ids ? letters.redrive(*which.ids, which.to) : letters.redrive_all(which.to);
  if (!count) return std::unexpected(count.error());
  return json_response({{"queue", queue}, {"redriven", *count}});
}

Result<Response> drop(const Call& call) {
  const std::string& queue = call.path[0];
  const Role role = STRAND_PLANTED("http-drop-by-anybody") ? Role::receive : Role::admin;
  if (auto may = call.need(role, queue); !may) return std::unexpected(may.error());
  Which which;
  auto read = call.read_body({member("ids", which.ids), member("all", which.all)});
  if (read) read = check(which);
  if (!read) return std::unexpected(read.error());
  DeadLetters letters(call.store(), queue);
  const auto count = which.ids ? letters.drop(*which.ids) : letters.drop_all();
  if (!count) return std::unexpected(count.error());
  return json_response({{"queue", queue}, {"dropped", *count}});
}

}  // namespace

std::vector<Route> dead_letter_routes() {
  const std::string base = "/api/v1/queues/{queue}/dead-letters";
  return {
      {.method = "GET",
       .path = base,
       .what = "Lists the dead letters of a queue.",
       .query = {{"after", "integer", "The `next` of the page before"},
                 {"limit", "integer", "At most so many items: 1 to 1000, else 100"}},
       .answers = "DeadLetterPage",
       .answer = list},
      {.method = "GET",
       .path = base + "/{id}",
       .what = "Shows a dead letter with all its failures.",
       .answers = "DeadLetter",
       .answer = show},
      {.method = "POST",
       .path = base + "/redrive",
       .what = "Gives dead letters back to their lanes, or to another queue.",
       .takes = "Redrive",
       .answers = "Changed",
       .answer = redrive},
      {.method = "POST",
       .path = base + "/drop",
       .what = "Drops dead letters.",
       .takes = "Drop",
       .answers = "Changed",
       .answer = drop},
  };
}

}  // namespace strand::server::http
