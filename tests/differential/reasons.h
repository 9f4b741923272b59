#pragma once

#include <strand/store.h>

namespace strand::differential {

// Whether two stores may refuse this transaction with different codes. "Of several reasons for
// which a transaction must fail, any may be named" (docs/semantics.md): so they may if one part of
// it can fail for the one reason, and another part for the other. That both reasons do hold is not
// proven here, only that each could; but both stores have refused, and neither has changed
// anything.
bool either_may_be_named(const Transaction& transaction, Errc one, Errc other);

}  // namespace strand::differential
