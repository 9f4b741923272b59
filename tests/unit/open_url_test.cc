// strand::open: which URLs name a store, who may open it, and what the refusals say.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <strand/strand.h>

namespace strand {
namespace {

Error refused(std::string_view url, OpenOptions options = {}) {
  Result<std::unique_ptr<Store>> store = open(url, std::move(options));
  if (store) {
    ADD_FAILURE() << '"' << url << "\" was opened";
    return {};
  }
  EXPECT_FALSE(store.error().message.empty()) << '"' << url << '"';
  return store.error();
}

std::unique_ptr<Store> opened(std::string_view url, OpenOptions options = {}) {
  Result<std::unique_ptr<Store>> store = open(url, std::move(options));
  if (!store) {
    ADD_FAILURE() << '"' << url << "\": " << store.error().message;
    return nullptr;
  }
  return std::move(*store);
}

// The code of a failure; nothing if there was none.
template <class T>
std::optional<Errc> code_of(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error().code;
}

Transaction send(std::string queue, std::string body) {
  Send message;
  message.queue = std::move(queue);
  message.body = std::move(body);
  Transaction transaction;
  transaction.sends.push_back(std::move(message));
  return transaction;
}

// The one who mistyped "rockdb:" needs to see what there is.
TEST(OpenUrl, An_unknown_scheme_is_unsupported_and_names_those_that_are) {
  const Error error = refused("rockdb:here");
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_NE(error.message.find("memory:"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("rockdb"), std::string::npos) << error.message;
}

TEST(OpenUrl, Text_that_is_no_URL_is_refused) {
  for (const std::string_view url : {"", "memory", "/var/lib/strand", ":", ":name", " memory:"}) {
    const Error error = refused(url);
    EXPECT_TRUE(error.code == Errc::invalid_argument || error.code == Errc::unsupported)
        << '"' << url << "\": " << to_string(error.code);
    EXPECT_NE(error.message.find("memory:"), std::string::npos)
        << '"' << url << "\": names no URL that works: " << error.message;
  }
}

TEST(OpenUrl, A_store_without_a_name_is_another_one_each_time) {
  const auto one = opened("memory:");
  const auto two = opened("memory:");
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(one->apply(send("orders", "a")));
  EXPECT_EQ(code_of(two->stats("orders")), Errc::not_found);
}

TEST(OpenUrl, A_named_store_is_found_again_after_it_was_closed) {
  const std::string url = "memory:open_url_found_again";
  auto store = opened(url);
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->apply(send("orders", "a")));
  store.reset();

  store = opened(url);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->stats("orders")->ready, 1U);
}

// Bodies lie in memory there, so they count: a limit that overlooks them is none.
TEST(OpenUrl, A_store_in_memory_counts_bodies_with_a_name_and_without) {
  for (const std::string_view url : {"memory:", "memory:open_url_counts_bodies"}) {
    OpenOptions options;
    options.limits.memory_bytes_max = 100'000;
    const auto store = opened(url, options);
    ASSERT_TRUE(store);
    ASSERT_TRUE(store->apply(send("orders", std::string(60'000, 'x'))));
    EXPECT_EQ(code_of(store->apply(send("orders", std::string(60'000, 'x')))), Errc::store_full)
        << url;
  }
}

TEST(OpenUrl, Stores_of_different_names_are_different_stores) {
  const auto one = opened("memory:open_url_one");
  const auto two = opened("memory:open_url_two");
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(one->apply(send("orders", "a")));
  EXPECT_EQ(code_of(two->stats("orders")), Errc::not_found);
}

// Two engines over one store would fork it: the second owner is refused, and told whom to ask.
TEST(OpenUrl, A_second_open_is_in_use_and_says_who_holds_it) {
  const std::string url = "memory:open_url_held";
  const auto store = opened(url);
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->apply(send("orders", "a")));

  const Error error = refused(url);
  EXPECT_EQ(error.code, Errc::in_use);
  EXPECT_NE(error.message.find("open_url_held"), std::string::npos) << error.message;

  EXPECT_TRUE(store->apply(send("orders", "b"))) << "the owner must not notice";
  EXPECT_EQ(store->stats("orders")->ready, 2U);
}

TEST(OpenUrl, A_refused_second_open_does_not_keep_the_store_locked) {
  const std::string url = "memory:open_url_freed";
  auto store = opened(url);
  ASSERT_TRUE(store);
  EXPECT_EQ(refused(url).code, Errc::in_use);
  store.reset();
  EXPECT_TRUE(opened(url));
}

// A typo in the name of a store must not look like an empty store.
TEST(OpenUrl, Without_create_a_store_that_does_not_exist_is_not_found) {
  const std::string url = "memory:open_url_absent";
  OpenOptions options;
  options.create = false;
  EXPECT_EQ(refused(url, options).code, Errc::not_found);
  EXPECT_EQ(refused(url, options).code, Errc::not_found)
      << "the refusal itself must create nothing";
}

TEST(OpenUrl, Without_create_a_store_that_exists_is_opened) {
  const std::string url = "memory:open_url_present";
  opened(url).reset();
  OpenOptions options;
  options.create = false;
  EXPECT_TRUE(opened(url, options));
}

TEST(OpenUrl, A_store_without_a_clock_takes_the_time_of_the_system) {
  const auto store = opened("memory:");
  ASSERT_TRUE(store);
  const Time wall = system_clock()->wall();
  EXPECT_LT(std::chrono::abs(store->now() - wall), std::chrono::seconds{60});
}

TEST(OpenUrl, The_limits_of_the_options_are_those_of_the_store) {
  OpenOptions options;
  options.limits.body_bytes_max = 4;
  const auto store = opened("memory:", options);
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->apply(send("orders", "1234")));
  EXPECT_EQ(code_of(store->apply(send("orders", "12345"))), Errc::limit_exceeded);
}

TEST(OpenUrl, Applying_no_transaction_at_all_is_no_error) {
  const auto store = opened("memory:");
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->apply(std::span<const Transaction>{}).empty());
}

TEST(OpenUrl, Every_code_has_a_name_of_its_own) {
  EXPECT_EQ(to_string(Errc::lease_lost), "lease_lost");
  EXPECT_EQ(to_string(Errc::invalid_argument), "invalid_argument");
  EXPECT_EQ(to_string(Errc::corrupt), "corrupt");
  EXPECT_EQ(to_string(Errc::unknown_outcome), "unknown_outcome");
}

}  // namespace
}  // namespace strand
