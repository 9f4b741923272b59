#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_fixture.h"

// The same by TLS.

namespace strand::server {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

class AdminHttpTls : public AdminHttp {
 protected:
  AdminHttpTls() {
    std::string name = (fs::temp_directory_path() / "strand-tls-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    make("server", "first");
    options_.tls = HttpTls{.certificate = path("server.pem"), .key = path("server.key")};
  }
  ~AdminHttpTls() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  // A certificate that signs itself.
  void make(const std::string& name, const std::string& owner) {
    const std::string command = fmt::format(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN={} -keyout {}.key -out {}.pem 2>/dev/null",
        owner, path(name), path(name));
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  }

  struct Seen {
    std::string text = {};   // "" if there was no answer
    std::string owner = {};  // of the certificate
    std::string version = {};
  };
  Seen ask(const std::string& client = "", int version_max = 0) {
    asio::io_context io;
    asio::ssl::context context(asio::ssl::context::tls_client);
    if (version_max != 0) {
      SSL_CTX_set_security_level(context.native_handle(), 0);
      SSL_CTX_set_max_proto_version(context.native_handle(), version_max);
    }
    if (!client.empty()) {
      context.use_certificate_chain_file(path(client + ".pem"));
      context.use_private_key_file(path(client + ".key"), asio::ssl::context::pem);
    }
    asio::ssl::stream<asio::ip::tcp::socket> stream(io, context);
    boost::system::error_code error;
    stream.next_layer().connect({asio::ip::make_address("127.0.0.1"), port()}, error);
    stream.handshake(asio::ssl::stream_base::client, error);
    Seen seen;
    if (error) return seen;
    if (X509* const certificate = SSL_get1_peer_certificate(stream.native_handle())) {
      char name[256];
      X509_NAME_oneline(X509_get_subject_name(certificate), name, sizeof(name));
      X509_free(certificate);
      seen.owner = name;
    }
    seen.version = SSL_get_version(stream.native_handle());
    const std::string text = request_text("GET", "/healthz", {.fields = "Connection: close\r\n"});
    asio::write(stream, asio::buffer(text), error);
    asio::read(stream, asio::dynamic_buffer(seen.text), error);
    return seen;
  }

  fs::path folder_;
};

TEST_F(AdminHttpTls, A_request_is_answered) {
  const Seen seen = ask();
  EXPECT_THAT(seen.text, testing::StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(seen.text, testing::HasSubstr("\"ok\""));
  EXPECT_EQ(seen.owner, "/CN=first");
  EXPECT_EQ(seen.version, "TLSv1.3");
}

TEST_F(AdminHttpTls, Old_versions_are_refused) {
  EXPECT_EQ(ask("", TLS1_1_VERSION).text, "");
  EXPECT_EQ(ask("", TLS1_2_VERSION).version, "TLSv1.2");
}

TEST_F(AdminHttpTls, Who_speaks_without_it_is_not_answered) {
  RawClient client(port());
  client.send(request_text("GET", "/healthz"));
  EXPECT_EQ(client.answer().status, 0U);
  EXPECT_THAT(ask().text, testing::StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(AdminHttpTls, A_handshake_that_does_not_come_is_cut_off) {
  options_.limits.header_timeout = std::chrono::milliseconds{200};
  RawClient client(port());
  EXPECT_TRUE(client.is_closed_within(usual_patience));
}

TEST_F(AdminHttpTls, A_new_certificate_is_taken_over_while_it_runs) {
  EXPECT_EQ(ask().owner, "/CN=first");
  make("server", "second");
  EXPECT_EQ(ask().owner, "/CN=first");
  EXPECT_TRUE(server_->reload_certificates());
  EXPECT_EQ(ask().owner, "/CN=second");
}

TEST_F(AdminHttpTls, A_broken_certificate_leaves_the_old_one_in_use) {
  EXPECT_EQ(ask().owner, "/CN=first");
  std::ofstream(path("server.pem")) << "nonsense";
  const auto reloaded = server_->reload_certificates();
  ASSERT_FALSE(reloaded);
  EXPECT_THAT(reloaded.error().message, testing::HasSubstr("server.pem"));
  EXPECT_EQ(ask().owner, "/CN=first");
}

TEST_F(AdminHttpTls, Files_that_do_not_fit_are_refused_at_the_start) {
  make("other", "other");
  options_.tls->key = path("other.key");
  EXPECT_FALSE(HttpServer::start(options_, open_access_));
  options_.tls->key = path("missing.key");
  EXPECT_FALSE(HttpServer::start(options_, open_access_));
}

TEST_F(AdminHttpTls, Callers_prove_who_they_are_if_they_must) {
  make("client", "client");
  make("stranger", "stranger");
  options_.tls->client_ca = path("client.pem");
  EXPECT_THAT(ask("client").text, testing::StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(ask("stranger").text, "");
  EXPECT_EQ(ask().text, "");
}

}  // namespace
}  // namespace strand::server
