// The tests of the queue library, on each of the stores.

#include "queue/fixture.h"

namespace strand::queue {

INSTANTIATE_TEST_SUITE_P(Stores, QueueLibrary,
                         ::testing::ValuesIn(conformance::stores_under_test()),
                         [](const auto& info) { return info.param.name; });

}  // namespace strand::queue
