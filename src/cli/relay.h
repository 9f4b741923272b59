#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "relay/config.h"

// What the commands of `strand relay` have in common.

namespace strand::cli {

struct RelayCommon : Common {
  std::string config = {};
  std::vector<std::string> tables = {};
};

void declare_relay_common(CLI::App& app, RelayCommon& options);

// The configuration, with the tables that were asked for alone.
Result<relay::Config> load_relay_config(const RelayCommon& options);

// The commands that live in files of their own.
void add_relay_run(Family family);
void add_relay_look(Family family);
void add_relay_verify(Family family);

}  // namespace strand::cli
