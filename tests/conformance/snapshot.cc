#include "conformance/snapshot.h"

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/suite.h"

namespace strand::conformance {
namespace {

constexpr std::size_t page = 1'000;

std::vector<PeekedMessage> all_messages(Store& store, const std::string& queue) {
  std::vector<PeekedMessage> all;
  PeekQuery query{.queue = queue, .key = {}, .state = {}, .after = {}, .limit = page};
  while (true) {
    Answer<Page<PeekedMessage>> answer = store.peek(query);
    for (const PeekedMessage& item : answer.value().items) {
      all.push_back(item);
    }
    if (!answer->more || answer->items.empty()) return all;
    query.after = all.back().id;
  }
}

std::vector<DeadLetter> all_dead_letters(Store& store, const std::string& queue) {
  std::vector<DeadLetter> all;
  DeadLettersQuery query{.queue = queue, .after = {}, .limit = page};
  while (true) {
    Answer<Page<DeadLetter>> answer = store.dead_letters(query);
    for (const DeadLetter& item : answer.value().items) {
      all.push_back(item);
    }
    if (!answer->more || answer->items.empty()) return all;
    query.after = all.back().id;
  }
}

void add_histories(Store& store, const Execution& last, std::vector<History>& to) {
  for (std::uint64_t number = 1; number <= last.number; ++number) {
    const Result<History> history = store.history(
        {.queue = last.queue, .key = last.key, .execution = number, .from = 0, .limit = page});
    // Earlier executions may have been removed; that they have is part of the picture.
    if (history) to.push_back(*history);
  }
}

std::vector<History> all_histories(Store& store, const std::string& queue) {
  std::vector<History> all;
  InstancesQuery query{.queue = queue, .open = {}, .after = {}, .limit = page};
  while (true) {
    Answer<Page<Execution>> answer = store.instances(query);
    for (const Execution& last : answer.value().items) {
      add_histories(store, last, all);
    }
    if (!answer->more || answer->items.empty()) return all;
    query.after = answer->items.back().key;
  }
}

std::vector<Record> all_records(Store& store) {
  std::vector<Record> all;
  RecordsQuery query{.space = std::string(state_space), .prefix = {}, .after = {}, .limit = page};
  while (true) {
    Answer<Page<Record>> answer = store.records(query);
    for (const Record& item : answer.value().items) {
      all.push_back(item);
    }
    if (!answer->more || answer->items.empty()) return all;
    query.after = all.back().key;
  }
}

template <class T>
Answer<T> only(std::vector<Result<T>> results) {
  EXPECT_EQ(results.size(), 1U);
  return std::move(results.at(0));
}

template <class T>
void expect_refusal(const Answer<T>& answer, const Refusal& refusal, Store& store,
                    const Snapshot& before, const std::source_location& where) {
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()),
                                     "the request that should be refused");
  if (answer) {
    ADD_FAILURE() << "was accepted";
  } else {
    EXPECT_THAT(answer.error().code, refusal.code) << describe(answer.error());
    EXPECT_THAT(answer.error().message, ::testing::Not(IsEmpty()));
    EXPECT_THAT(answer.error().message, ::testing::HasSubstr(refusal.word));
  }
  expect_same(before, snapshot(store));
}

}  // namespace

Snapshot snapshot(Store& store) {
  Snapshot all;
  all.now = store.now();
  const Answer<std::vector<QueueInfo>> queues = store.queues();
  for (const QueueInfo& info : queues.value()) {
    all.queues.push_back({.info = info,
                          .stats = Answer<QueueStats>(store.stats(info.name)).value(),
                          .messages = all_messages(store, info.name),
                          .dead_letters = all_dead_letters(store, info.name),
                          .histories = all_histories(store, info.name)});
  }
  all.subscriptions = Answer<std::vector<Subscription>>(store.subscriptions()).value();
  all.topics = Answer<std::vector<Topic>>(store.topics()).value();
  all.records = all_records(store);
  return all;
}

void expect_same(const Snapshot& before, const Snapshot& after) {
  EXPECT_EQ(before.now, after.now);
  EXPECT_EQ(before.queues.size(), after.queues.size()) << "a queue appeared or vanished";
  for (std::size_t i = 0; i < before.queues.size() && i < after.queues.size(); ++i) {
    const QueueSnapshot& was = before.queues[i];
    const QueueSnapshot& is = after.queues[i];
    EXPECT_EQ(was.info, is.info);
    EXPECT_EQ(was.stats, is.stats) << was.info.name;
    EXPECT_EQ(was.messages, is.messages) << was.info.name;
    EXPECT_EQ(was.dead_letters, is.dead_letters) << was.info.name;
    EXPECT_EQ(was.histories, is.histories) << was.info.name;
  }
  EXPECT_EQ(before.records, after.records);
  EXPECT_TRUE(before.subscriptions == after.subscriptions) << "subscriptions differ";
  EXPECT_TRUE(before.topics == after.topics) << "topics differ";
}

Refusal out_of_range(std::string word) {
  return {.code = ::testing::AnyOf(Errc::invalid_argument, Errc::limit_exceeded),
          .word = std::move(word)};
}

void expect_refused(Store& store, const Transaction& transaction, const Refusal& refusal,
                    std::source_location where) {
  const Snapshot before = snapshot(store);
  const Answer<Receipt> answer = store.apply(transaction);
  expect_refusal(answer, refusal, store, before, where);
}

void expect_refused(Store& store, const LeaseRequest& request, const Refusal& refusal,
                    std::source_location where) {
  const Snapshot before = snapshot(store);
  const Answer<std::vector<Lease>> answer = store.lease(request);
  expect_refusal(answer, refusal, store, before, where);
}

void expect_pull_refused(Store& store, const Token& token, Cursor cursor, PullLimits limits,
                         const Refusal& refusal, std::source_location where) {
  const Snapshot before = snapshot(store);
  const Answer<Pulled> answer = store.pull(token, cursor, limits);
  expect_refusal(answer, refusal, store, before, where);
}

void expect_renew_refused(Store& store, const Token& token, Duration lease, const Refusal& refusal,
                          std::source_location where) {
  const Snapshot before = snapshot(store);
  const Answer<Time> answer = only(store.renew(std::span(&token, 1), lease));
  expect_refusal(answer, refusal, store, before, where);
}

}  // namespace strand::conformance
