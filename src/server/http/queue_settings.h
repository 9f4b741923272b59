#pragma once

#include <vector>

#include <strand/settings.h>

#include "server/http/json_body.h"

namespace strand::server::http {

// The members of a body with settings of a queue, by the names under which they are shown. Each
// changes `settings`, which must live as long as the list; what is not named stays.
std::vector<Member> settings_members(QueueSettings& settings);

}  // namespace strand::server::http
