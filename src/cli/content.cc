#include "cli/content.h"

#include <string_view>
#include <utility>

namespace strand::cli {

void add_content(CLI::App& app, ContentOptions& options) {
  add_text(app, "BODY", options.body, "", "The body; '-', or none and a pipe: the standard input");
  add_text(app, "--key", options.key, "K", "The lane: one key is handled in order, by one worker");
  add_value(app, "--priority", "0-3", "0 urgent, 1 high, 2 normal (default), 3 low",
            [&options](std::string_view text) -> Result<void> {
              const auto number = parse_number<std::uint32_t>(text, 0, 3);
              if (!number) return std::unexpected(number.error());
              options.priority = static_cast<Priority>(*number);
              return {};
            });
  add_duration(app, "--delay", options.delay, "Not before this time has passed, such as 250ms");
  add_duration(app, "--ttl", options.ttl, "Gone after this time, such as 1h");
  add_text(app, "--dedup", options.dedup_id, "ID",
           "Adds nothing if this id was seen in the window of the queue or topic");
  add_values(app, "--header", "NAME=VALUE", "A header; may be repeated",
             [&options](std::string_view text) -> Result<void> {
               auto header = parse_header(text);
               if (!header) return std::unexpected(header.error());
               options.headers.push_back(*std::move(header));
               return {};
             });
  add_durability(app, options.durability);
}

void fill(Content& content, const ContentOptions& options) {
  content.key = options.key;
  content.headers = options.headers;
  content.priority = options.priority;
  content.delay = options.delay.value_or(Duration{0});
  content.ttl = options.ttl;
  content.dedup_id = options.dedup_id;
}

}  // namespace strand::cli
