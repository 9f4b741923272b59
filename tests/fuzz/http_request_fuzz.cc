// Bytes from anybody who can connect: they are answered or refused, in one of the forms that are
// documented, and the store is as it was unless somebody was let in.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/buffer.hpp>
#include <boost/json.hpp>

#include <strand/store.h>

#include "base/text.h"
#include "fuzz/target.h"
#include "server/access.h"
#include "server/http/api.h"
#include "server/http/head.h"

namespace strand::fuzz {

namespace {

using namespace server;
using namespace server::http;

void require_form(const Response& response) {
  FUZZ_REQUIRE(response.status >= 200 && response.status < 600, "an answer has a status");
  for (const auto& [name, value] : response.headers)
    FUZZ_REQUIRE(base::is_plain_text(value), "a field of an answer is one line");
  if (response.content_type != "application/json") return;
  boost::system::error_code error;
  const boost::json::value body = boost::json::parse(response.body, error);
  FUZZ_REQUIRE(!error && body.is_object(), "an answer in JSON is an object");
  if (response.status == 200) return;
  FUZZ_REQUIRE(!body.at("error").at("code").as_string().empty() &&
                   !body.at("error").at("message").as_string().empty(),
               "an error says which, and what");
  FUZZ_REQUIRE(response.status != 500, "a sound store in memory fails for no reason of its own");
}

// Nobody, and what a nobody may.
class Nobody final : public Access {
 public:
  [[nodiscard]] Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> /*bearer*/) const override {
    return failure(Errc::forbidden, "not known");
  }
  [[nodiscard]] std::uint64_t generation() const override { return 0; }
};

void answer(const Api& api, std::string_view bytes) {
  const HttpLimits& limits = api.surroundings().limits;
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return;
  const std::string_view head = bytes.substr(0, end + 4);
  Parser parser;
  if (const auto refused = parse_head(parser, head, limits)) {
    FUZZ_REQUIRE(refused->status >= 400 && refused->status < 600, "a refusal is one");
    FUZZ_REQUIRE(base::is_plain_text(refused->message), "and is one plain line");
    return;
  }
  Request request = to_request(parser);
  FUZZ_REQUIRE(!request.id.empty() && request.id.size() <= 64, "a request has a short name");
  const Api::Admitted admitted = api.admit(request);
  if (!admitted.refused && request.has_body) {
    boost::system::error_code error;
    parser.eager(true);
    parser.put(boost::asio::buffer(bytes.substr(head.size())), error);
    if (error || !parser.is_done()) return;
    request.body = parser.get().body();
    FUZZ_REQUIRE(request.body.size() <= limits.body_bytes, "a body has a limit");
  }
  if (admitted.route != nullptr && admitted.route->live) return;
  require_form(api.answer(admitted, request));
}

void run(std::string_view bytes) {
  const auto store = open("memory:");
  FUZZ_REQUIRE(store.has_value(), "there is always memory");
  Transaction transaction;
  transaction.sends.emplace_back().queue = "orders";
  FUZZ_REQUIRE((*store)->apply(transaction).has_value(), "it takes a message");
  const HttpLimits limits = {.header_bytes = 4'096, .body_bytes = 4'096, .json_depth = 8};

  const Nobody nobody;
  Api closed({.limits = limits}, nobody, false);
  closed.serve(**store);
  answer(closed, bytes);
  const auto queues = (*store)->queues();
  FUZZ_REQUIRE(queues && queues->size() == 1 && !queues->front().paused &&
                   (*store)->stats("orders")->ready == 1,
               "who is not known changes nothing");

  const OpenAccess everybody;
  Api api({.limits = limits}, everybody, true);
  api.serve(**store);
  answer(api, bytes);
}

const Target target("http_request", run, 3'000);

}  // namespace

}  // namespace strand::fuzz
