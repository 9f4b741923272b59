#include "server/committer.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "queue/forwarding_store.h"

namespace strand::server {
namespace {

Transaction sending(const std::string& body) {
  Transaction transaction;
  Send send;
  send.queue = "q";
  send.key = "k";
  send.body = body;
  transaction.sends.push_back(send);
  return transaction;
}

// A store whose applies can be held up, and that notes how they came.
class GatedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    std::unique_lock lock(mutex_);
    batches.push_back(transactions.size());
    ++entered_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    lock.unlock();
    return ForwardingStore::apply(transactions);
  }
  void wait_entered(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_ >= count; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  std::vector<std::size_t> batches;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0;
  bool open_ = false;
};

TEST(Committer, What_gathers_meanwhile_is_committed_together_and_answered_to_each) {
  const auto store = open("memory:").value();
  GatedStore gated(*store);
  std::vector<std::vector<MessageId>> answers(4);
  {
    Committer committer(gated, 1, 1000);
    const auto submit = [&](std::size_t who, std::vector<Transaction> transactions) {
      return committer.submit(std::move(transactions), [&answers, who](Committer::Results results) {
        for (const auto& result : results)
          answers[who].push_back(result.value().sent.at(0).id);
      });
    };
    ASSERT_TRUE(submit(0, {sending("0")}));
    gated.wait_entered(1);
    ASSERT_TRUE(submit(1, {sending("1")}));
    ASSERT_TRUE(submit(2, {sending("2a"), sending("2b")}));
    ASSERT_TRUE(submit(3, {sending("3")}));
    gated.open();
  }
  EXPECT_THAT(gated.batches, testing::ElementsAre(1, 4));
  const auto leases = store->lease({.queue = "q"}).value();
  std::vector<std::pair<MessageId, std::string>> seen;
  for (const Message& message : leases.at(0).messages)
    seen.emplace_back(message.id, message.body);
  const std::vector<std::pair<MessageId, std::string>> wanted = {{answers[0].at(0), "0"},
                                                                 {answers[1].at(0), "1"},
                                                                 {answers[2].at(0), "2a"},
                                                                 {answers[2].at(1), "2b"},
                                                                 {answers[3].at(0), "3"}};
  EXPECT_EQ(seen, wanted);
}

TEST(Committer, Too_much_that_waits_is_refused) {
  const auto store = open("memory:").value();
  GatedStore gated(*store);
  std::atomic<int> done = 0;
  {
    Committer committer(gated, 1, 2);
    const auto count = [&](const Committer::Results&) { ++done; };
    ASSERT_TRUE(committer.submit({sending("0")}, count));
    gated.wait_entered(1);
    EXPECT_TRUE(committer.submit({sending("1")}, count));
    EXPECT_TRUE(committer.submit({sending("2")}, count));
    EXPECT_FALSE(committer.submit({sending("3")}, count));
    EXPECT_EQ(committer.waiting(), 2U);
    gated.open();
  }
  EXPECT_EQ(done, 3);
}

TEST(Committer, A_failed_transaction_fails_alone) {
  const auto store = open("memory:").value();
  GatedStore gated(*store);
  std::vector<std::string> outcomes(3);
  {
    Committer committer(gated, 1, 100);
    const auto note = [&](std::size_t who) {
      return [&outcomes, who](const Committer::Results& results) {
        outcomes[who] = results.at(0) ? "ok" : std::string(to_string(results.at(0).error().code));
      };
    };
    ASSERT_TRUE(committer.submit({sending("0")}, note(0)));
    gated.wait_entered(1);
    Transaction bad = sending("x");
    bad.sends[0].queue = "";
    ASSERT_TRUE(committer.submit({bad}, note(1)));
    ASSERT_TRUE(committer.submit({sending("2")}, note(2)));
    gated.open();
  }
  EXPECT_THAT(outcomes, testing::ElementsAre("ok", "invalid_argument", "ok"));
}

}  // namespace
}  // namespace strand::server
