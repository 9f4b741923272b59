#pragma once

#include <optional>
#include <string>
#include <utility>

#include <strand/store.h>

// Requests that many unit tests make.

namespace strand {

inline Transaction send(std::string queue, Bytes body, std::optional<std::string> key = {},
                        Duration delay = {}) {
  Send message;
  message.queue = std::move(queue);
  message.body = std::move(body);
  message.key = std::move(key);
  message.delay = delay;
  Transaction transaction;
  transaction.sends.push_back(std::move(message));
  return transaction;
}

inline Transaction administer(Administration operation) {
  Transaction transaction;
  transaction.admin = std::move(operation);
  return transaction;
}

inline Transaction write_record(std::string space, std::string key, Bytes value) {
  Transaction transaction;
  transaction.records.push_back({.space = std::move(space),
                                 .key = std::move(key),
                                 .value = std::move(value),
                                 .expected = std::nullopt});
  return transaction;
}

inline Transaction ack(const Lease& lease) {
  Settle settle;
  settle.token = lease.token;
  for (const Message& message : lease.messages) {
    settle.outcomes.push_back({.id = message.id, .delay = std::nullopt, .reason = {}});
  }
  Transaction transaction;
  transaction.settles.push_back(std::move(settle));
  return transaction;
}

inline LeaseRequest from(std::string queue) {
  LeaseRequest request;
  request.queue = std::move(queue);
  return request;
}

inline PeekQuery all_of(std::string queue) {
  PeekQuery query;
  query.queue = std::move(queue);
  query.limit = 10'000;
  return query;
}

}  // namespace strand
