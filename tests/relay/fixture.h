#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "postgres/fixture.h"
#include "relay/claims.h"
#include "relay/config.h"
#include "relay/init_sql.h"
#include "relay/outbox.h"
#include "relay/relay.h"
#include "relay/source.h"
#include "relay/worker.h"

namespace strand::relay {

// A test with an outbox in a database of its own.
class RelayTest : public postgres::PostgresTest {
 protected:
  using Connection = postgres::Connection;

  // A configuration with more lines for [tables.outbox], and for [kafka].
  Config config(std::string_view table = {}, std::string_view kafka = {}) {
    const auto parsed =
        parse_config(fmt::format("[database]\nurl = \"{}\"\n[kafka]\n{}\n[tables.outbox]\n{}\n",
                                 url(), kafka, table),
                     "test.toml");
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed.value_or(Config{});
  }

  // Makes what the configuration wants, and a connection to look at it.
  void init(const Config& wanted) {
    if (look_ == nullptr) look_ = connect_to(url());
    script(*look_, own_tables_sql(OwnTables(wanted.own_schema)));
    for (const TableSettings& table : wanted.tables)
      script(*look_, outbox_sql(table) + indexes_sql(table) + triggers_sql(table));
  }

  Connection& look() { return *look_; }

  void insert(std::string_view entity, std::string_view payload = "{}") {
    postgres::Params params;
    params.text(entity).text(payload);
    query(*look_,
          "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, "
          "'Happened', $2::text::jsonb)",
          std::move(params));
  }
  // Numbered payloads: {"n": 1}, {"n": 2}, …
  void insert_many(std::string_view entity, int count) {
    for (int n = 1; n <= count; ++n)
      insert(entity, fmt::format("{{\"n\": {}}}", n));
  }

  std::int64_t number(const std::string& sql) { return query(*look_, sql).int8(0, 0); }

  // Asks until it is so; a test that waits for more than half a minute has failed.
  static void wait_until(const std::function<bool()>& so) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "it did not come to pass";
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  std::unique_ptr<Relay> start(const Config& wanted, RelayOptions options = {}) {
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_.emplace_back(line);
    };
    auto relay = Relay::start(wanted, std::move(options));
    EXPECT_TRUE(relay) << relay.error().message;
    return relay ? std::move(*relay) : nullptr;
  }
  static void wait_until_empty(Relay& relay) {
    wait_until([&] { return relay.empty().value_or(false); });
  }

  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  std::unique_ptr<Connection> look_;
  std::mutex mutex_;
  std::vector<std::string> log_;
};

// The parts of a worker, to be moved step by step.
class Hand {
 public:
  Hand(const std::string& url, const TableSettings& settings, std::uint32_t number)
      : connection(postgres::Connection::open(url).value()) {
    EXPECT_TRUE(connection->script(session_script()));
    const OwnTables own("public");
    outbox = std::make_unique<Outbox>(Outbox::describe(*connection, settings, own).value());
    const Owner owner{.process = "test", .host = "here", .pid = 1, .worker = number};
    claims = make_claims(*outbox, *connection, owner);
    source = std::make_unique<Source>(*outbox, *connection);
    const auto begun = claims->begin();
    EXPECT_TRUE(begun) << begun.error().message;
  }

  std::vector<Claim> claim() const {
    auto got = claims->claim();
    EXPECT_TRUE(got) << got.error().message;
    return got.value_or(std::vector<Claim>{});
  }
  std::vector<std::string> claim_names() const {
    std::vector<std::string> names;
    for (const Claim& claim : claim())
      names.push_back(claim.entity);
    return names;
  }
  std::vector<std::string> read(const std::vector<Claim>& held) const {
    std::vector<std::string> ids;
    const auto rows = source->read(held);
    EXPECT_TRUE(rows) << rows.error().message;
    if (rows) {
      for (const Row& row : *rows)
        ids.push_back(row.id);
    }
    return ids;
  }
  // Marks these rows of an entity; the ids that were.
  Result<std::vector<std::string>> mark(const std::vector<Claim>& held,
                                        const std::vector<std::string>& ids) const {
    Outcome outcome;
    for (const std::string& id : ids)
      outcome.sent.push_back({id, held.front().slot, held.front().entity});
    return source->mark(outcome, claims->fence(held));
  }

  std::unique_ptr<postgres::Connection> connection;
  std::unique_ptr<Outbox> outbox;
  std::unique_ptr<Claims> claims;
  std::unique_ptr<Source> source;
};

}  // namespace strand::relay
