#include <string_view>

#include <strand/message.h>

#include "base/assert.h"

namespace strand {

std::string_view to_string(MessageState state) {
  switch (state) {
    case MessageState::ready:
      return "ready";
    case MessageState::delayed:
      return "delayed";
    case MessageState::backoff:
      return "backoff";
    case MessageState::waiting:
      return "waiting";
    case MessageState::leased:
      return "leased";
    case MessageState::parked:
      return "parked";
  }
  STRAND_ASSERT(false, "every MessageState has a name");
  return {};
}

}  // namespace strand
