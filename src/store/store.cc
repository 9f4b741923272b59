#include <span>
#include <utility>

#include <strand/store.h>

namespace strand {

Result<Receipt> Store::apply(const Transaction& transaction) {
  return std::move(apply(std::span(&transaction, 1)).front());
}

}  // namespace strand
