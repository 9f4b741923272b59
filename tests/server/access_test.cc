#include "server/access.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strand::server {
namespace {

TEST(Access, A_pattern_covers_names_by_segments) {
  EXPECT_TRUE(covers("orders", "orders"));
  EXPECT_FALSE(covers("orders", "orders.eu"));
  EXPECT_FALSE(covers("orders", "order"));
  EXPECT_TRUE(covers("orders.*", "orders.eu"));
  EXPECT_FALSE(covers("orders.*", "orders"));
  EXPECT_FALSE(covers("orders.*", "orders.eu.west"));
  EXPECT_TRUE(covers("orders.#", "orders"));
  EXPECT_TRUE(covers("orders.#", "orders.eu.west"));
  EXPECT_FALSE(covers("orders.#", "ordersx"));
  EXPECT_TRUE(covers("#", "anything.at.all"));
  EXPECT_TRUE(covers("*.eu", "orders.eu"));
  EXPECT_FALSE(covers("*.eu", "orders.us"));
  EXPECT_FALSE(covers("", "orders"));
}

TEST(Access, A_pattern_covers_another_only_if_all_its_names_are) {
  EXPECT_TRUE(covers("orders.*", "orders.*"));
  EXPECT_FALSE(covers("orders.eu", "orders.*"));
  EXPECT_FALSE(covers("orders.*", "orders.#"));
  EXPECT_TRUE(covers("orders.#", "orders.#"));
  EXPECT_TRUE(covers("#", "#"));
  EXPECT_FALSE(covers("*", "#"));
}

TEST(Access, A_permit_grants_what_it_says_and_nothing_else) {
  const Permit permit("billing", {{Role::send, "orders.*"}, {Role::admin, "billing"}});
  EXPECT_TRUE(permit.may(Role::send, "orders.eu"));
  EXPECT_FALSE(permit.may(Role::receive, "orders.eu"));
  EXPECT_FALSE(permit.may(Role::send, "orders"));
  EXPECT_TRUE(permit.may(Role::send, "billing"));
  EXPECT_TRUE(permit.may(Role::receive, "billing"));
  EXPECT_TRUE(permit.may(Role::admin, "billing"));
  EXPECT_FALSE(permit.may(Role::admin, "orders.eu"));
  EXPECT_TRUE(permit.sees("orders.eu"));
  EXPECT_FALSE(permit.sees("secret"));
  EXPECT_TRUE(permit.may_somewhere(Role::receive));
  EXPECT_FALSE(permit.may_everywhere(Role::send));
}

TEST(Access, A_refusal_names_the_caller_and_the_thing) {
  const Permit permit("billing", {});
  const Error error = permit.refusal(Role::send, "orders");
  EXPECT_EQ(error.code, Errc::forbidden);
  EXPECT_THAT(error.message, testing::HasSubstr("\"billing\""));
  EXPECT_THAT(error.message, testing::HasSubstr("\"orders\""));
}

TEST(Access, Without_tokens_everybody_may_do_everything) {
  const OpenAccess access;
  const auto permit = access.admit(std::nullopt);
  ASSERT_TRUE(permit);
  EXPECT_TRUE((*permit)->may_everywhere(Role::admin));
}

TEST(Access, The_bearer_is_what_stands_behind_the_word) {
  EXPECT_EQ(bearer_of("Bearer abc"), "abc");
  EXPECT_EQ(bearer_of("bEARER abc"), "abc");
  EXPECT_EQ(bearer_of("Basic abc"), std::nullopt);
  EXPECT_EQ(bearer_of("Bearer"), std::nullopt);
  EXPECT_EQ(bearer_of("Bearer "), std::nullopt);
}

}  // namespace
}  // namespace strand::server
