#pragma once

#include <memory>
#include <string>

#include <strand/store.h>

namespace strand::server {

// Opens the store at a URL, serves it in this process, and connects to it over TCP: what is
// returned is a store behind a server, with the clock and the limits of the options. With `badly`,
// a proxy in between loses answers and cuts connections.
Result<std::unique_ptr<Store>> open_served(const std::string& url, const OpenOptions& options,
                                           bool badly = false);

}  // namespace strand::server
