#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_fixture.h"

// Bad input: each is refused for what it is, and the server goes on.

namespace strand::server {
namespace {

using testing::HasSubstr;

constexpr std::string_view head =
    "POST /api/v1/queues/orders/dead-letters/drop HTTP/1.1\r\n"
    "Host: localhost\r\nContent-Type: application/json\r\n";

TEST_F(AdminHttp, Two_ways_to_tell_the_length_are_refused) {
  const std::string start(head);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  for (const std::string& fields :
       {"Content-Length: 5\r\n" + chunked, chunked + "Content-Length: 5\r\n",
        std::string("Transfer-Encoding: identity\r\nContent-Length: 2\r\n"),
        std::string("Content-Length: 2\r\nContent-Length: 2\r\n"),
        std::string("Content-Length: 2\r\nContent-Length: 3\r\n"),
        std::string("Content-Length: 2, 3\r\n"), std::string("Content-Length: -1\r\n"),
        std::string("Content-Length: 99999999999999999999999\r\n"),
        std::string("Content-Length: 0x2\r\n"), chunked + chunked}) {
    EXPECT_EQ(raw(start + fields + "\r\n0\r\n\r\n").status, 400U) << fields;
  }
  for (const char* encoding : {"gzip", "chunked, gzip", "gzip, chunked", "xchunked", "identity"}) {
    EXPECT_EQ(raw(start + "Transfer-Encoding: " + encoding + "\r\n\r\n0\r\n\r\n").status, 501U)
        << encoding;
  }
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, Heads_that_are_not_http_are_refused) {
  for (const std::string& bytes : {
           std::string("GET /\r\n\r\n"),
           std::string("\r\n\r\n\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n\tc\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\nA: b\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nA: b\rc\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nA: ") + '\0' + "\r\n\r\n",
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nA: b\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
           std::string("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string("GET / HTTP/9\r\nHost: localhost\r\n\r\n"),
           std::string("\x16\x03\x01\x02\r\n\r\n"),
       }) {
    EXPECT_EQ(raw(bytes).status, 400U) << bytes;
  }
  EXPECT_THAT(raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, testing::AnyOf(400U, 505U));
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, A_head_that_is_too_long_is_refused) {
  const std::string start = "GET / HTTP/1.1\r\nHost: localhost\r\nA: ";
  const auto fits = raw(start + std::string(8'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(fits.status, 200U) << fits.body;
  EXPECT_EQ(raw(start + std::string(20'000, 'x') + "\r\n\r\n").status, 431U);
  EXPECT_EQ(raw("GET /" + std::string(1'000'000, 'x')).status, 431U);
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5'000; ++i)
    many += fmt::format("A{}: b\r\n", i);
  EXPECT_EQ(raw(many + "\r\n").status, 431U);
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, A_body_that_is_too_long_is_refused) {
  const std::string start(head);
  const auto told = raw(start + "Content-Length: 1048577\r\n\r\n" + std::string(1'048'577, 'x'));
  EXPECT_EQ(told.status, 413U);
  EXPECT_EQ(told.code(), "limit_exceeded");
  EXPECT_EQ(raw(start + "Content-Length: 18446744073709551615\r\n\r\n").status, 413U);
  std::string chunks = start + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i)
    chunks += fmt::format("{:x}\r\n{}\r\n", 65'536, std::string(65'536, 'x'));
  EXPECT_EQ(raw(chunks + "0\r\n\r\n").status, 413U);
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, Chunks_that_are_none_are_refused) {
  const std::string start = std::string(head) + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks :
       {"fffffffffffffffff\r\nx\r\n0\r\n\r\n", "-1\r\nx\r\n0\r\n\r\n", "xyz\r\n\r\n",
        "2\r\nabc\r\n0\r\n\r\n", "\r\n\r\n", "2 \r\n{}\r\n0\r\n\r\n"}) {
    EXPECT_THAT(raw(start + chunks).status, testing::AnyOf(400U, 413U)) << chunks;
  }
  EXPECT_EQ(raw(start + "fffffffffffffff0\r\nx").status, 413U);
  EXPECT_THAT(raw(start + "2;" + std::string(100'000, 'x') + "\r\n{}\r\n0\r\n\r\n").status,
              testing::AnyOf(400U, 413U, 431U));
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, A_chunked_body_is_read) {
  bury("orders", "a", "dead");
  const std::string start = std::string(head) + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(raw(start + "6\r\n{\"all\"\r\n6;a=b\r\n:true}\r\n0\r\nTrailer: x\r\n\r\n").status,
            200U);
}

// Fields behind the body come too late to say who somebody is.
TEST_F(AdminHttp, A_token_behind_the_body_is_none) {
  KnownTokens tokens;
  tokens.set("root", {{Role::admin, "#"}});
  send("orders", "a", "1");
  start(tokens);
  EXPECT_EQ(
      raw(std::string(head) + "Transfer-Encoding: chunked\r\n\r\n"
                              "c\r\n{\"all\":true}\r\n0\r\nAuthorization: Bearer root\r\n\r\n")
          .status,
      401U);
  server_.reset();
}

TEST_F(AdminHttp, Packed_bodies_are_refused_unseen) {
  for (const char* encoding : {"gzip", "deflate", "br", "gzip, identity"}) {
    const auto answer =
        call("PUT", "/api/v1/queues/orders",
             {.body = "\x1f\x8b\x08", .fields = fmt::format("Content-Encoding: {}\r\n", encoding)});
    EXPECT_EQ(answer.status, 415U) << encoding;
  }
}

TEST_F(AdminHttp, Json_that_is_none_is_refused) {
  for (const std::string& body :
       {std::string("{"), std::string("nonsense"), std::string("{} {}"), std::string("{\"a\":}"),
        std::string("{\"max_attempts\": NaN}"), std::string("{\"max_attempts\": 1,}"),
        std::string("\"\xff\xfe\""), std::string("{\"\xff\":1}"), std::string("{\"a\x01\":1}"),
        std::string("{\"\\u0000\":1}"), std::string("{\"\\ud800\":1}"), std::string("null"),
        std::string(1, '\0'), std::string("7")}) {
    const auto answer = put("/api/v1/queues/orders", body);
    EXPECT_EQ(answer.status, 400U) << body;
    EXPECT_EQ(answer.code(), "invalid_argument") << body;
  }
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, Deep_json_is_refused_without_being_followed) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i)
      deep += open;
    const auto answer = put("/api/v1/queues/orders", deep);
    EXPECT_EQ(answer.status, 400U);
    EXPECT_THAT(answer.message(), HasSubstr("32 levels"));
  }
  EXPECT_THAT(put("/api/v1/queues/orders", "\"" + std::string(100, '[') + "\"").message(),
              testing::Not(HasSubstr("levels")));
}

TEST_F(AdminHttp, Names_are_what_the_store_takes) {
  for (const std::string& name :
       {std::string("%00"), std::string("a%00b"), std::string("%ff%fe"), std::string("%0a"),
        std::string("a%1bb"), std::string(10'000, 'x')}) {
    const auto answer = put("/api/v1/queues/" + name, "{}");
    EXPECT_EQ(answer.status, 400U) << name.substr(0, 20);
    EXPECT_TRUE(answer.json().is_object());
  }
  for (const char* path :
       {"/api/v1/queues/%", "/api/v1/queues/%2", "/api/v1/queues/%zz", "/api/v1/queues?limit=%",
        "/api/v1/queues?%g0=1", "/api/v1/queues?limit=1&limit=2", "/api/v1/queues?limit=1e3",
        "/api/v1/queues?limit=99999999999999999999", "/api/v1/queues?limit=-1"}) {
    EXPECT_EQ(get(path).status, 400U) << path;
  }
  // There are no folders here to climb out of: it is a name like others.
  EXPECT_THAT(get("/api/v1/queues/..%2f..%2fetc%2fpasswd").status, testing::AnyOf(400U, 404U));
  EXPECT_THAT(get("/../../etc/passwd").status, 404U);
  EXPECT_THAT(get("/api/v1/queues/../../../etc/passwd").status, 404U);
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, A_body_where_none_belongs_is_refused) {
  EXPECT_EQ(call("GET", "/api/v1/queues", {.body = "{}"}).status, 400U);
  send("a", {}, "1");
  EXPECT_EQ(post("/api/v1/queues/a/purge", R"({"key":"b"})").status, 400U);
  EXPECT_EQ(store_->stats("a")->ready, 1U);
  EXPECT_EQ(post("/api/v1/queues/a/purge", "{}").status, 200U);
  EXPECT_EQ(call("POST", "/api/v1/queues/a/pause", {.fields = "Expect: magic\r\n"}).status, 417U);
}

TEST_F(AdminHttp, Who_asks_first_is_told_to_go_on) {
  RawClient client(port());
  client.send(
      std::string("PUT /api/v1/queues/orders HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Type: application/json\r\nContent-Length: 2\r\n"
                  "Expect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("{}");
  EXPECT_EQ(client.answer().status, 200U);
}

}  // namespace
}  // namespace strand::server
