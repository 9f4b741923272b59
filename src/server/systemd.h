#pragma once

#include <string_view>

#include <strand/error.h>

namespace strand::server {

// Tells the service manager how it stands with this process (sd_notify), such as "READY=1",
// "RELOADING=1" or "STOPPING=1"; several lines may be sent at once. Without a NOTIFY_SOCKET in the
// environment there is nobody to tell, which is a success.
Result<void> notify(std::string_view state);

// The same for Type=notify-reload and a reload that begins now: it wants to know the time.
Result<void> notify_reloading();

}  // namespace strand::server
