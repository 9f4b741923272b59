#include "cli/server_settings.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace strand::cli {

void add_server_settings(CLI::App& app, server::ConfigSources& sources) {
  app.add_option_function<std::string>(
         "--config", [&sources](const std::string& file) { sources.file = file; },
         fmt::format("A file with settings; {} if not given", server::environment_file))
      ->type_name("FILE");
  static const server::ServerConfig defaults;
  for (const server::Setting& setting : server::settings()) {
    const std::string value = setting.get(defaults);
    const std::string what =
        value.empty() ? setting.help : fmt::format("{} (default {})", setting.help, value);
    const auto note = [&sources, name = setting.name](std::string_view text) {
      sources.flags.emplace_back(name, text);
    };
    if (setting.kind == server::Setting::Kind::boolean) {
      // Without a value it is true. `--insecure=false` overrides a file.
      app.add_flag_function(
             setting.flag, [note](std::int64_t count) { note(count > 0 ? "true" : "false"); }, what)
          ->group("Settings");
      continue;
    }
    add_value(app, setting.flag, setting.type(), what,
              [note](std::string_view text) -> Result<void> {
                note(text);
                return {};
              })
        .group("Settings");
  }
}

}  // namespace strand::cli
