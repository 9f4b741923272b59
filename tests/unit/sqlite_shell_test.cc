// What a person sees of an SQLite store through the real sqlite3 shell, while it is in use.

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <strand/strand.h>

#include "unit/fresh_folder.h"

namespace strand {
namespace {

using std::chrono::seconds;

class SqliteShell : public ::testing::Test {
 protected:
  void SetUp() override {
    OpenOptions options;
    options.clock = clock_;
    auto store = open("sqlite:" + (folder_ / "store").string(), options);
    ASSERT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
  }
  // What the shell prints, errors included.
  std::string shell(const std::string& sql) {
    const std::string command =
        "sqlite3 -readonly '" + (folder_ / "store").string() + "' \"" + sql + "\" 2>&1";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    std::array<char, 4096> chunk{};
    while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe.get()))
      text.append(chunk.data(), count);
    return text;
  }
  void send(const std::string& key, Bytes body, Headers headers = {}) {
    Send message;
    message.queue = "orders";
    message.key = key;
    message.body = std::move(body);
    message.headers = std::move(headers);
    Transaction transaction;
    transaction.sends.push_back(std::move(message));
    const auto sent = store_->apply(transaction);
    ASSERT_TRUE(sent) << sent.error().message;
  }
  Lease lease() {
    LeaseRequest request;
    request.queue = "orders";
    auto leases = store_->lease(request);
    EXPECT_TRUE(leases && leases->size() == 1);
    return leases->front();
  }
  void settle(const Lease& lease, Outcome::Kind kind, const std::string& reason) {
    Transaction transaction;
    Settle settle;
    settle.token = lease.token;
    settle.outcomes.push_back(
        {.id = lease.messages.front().id, .kind = kind, .delay = {}, .reason = reason});
    transaction.settles.push_back(std::move(settle));
    const auto settled = store_->apply(transaction);
    ASSERT_TRUE(settled) << settled.error().message;
  }

  FreshFolder folder_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(Time{seconds{1'800'000'000}});
  std::unique_ptr<Store> store_;
};

TEST_F(SqliteShell, Messages_are_listed_with_queue_key_time_headers_and_body) {
  send("cust-7", "pay 10 EUR", {{"content-type", "text/plain"}, {"who", "Zoë"}});
  send("cust-8", std::string(2000, 'x'));
  EXPECT_EQ(shell("SELECT queue, key, due, headers, body FROM messages WHERE key = 'cust-7'"),
            "orders|cust-7|2027-01-15T08:00:00.000Z|"
            "[[\"content-type\",\"text/plain\"],[\"who\",\"Zoë\"]]|pay 10 EUR\n");
  EXPECT_EQ(shell("SELECT body FROM messages WHERE key = 'cust-8'"), std::string(2000, 'x') + "\n")
      << "a body that is kept elsewhere is shown all the same";
  EXPECT_EQ(shell("SELECT headers ->> '$[1][1]' FROM messages WHERE key = 'cust-7'"), "Zoë\n");
}

TEST_F(SqliteShell, Dead_letters_are_listed_with_their_reasons) {
  send("cust-7", "pay 10 EUR");
  settle(lease(), Outcome::Kind::retry, "bank said no");
  EXPECT_EQ(shell("SELECT attempts, not_before, failures ->> '$[0].reason' FROM messages"),
            "1|2027-01-15T08:01:00.000Z|bank said no\n");
  clock_->advance(seconds{60});
  settle(lease(), Outcome::Kind::dead, "account closed");
  EXPECT_EQ(shell("SELECT queue, key, dead_at, reason, attempts, body FROM dead_letters"),
            "orders|cust-7|2027-01-15T08:01:00.000Z|account closed|2|pay 10 EUR\n");
  EXPECT_EQ(shell("SELECT json_array_length(failures) FROM dead_letters"), "2\n");
  EXPECT_EQ(shell("SELECT count(*) FROM messages"), "0\n");
}

TEST_F(SqliteShell, Leases_are_listed_and_lead_to_their_messages) {
  send("cust-7", "pay 10 EUR");
  const Lease held = lease();
  EXPECT_EQ(shell("SELECT queue, key, expires_at FROM leases"),
            "orders|cust-7|2027-01-15T08:00:30.000Z\n");
  EXPECT_EQ(shell("SELECT m.body FROM leases l, json_each(l.messages) e, messages m "
                  "WHERE m.id = e.value"),
            "pay 10 EUR\n");
}

TEST_F(SqliteShell, Settings_and_counters_are_columns) {
  send("cust-7", "pay 10 EUR");
  settle(lease(), Outcome::Kind::ack, "");
  EXPECT_EQ(shell("SELECT name, backoff, retry_policy, on_exhausted, lease_ms FROM queue"),
            "orders|[60000,300000,1800000]|block|dead|30000\n");
  EXPECT_EQ(shell("SELECT accepted, acked, dead FROM counters"), "1|1|0\n");
}

TEST_F(SqliteShell, The_file_says_whose_it_is_and_is_intact) {
  send("cust-7", "pay 10 EUR");
  store_.reset();
  EXPECT_EQ(shell("PRAGMA integrity_check; PRAGMA application_id; PRAGMA user_version"),
            "ok\n1400140388\n3\n");
}

}  // namespace
}  // namespace strand
