#pragma once

#include "cli/options.h"
#include "server/config.h"

// The settings of a server as options of a command.

namespace strand::cli {

// --config, and one option for each setting. What was said is noted in `sources`, by name, for
// server::load_config; nothing is looked at before that. `sources` outlives the parser.
void add_server_settings(CLI::App& app, server::ConfigSources& sources);

}  // namespace strand::cli
