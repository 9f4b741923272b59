#pragma once

#include <optional>
#include <string>

#include <strand/message.h>
#include <strand/transaction.h>

#include "cli/options.h"

namespace strand::cli {

// What `send` and `topic publish` have in common.
struct ContentOptions : Common {
  std::optional<std::string> body = {};
  std::optional<std::string> key = {};
  Headers headers = {};
  Priority priority = Priority::normal;
  std::optional<Duration> delay = {};
  std::optional<Duration> ttl = {};
  std::optional<std::string> dedup_id = {};
  Durability durability = Durability::sync;
};

void add_content(CLI::App& app, ContentOptions& options);

// Everything but the body.
void fill(Content& content, const ContentOptions& options);

}  // namespace strand::cli
