#pragma once

#include <string>

#include "relay/config.h"
#include "relay/outbox.h"

// The SQL that makes what the relay needs. All of it can be run again.

namespace strand::relay {

// The table itself, with the columns that the settings name.
std::string outbox_sql(const TableSettings& settings);
// Its indexes and triggers.
std::string indexes_sql(const TableSettings& settings);
std::string triggers_sql(const TableSettings& settings);
// The relay's own tables.
std::string own_tables_sql(const OwnTables& own);

// The advisory lock of a key, which the trigger for commit order takes; of `expression`, a text.
std::string order_lock_key(const TableSettings& settings, const std::string& expression);

// Names of what init makes, for check to look for.
std::string order_trigger(const TableSettings& settings);
std::string notify_trigger(const TableSettings& settings);

}  // namespace strand::relay
