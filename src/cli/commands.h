#pragma once

#include "cli/options.h"

// One function for each family of commands, each in the file of its name.

namespace strand::cli {

void add_serve_commands(Family program);
void add_send_commands(Family program);
void add_receive_commands(Family program);
void add_consume_commands(Family program);
void add_settle_commands(Family program);
void add_queue_commands(Family program);
void add_dlq_commands(Family program);
void add_topic_commands(Family program);
void add_workflow_commands(Family program);
void add_saga_commands(Family program);
void add_store_commands(Family program);
void add_check_commands(Family program);
void add_token_commands(Family program);
void add_relay_commands(Family program);
void add_bench_commands(Family program);
void add_bench_relay_command(Family bench);

}  // namespace strand::cli
