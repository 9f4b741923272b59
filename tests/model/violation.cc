#include "model/violation.h"

namespace strand::model {

std::string_view name(Invariant invariant) {
  switch (invariant) {
    case Invariant::contract:
      return "contract: answers are the documented ones";
    case Invariant::nothing_lost:
      return "I1: nothing confirmed is lost";
    case Invariant::lane_order:
      return "I2: order in the lane and one holder";
    case Invariant::current_epoch:
      return "I3: only the current epoch settles";
    case Invariant::one_end:
      return "I4: exactly one end for each message";
    case Invariant::conservation:
      return "I5: conservation";
    case Invariant::exactly_once_id:
      return "I6: dedup and transaction ids";
    case Invariant::one_chain:
      return "I7: history is one chain";
    case Invariant::not_early:
      return "I8: nothing fires early";
    case Invariant::fair_order:
      return "I9: priorities and the starvation bound";
    case Invariant::record_versions:
      return "I10: records change only by their version";
    case Invariant::drains:
      return "I11: everything drains";
  }
  return "unknown invariant";
}

Violation::Violation(Invariant which, const std::string& what)
    : std::runtime_error(std::string(name(which)) + "\n  " + what), invariant_(which) {}

void violate(Invariant invariant, const std::string& what) { throw Violation(invariant, what); }

}  // namespace strand::model
