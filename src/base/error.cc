#include <string_view>

#include <strand/error.h>

#include "base/assert.h"

namespace strand {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::limit_exceeded:
      return "limit_exceeded";
    case Errc::transaction_too_large:
      return "transaction_too_large";
    case Errc::invalid_token:
      return "invalid_token";
    case Errc::unsupported:
      return "unsupported";
    case Errc::forbidden:
      return "forbidden";
    case Errc::not_found:
      return "not_found";
    case Errc::already_exists:
      return "already_exists";
    case Errc::in_use:
      return "in_use";
    case Errc::name_taken:
      return "name_taken";
    case Errc::lease_lost:
      return "lease_lost";
    case Errc::message_not_leased:
      return "message_not_leased";
    case Errc::invalid_cursor:
      return "invalid_cursor";
    case Errc::version_mismatch:
      return "version_mismatch";
    case Errc::history_mismatch:
      return "history_mismatch";
    case Errc::transaction_conflict:
      return "transaction_conflict";
    case Errc::transaction_expired:
      return "transaction_expired";
    case Errc::queue_full:
      return "queue_full";
    case Errc::store_full:
      return "store_full";
    case Errc::unavailable:
      return "unavailable";
    case Errc::unknown_outcome:
      return "unknown_outcome";
    case Errc::io_error:
      return "io_error";
    case Errc::corrupt:
      return "corrupt";
  }
  STRAND_ASSERT(false, "every Errc has a name");
  return {};
}

}  // namespace strand
