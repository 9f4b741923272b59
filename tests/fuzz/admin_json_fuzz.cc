// Bodies and targets of the admin API: settings are taken as they are shown, or refused in one
// plain line; escapes are undone exactly.

#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include <strand/json.h>

#include "base/text.h"
#include "fuzz/target.h"
#include "queue/json.h"
#include "server/http/json_body.h"
#include "server/http/queue_settings.h"
#include "server/http/target.h"

namespace strand::fuzz {

namespace {

using namespace server::http;

void require_plain(const Error& error) {
  FUZZ_REQUIRE(error.code == Errc::invalid_argument, "bad text is a bad argument");
  FUZZ_REQUIRE(!error.message.empty() && base::is_plain_text(error.message),
               "a refusal is one plain line");
}

Result<QueueSettings> read_settings(std::string_view text) {
  const auto document = json::Document::parse(text);
  if (!document) return std::unexpected(document.error());
  QueueSettings settings;
  if (auto read = read_members(document->view(), settings_members(settings)); !read)
    return std::unexpected(read.error());
  return settings;
}

void settings(std::string_view bytes) {
  const auto read = read_settings(bytes);
  if (!read) return require_plain(read.error());
  const auto again = read_settings(boost::json::serialize(shown::to_json(*read)));
  FUZZ_REQUIRE(again && *again == *read, "what is shown of settings can be sent back");
}

// A scan of the text, and a parser that knows what it reads.
void depth(std::string_view bytes) {
  constexpr std::size_t depth_max = 3;
  const auto shallow = check_depth(bytes, depth_max);
  if (!shallow) require_plain(shallow.error());
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = depth_max;
  const auto value = boost::json::parse(std::string(bytes), error, {}, options);
  FUZZ_REQUIRE(error || shallow, "what a parser takes at this depth is not refused for it");
  FUZZ_REQUIRE(shallow || error, "and what is refused for it is no text that it takes");
}

void escapes(std::string_view bytes) {
  std::string escaped;
  for (const char c : bytes)
    escaped += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  FUZZ_REQUIRE(percent_decoded(escaped) == std::string(bytes), "every byte can be escaped");
  const auto decoded = percent_decoded(bytes);
  if (!decoded) {
    require_plain(decoded.error());
  } else {
    FUZZ_REQUIRE(decoded->size() <= bytes.size(), "an escape is longer than what it stands for");
  }
  const auto query = Query::parse(bytes);
  if (!query) return require_plain(query.error());
  const std::vector<std::string> known = {"limit", "after"};
  if (const auto names = query->check_names(known); !names) require_plain(names.error());
  const auto limit = query->limit();
  if (!limit) return require_plain(limit.error());
  FUZZ_REQUIRE(*limit >= 1 && *limit <= 1'000, "a page has bounds");
}

void run(std::string_view bytes) {
  settings(bytes);
  depth(bytes);
  escapes(bytes);
}

const Target target("admin_json", run);

}  // namespace

}  // namespace strand::fuzz
