#pragma once

#include <string_view>
#include <vector>

#include <strand/message.h>
#include <strand/time.h>

#include "store/engine/records.h"
#include "store/sqlite/row.h"

// Lists in one column: JSON, which people and SQLite's JSON functions read. Those with text that is
// not UTF-8, which JSON cannot hold, are the engine's bytes instead, as a BLOB. Empty is NULL.

namespace strand::sqlite {

// [["name","value"],…]
void bind_headers(const Headers& headers, Binder& out);
Headers read_headers(Row& row);

// [{"at":1700000000000,"reason":"…"},…]
void bind_failures(const std::vector<Failure>& failures, Binder& out);
std::vector<Failure> read_failures(Row& row);

// [60000,300000], in milliseconds
void bind_durations(const std::vector<Duration>& durations, Binder& out);
std::vector<Duration> read_durations(Row& row);

// [12,13,[14,2]]: ids; one that a pull brought has the cursor of the pull behind it.
void bind_carried(const std::vector<engine::LeaseRecord::Carried>& messages, Binder& out);
std::vector<engine::LeaseRecord::Carried> read_carried(Row& row);

}  // namespace strand::sqlite
