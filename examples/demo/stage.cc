#include "stage.h"

#include <cstdint>
#include <iostream>
#include <optional>
#include <system_error>

#include <stdlib.h>

namespace demo {

using strand::Lease;
using strand::Receipt;
using strand::Result;
using strand::Store;
using strand::Transaction;

void say(std::string_view line) { std::cout << "   " << line << std::endl; }

void claim(bool holds, std::string_view what) {
  if (!holds) throw Broken("this should be so, and is not: " + std::string(what));
  std::cout << " ✓ " << what << std::endl;
}

Stage::Stage() : clock_(std::make_shared<strand::ManualClock>()) {
  std::string name = std::filesystem::temp_directory_path() / "strand-demo-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw Broken("cannot make a folder like " + name);
  folder_ = name;
  open();
}

Stage::~Stage() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Stage::open() {
  strand::OpenOptions options;
  options.clock = clock_;
  store_ = need(strand::open(url(), options));
}

strand::Send message(std::string queue, std::string key, std::string body) {
  strand::Send send;
  send.queue = std::move(queue);
  send.key = std::move(key);
  send.body = std::move(body);
  return send;
}

void send(Store& store, std::vector<strand::Send> messages) {
  Transaction transaction;
  transaction.sends = std::move(messages);
  need(store.apply(transaction));
}

Lease lease(Store& store, std::string queue, std::string key) {
  auto leases = need(store.lease({.queue = std::move(queue), .key = key}));
  if (leases.empty()) throw Broken("the lane of " + key + " should be ready, and is not");
  return std::move(leases.front());
}

bool ready(Store& store, std::string queue, std::string key) {
  strand::PeekQuery query;
  query.queue = std::move(queue);
  query.key = std::move(key);
  query.state = strand::MessageState::ready;
  return !need(store.peek(query)).items.empty();
}

strand::Settle settle(const strand::Token& token, const std::vector<strand::Message>& messages,
                      strand::Outcome::Kind kind, const std::string& reason) {
  strand::Settle settle;
  settle.token = token;
  for (const strand::Message& message : messages) {
    settle.outcomes.push_back(
        {.id = message.id, .kind = kind, .delay = std::nullopt, .reason = reason});
  }
  return settle;
}

Result<Receipt> ack(Store& store, const Lease& lease) {
  Transaction transaction;
  transaction.settles = {settle(lease.token, lease.messages, strand::Outcome::Kind::ack)};
  return store.apply(transaction);
}

void administer(Store& store, strand::Administration operation) {
  Transaction transaction;
  transaction.admin = std::move(operation);
  need(store.apply(transaction));
}

std::string bodies(const Lease& lease) {
  std::string text;
  for (const strand::Message& message : lease.messages) {
    if (!text.empty()) text += ", ";
    text += message.body;
  }
  return text;
}

std::string epoch(const Lease& lease) {
  return "epoch " + std::to_string(static_cast<std::uint64_t>(lease.token.epoch()));
}

}  // namespace demo
