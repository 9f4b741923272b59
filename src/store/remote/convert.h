#pragma once

#include <optional>
#include <string_view>

#include <strand/store.h>

#include "proto/strand/v1/store.pb.h"
#include "proto/strand/v1/types.pb.h"

// Between the types of the contract and those of the wire schema. `write` fills an empty message of
// the schema; `read` takes one apart, and refuses what the contract has no value for. Readers take
// what they can out of the message, so that bodies are moved and not copied.

namespace strand::remote {

namespace v1 = ::strand::v1;

// --- Requests: written by the client, read by the server ---

void write(const Transaction& transaction, v1::Transaction& to);
Result<Transaction> read_transaction(v1::Transaction& from);

void write(const LeaseRequest& request, v1::LeaseRequest& to);
Result<LeaseRequest> read_lease_request(v1::LeaseRequest& from);

void write(const HistoryQuery& query, v1::HistoryRequest& to);
HistoryQuery read_query(const v1::HistoryRequest& from);
void write(const InstancesQuery& query, v1::InstancesRequest& to);
InstancesQuery read_query(const v1::InstancesRequest& from);
void write(const RecordsQuery& query, v1::RecordsRequest& to);
RecordsQuery read_query(const v1::RecordsRequest& from);
void write(const PeekQuery& query, v1::PeekRequest& to);
Result<PeekQuery> read_query(const v1::PeekRequest& from);
void write(const DeadLettersQuery& query, v1::DeadLettersRequest& to);
DeadLettersQuery read_query(const v1::DeadLettersRequest& from);

// --- Answers: written by the server, read by the client ---

void write(const Error& error, v1::Error& to);
// A code that this version does not know is `io_error`.
Error read_error(const v1::Error& from);
std::optional<Errc> errc_of(std::string_view name);

void write(Result<Receipt>&& result, v1::ApplyResult& to);
Result<Receipt> read_result(const v1::ApplyResult& from);

void write(Message&& message, v1::Message& to);
Message read_message(v1::Message& from);
void write(Lease&& lease, v1::Lease& to);
Result<Lease> read_lease(v1::Lease& from);
void write(History&& history, v1::History& to);
History read_history(v1::History& from);
void write(const Execution& execution, v1::Execution& to);
Execution read_execution(const v1::Execution& from);
void write(Record&& record, v1::Record& to);
Record read_record(v1::Record& from);
void write(PeekedMessage&& message, v1::PeekedMessage& to);
PeekedMessage read_peeked(v1::PeekedMessage& from);
void write(DeadLetter&& letter, v1::DeadLetter& to);
DeadLetter read_dead_letter(v1::DeadLetter& from);
void write(const QueueStats& stats, v1::QueueStats& to);
QueueStats read_stats(const v1::QueueStats& from);
void write(const QueueInfo& info, v1::QueueInfo& to);
Result<QueueInfo> read_queue(const v1::QueueInfo& from);
void write(const Topic& topic, v1::Topic& to);
Topic read_topic(const v1::Topic& from);

}  // namespace strand::remote
