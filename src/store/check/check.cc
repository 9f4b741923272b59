#include "store/check/check.h"

#include "store/check/inspector.h"

namespace strand::check {

Result<Report> inspect(const engine::Archive& archive, const Progress& progress) {
  Repairs none(false);
  const engine::Identity unused;
  Inspector inspector(archive, progress, none, unused);
  if (auto done = inspector.run(); !done) return std::unexpected(done.error());
  return inspector.take_report();
}

Result<Repair> repair(const engine::Archive& archive, const engine::Identity& fresh,
                      const Progress& progress) {
  Repairs repairs(true);
  Inspector inspector(archive, progress, repairs, fresh);
  if (auto done = inspector.run(); !done) return std::unexpected(done.error());
  return Repair{.report = inspector.take_report(), .batches = repairs.take()};
}

}  // namespace strand::check
