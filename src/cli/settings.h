#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/settings.h>

namespace strand::cli {

// The names of all settings of a queue.
std::vector<std::string> setting_names();

// Takes "NAME=VALUE" over into the settings. An unknown name, or a value that is none for it, is
// `invalid_argument`, and says what could be written instead.
Result<void> set_setting(QueueSettings& settings, std::string_view assignment);

// NAME and VALUE of every setting, as set_setting reads them.
struct Setting {
  std::string name;
  std::string value;
};
std::vector<Setting> list_settings(const QueueSettings& settings);

}  // namespace strand::cli
