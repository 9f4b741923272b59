#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <strand/error.h>

#include "pq/connection.h"
#include "relay/outbox.h"
#include "relay/source.h"

namespace strand::relay {

// An entity has 1 to 10 rows, usually; so many are looked at for each candidate that is wanted.
inline constexpr std::int64_t rows_per_candidate = 6;

// Finds entities that have waiting rows: those of the oldest rows first. When the oldest rows are
// all of entities that cannot be had, it hops through the index from entity to entity, one step
// each however many rows it has, and goes on there the next time: nobody starves behind a heap of
// rows of another, or at the end of the alphabet.
class Candidates {
 public:
  // `free` is one more condition on an entity, of which it is given the SQL text; may be empty.
  Candidates(const Outbox& outbox, postgres::Connection& connection,
             const std::function<std::string(const std::string&)>& free);

  // Calls `take` with candidates, and how many are still wanted; it returns those it got. Asks
  // until there are settings.entities of them, or there are no more.
  using Take =
      std::function<Result<std::vector<Claim>>(std::vector<std::string> entities, std::size_t)>;
  Result<std::vector<Claim>> claim(const Take& take);

 private:
  struct Found {
    std::vector<std::string> entities;
    bool more = false;  // the oldest rows that were looked at are not all
  };
  Result<Found> oldest();
  Result<Found> hop();

  const Outbox& outbox_;
  postgres::Connection& connection_;
  std::string oldest_sql_;
  std::string hop_sql_;
  std::optional<std::string> last_hop_;
};

}  // namespace strand::relay
