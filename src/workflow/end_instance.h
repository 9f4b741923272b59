#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <strand/store.h>
#include <strand/transaction.h>

namespace strand::workflow {

// The lane of an instance in the hands of an administrator: whoever worked on it has lost it. Given
// back as it was, with all that is in it, unless what was done to it was committed.
class SeizedLane {
 public:
  static Result<SeizedLane> take(Store& store, const std::string& queue, std::string_view id);
  SeizedLane(SeizedLane&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        lease_(std::move(other.lease_)),
        parked_(std::move(other.parked_)) {}
  SeizedLane& operator=(SeizedLane&&) = delete;
  ~SeizedLane();

  [[nodiscard]] const Lease& lease() const { return lease_; }
  // For a transaction that leaves the lane as it was.
  [[nodiscard]] Settle give_back() const;
  void committed() { store_ = nullptr; }

 private:
  SeizedLane(Store& store, Lease lease, std::optional<std::string> parked)
      : store_(&store), lease_(std::move(lease)), parked_(std::move(parked)) {}
  Store* store_;
  Lease lease_;
  std::optional<std::string> parked_;  // why
};

// Settles all that the lease carries, for a transaction that ends the instance.
Settle settle_all(const Lease& lease);

// Ends the execution that the lease has brought, if one is open: everything under way is called
// off, its parent and its record are told.
Result<void> add_end(const Lease& lease, const std::string& reason, const std::string& status,
                     Time now, Transaction& transaction);

}  // namespace strand::workflow
