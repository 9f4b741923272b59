#include "stage.h"

#include <cstdint>
#include <iostream>
#include <optional>
#include <system_error>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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

OtherProcess::OtherProcess(void (*scene)(Store& store)) {
  int ends[2] = {};
  if (::pipe(ends) != 0) throw Broken("cannot make a pipe");
  id_ = ::fork();
  if (id_ < 0) throw Broken("cannot start another process");
  if (id_ > 0) {
    ::close(ends[0]);
    pipe_ = ends[1];
    return;
  }
  ::close(ends[1]);
  std::string told;  // the time, a space, the URL
  char byte = 0;
  while (::read(ends[0], &byte, 1) == 1)
    told += byte;
  if (told.empty()) ::_exit(0);  // it never came to its scene
  strand::OpenOptions options;
  options.clock =
      std::make_shared<strand::ManualClock>(strand::Time{strand::Duration{std::stoll(told)}});
  scene(*need(strand::open(told.substr(told.find(' ') + 1), options)));
  ::_exit(0);
}

OtherProcess::~OtherProcess() {
  if (pipe_ >= 0) play("", strand::Time{});
}

int OtherProcess::play(const std::string& url, strand::Time time) {
  if (!url.empty()) {
    const std::string told = std::to_string(time.time_since_epoch().count()) + " " + url;
    if (::write(pipe_, told.data(), told.size()) < 0) throw Broken("the other process is gone");
  }
  ::close(pipe_);
  pipe_ = -1;
  int status = 0;
  ::waitpid(id_, &status, 0);
  return status;
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
