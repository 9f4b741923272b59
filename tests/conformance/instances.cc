// The suite, on each of the stores.

#include "conformance/suite.h"

namespace strand::conformance {

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, ::testing::ValuesIn(stores_under_test()),
                         [](const auto& info) { return info.param.name; });

}  // namespace strand::conformance
