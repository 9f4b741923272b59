#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>

#include "pq/connection.h"
#include "relay/message.h"
#include "relay/outbox.h"

// What is done with the user's rows once they are claimed: read, mark, and stop an entity.

namespace strand::relay {

// An entity in a worker's hands.
struct Claim {
  std::string entity = {};
  std::string slot = {};  // what is claimed: the entity itself, or the number of its shard
  std::int64_t epoch = 0;
};

// How a strategy says, inside of a mark, which of its claims still hold.
struct Fence {
  // A query with the one column `slot`; locks what it must so that it stays true until the commit.
  // Its parameters begin at $4.
  std::string held = {};
  // A statement that gives back what `held` has found; may be empty.
  std::string release = {};
  std::function<void(postgres::Params&)> add_params = {};
  // After the mark is committed; may be empty.
  std::string afterwards = {};
};

// An entity that cannot go on.
struct Trouble {
  std::string entity = {};
  std::string row = {};
  std::string reason = {};
};

// One batch after Kafka: what was confirmed, and what has stopped.
struct Outcome {
  struct Sent {
    std::string id = {};
    std::string slot = {};
    std::string entity = {};
  };
  std::vector<Sent> sent = {};
  std::vector<Trouble> trouble = {};
};

class Source {
 public:
  Source(const Outbox& outbox, postgres::Connection& connection);

  // The waiting rows of these entities, oldest first, at most settings.rows of them: of each entity
  // its oldest ones, without a gap.
  Result<std::vector<Row>> read(std::span<const Claim> claims);

  // The oldest waiting rows of whatever entity, without those that have stopped: for a dry run.
  Result<std::vector<Row>> peek();

  // Marks what was sent, as far as the fence holds, records trouble, and releases the claims: one
  // transaction. Returns the ids that were marked.
  Result<std::vector<std::string>> mark(const Outcome& outcome, const Fence& fence);

  // Deletes up to so many sent rows that are older than the retention; how many it were.
  Result<std::size_t> forget_sent(std::size_t rows_max);

 private:
  [[nodiscard]] Result<std::vector<Row>> rows_of(const postgres::GroupResult& answer) const;
  [[nodiscard]] std::string mark_sql(const Fence& fence) const;

  const Outbox& outbox_;
  postgres::Connection& connection_;
  std::string read_sql_;
  std::string trouble_sql_;
};

// A condition on the text `entity`: it has not stopped. The relay's name is parameter n.
std::string not_stopped(const Outbox& outbox, std::string_view entity, int parameter);

}  // namespace strand::relay
