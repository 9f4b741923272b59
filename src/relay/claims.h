#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>

#include "pq/connection.h"
#include "relay/outbox.h"
#include "relay/source.h"

namespace strand::relay {

// Who asks: a worker, which has a new name after each start of its process.
struct Owner {
  std::string process = {};
  std::string host = {};
  std::int32_t pid = 0;
  std::uint32_t worker = 0;
  [[nodiscard]] std::string name() const { return process + "/" + std::to_string(worker); }
};

// How entities come into a worker's hands, and how it is known that they still are. One of these
// belongs to one worker and one connection, and ends with it.
//
// Threads: one at a time.
// Failure: after an error nothing is known of the claims. They are lost: connect anew.
class Claims {
 public:
  Claims() = default;
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;
  virtual ~Claims() = default;

  // Once, before all else.
  virtual Result<void> begin() { return {}; }

  // Up to settings.entities entities that have waiting rows and are in nobody's hands, those with
  // the oldest rows first. Never waits.
  virtual Result<std::vector<Claim>> claim() = 0;

  // What holds of the claims that claim() has returned last, for Source::mark.
  [[nodiscard]] virtual Fence fence(std::span<const Claim> claims) const = 0;

  // To be called again and again while claims are held, at least every third of a lease. False: at
  // least one of them is lost.
  virtual Result<bool> keep(std::span<const Claim> claims) = 0;

  // Gives claims back without a mark.
  virtual Result<void> release(std::span<const Claim> claims) = 0;

  // At a quiet moment, about every second: whatever else is to be done.
  virtual Result<void> upkeep() { return {}; }

  // At the end: gives everything back.
  virtual Result<void> end() { return {}; }

  // Whether a wake-up concerns every worker, because each looks at other rows.
  [[nodiscard]] virtual bool looks_at_own_rows() const { return false; }
};

std::unique_ptr<Claims> make_claims(const Outbox& outbox, postgres::Connection& connection,
                                    const Owner& owner);

std::unique_ptr<Claims> make_advisory_claims(const Outbox& outbox,
                                             postgres::Connection& connection);
std::unique_ptr<Claims> make_row_claims(const Outbox& outbox, postgres::Connection& connection,
                                        const Owner& owner);
std::unique_ptr<Claims> make_shard_claims(const Outbox& outbox, postgres::Connection& connection,
                                          const Owner& owner);

// The entities of a list, for a parameter.
std::vector<std::optional<std::string_view>> entities_of(std::span<const Claim> claims);

}  // namespace strand::relay
