#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "relay/config.h"

namespace strand::relay {

// How a table stands: what the database tells, whoever relays it.
struct TableStatus {
  struct Oldest {
    std::string entity = {};
    std::string id = {};
    std::optional<std::int64_t> waiting_ms = {};  // none: the table does not say since when
  };
  struct Stopped {
    std::string entity = {};
    std::string state = {};  // parked, blocked
    std::string row = {};
    std::string reason = {};
    std::int32_t attempts = 0;
    Time since = {};
    std::optional<Time> next_at = {};
  };
  struct Worker {
    std::string owner = {};
    std::string process = {};
    std::int32_t worker = 0;
    std::string host = {};
    std::int32_t pid = 0;
    std::string strategy = {};
    Time seen_at = {};
    bool live = false;
    std::int64_t rows = 0;
  };
  struct Shard {
    std::int32_t shard = 0;
    std::string owner = {};  // empty: nobody
    std::int64_t epoch = 0;
    std::optional<Time> until = {};
  };

  std::string table = {};
  Strategy strategy = Strategy::advisory;
  Style style = Style::mark;
  std::int64_t waiting_rows = 0;
  std::optional<Oldest> oldest = {};  // none: nothing waits
  std::int64_t claims = 0;
  std::vector<Stopped> trouble = {};
  std::vector<Worker> workers = {};
  std::vector<Shard> shards = {};
};

Result<std::vector<TableStatus>> status(const Config& config);

// Lets entities go on that were parked or blocked; none named: all of the table. How many it were.
Result<std::size_t> resume(const Config& config, const TableSettings& table,
                           std::span<const std::string> entities);

}  // namespace strand::relay
