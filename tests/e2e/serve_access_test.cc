// strand serve: who is let in, and how that changes while it runs.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/serving.h"
#include "server/http_client.h"

namespace strand::e2e {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ServeAccess : public Program {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder() + "/" + name; }
  [[nodiscard]] std::string tokens() const { return path("tokens.toml"); }
  [[nodiscard]] std::string url() const override { return server_->url(); }
  ServerProcess& serve(const Words& more) {
    server_ = std::make_unique<ServerProcess>("memory:", more);
    return *server_;
  }

  // A token, added to the server's file, and written to a file of its own, which is returned.
  std::string add_token(const std::string& name, const Words& grants) {
    Words words = {"token", "new", name, "--append", tokens()};
    words.insert(words.end(), grants.begin(), grants.end());
    const Finished made = Process(command(words), {}).finish();
    EXPECT_EQ(made.exit, 0) << made.err;
    std::ofstream(path(name)) << made.out;
    return path(name);
  }
  // What a client with this token in its URL says.
  Finished with_token(const std::string& file, Words words) {
    words.insert(words.end(), {"--store", url() + "?token-file=" + file});
    return Process(command(words), {}).finish();
  }
  // Waits until the server has read its files again.
  void reload(const std::string& said) {
    server_->process().signal(SIGHUP);
    server_->log_until(said);
  }

  // --- Certificates ---

  void openssl(Words words) {
    words.insert(words.begin(), "/usr/bin/openssl");
    const Finished made = Process(words, {}).finish();
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  void make_authority(const std::string& name) {
    openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=" + name, "-keyout", path(name + ".key"), "-out",
             path(name + ".pem")});
  }
  // Files NAME.key and NAME.pem, for this machine, signed by the authority.
  void make_certificate(const std::string& name, const std::string& owner,
                        const std::string& authority) {
    openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
             "/CN=" + owner, "-keyout", path(name + ".key.new"), "-out", path(name + ".csr")});
    std::ofstream(path("extensions")) << "subjectAltName=IP:127.0.0.1\n";
    openssl({"x509", "-req", "-in", path(name + ".csr"), "-CA", path(authority + ".pem"), "-CAkey",
             path(authority + ".key"), "-days", "2", "-extfile", path("extensions"), "-out",
             path(name + ".pem.new")});
    for (const char* end : {".key", ".pem"})
      std::filesystem::rename(path(name + end + ".new"), path(name + end));
  }
  // Who a server says that it is.
  static std::string owner_at(std::uint16_t port) {
    return Process({"/usr/bin/openssl", "s_client", "-alpn", "h2", "-connect",
                    "127.0.0.1:" + std::to_string(port)},
                   {})
        .finish()
        .out;
  }

  std::unique_ptr<ServerProcess> server_;
};

// --- Tokens ---

TEST_F(ServeAccess, A_client_may_do_what_its_token_says) {
  const std::string sender = add_token("sender", {"--send", "orders.#"});
  const std::string boss = add_token("boss", {"--admin", "#"});
  serve({"--tokens", tokens()});
  EXPECT_EQ(with_token(sender, {"send", "orders.new", "a"}).exit, 0);
  for (const Words& words :
       {Words{"send", "other", "a"}, {"receive", "orders.new"}, {"queue", "pause", "orders.new"}}) {
    const Finished refused = with_token(sender, words);
    EXPECT_EQ(refused.exit, 1) << testing::PrintToString(words);
    EXPECT_THAT(refused.err, testing::MatchesRegex("strand: [^\n]*sender[^\n]*\n"));
  }
  EXPECT_EQ(with_token(boss, {"queue", "pause", "orders.new"}).exit, 0);

  const Finished nobody = run({"queue", "ls"});
  EXPECT_EQ(nobody.exit, 1);
  EXPECT_THAT(nobody.err, HasSubstr("token"));
  std::ofstream(path("forged")) << "strand_" << std::string(43, 'A') << "\n";
  EXPECT_EQ(with_token(path("forged"), {"queue", "ls"}).exit, 1);
  EXPECT_THAT(with_token(path("missing"), {"queue", "ls"}).err, HasSubstr("missing"));

  ProcessOptions variable = on_store();
  variable.environment["STRAND_TOKEN_FILE"] = boss;
  EXPECT_EQ(Process(command({"queue", "ls"}), variable).finish().exit, 0);
}

TEST_F(ServeAccess, No_token_is_seen_where_others_look) {
  const std::string boss = add_token("boss", {"--admin", "#"});
  const std::string token = content_of(boss).substr(0, content_of(boss).find('\n'));
  ASSERT_GT(token.size(), 40U);
  serve({"--tokens", tokens(), "--log-level", "debug"});
  EXPECT_EQ(with_token(boss, {"queue", "set", "orders", "lease=1m"}).exit, 0);
  Process client(command({"receive", "orders", "--wait", "1m"}),
                 {.environment = {{"STRAND_STORE", url() + "?token-file=" + boss}}});
  with_token(boss, {"queue", "ls"});
  server::request(server_->http_port(), "GET", "/api/v1/queues", {.token = token});
  server::request(server_->http_port(), "GET", "/api/v1/queues?token=" + token, {});
  for (const pid_t id : {server_->process().id(), client.id()}) {
    const std::string words = content_of("/proc/" + std::to_string(id) + "/cmdline");
    EXPECT_THAT(words, AllOf(HasSubstr("strand"), Not(HasSubstr(token))));
  }
  const Finished printed =
      Process(command({"serve", "--tokens", tokens(), "--print-config"}), {}).finish();
  EXPECT_THAT(printed.out, AllOf(HasSubstr("tokens.toml"), Not(HasSubstr(token))));
  client.signal(SIGKILL);
  const Finished stopped = server_->stop();
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("caller=boss"), Not(HasSubstr(token))));
}

TEST_F(ServeAccess, SIGHUP_takes_over_new_tokens_and_those_taken_away) {
  const std::string first = add_token("first", {"--admin", "#"});
  serve({"--tokens", tokens()});
  EXPECT_EQ(with_token(first, {"send", "orders", "a"}).exit, 0);
  // One that holds a stream: `send --lines` keeps its connection.
  Process lines(command({"send", "orders", "--lines", "-o", "json"}),
                {.environment = {{"STRAND_STORE", url() + "?token-file=" + first}}});
  lines.write("b\n");
  EXPECT_THAT(lines.read_line(), HasSubstr("\"id\""));

  std::filesystem::remove(tokens());
  const std::string second = add_token("second", {"--admin", "#"});
  EXPECT_EQ(with_token(second, {"queue", "ls"}).exit, 1) << "not before it is told";
  reload("server\\.reloaded[^\n]*tokens");
  EXPECT_EQ(with_token(second, {"queue", "ls"}).exit, 0);
  const Finished refused = with_token(first, {"queue", "ls"});
  EXPECT_EQ(refused.exit, 1);
  const Finished cut = lines.finish("c\n");
  EXPECT_EQ(cut.exit, 1) << "streams that were open must ask again";

  std::ofstream(tokens(), std::ios::app) << "[[token]]\nname = \"no digest\"\n";
  reload("server\\.reload_failed[^\n]*tokens\\.toml");
  EXPECT_EQ(with_token(second, {"queue", "ls"}).exit, 0) << "the tokens before stay good";
}

TEST_F(ServeAccess, A_file_of_tokens_that_others_can_read_is_refused) {
  add_token("first", {"--admin", "#"});
  std::filesystem::permissions(tokens(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  const Finished refused =
      Process(serve_command("memory:", {"--tokens", tokens(), "--http", "127.0.0.1:0", "--grpc",
                                        "127.0.0.1:0"}),
              {})
          .finish();
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("chmod 600"));
}

// --- TLS ---

TEST_F(ServeAccess, With_TLS_both_sides_show_certificates) {
  make_authority("authority");
  make_authority("stranger");
  make_certificate("server", "server", "authority");
  make_certificate("client", "client", "authority");
  make_certificate("foreigner", "foreigner", "stranger");
  serve({"--tls-certificate", path("server.pem"), "--tls-key", path("server.key"),
         "--tls-client-ca", path("authority.pem"), "--log-format", "json"});
  const auto by = [&](const std::string& options) {
    return Process(command({"send", "orders", "a", "--store", server_->url("strands") + options}),
                   {})
        .finish();
  };
  const std::string ca = "?ca=" + path("authority.pem");
  const auto shows = [&](const std::string& name) {
    return "&cert=" + path(name + ".pem") + "&key=" + path(name + ".key");
  };
  const Finished good = by(ca + shows("client"));
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_EQ(good.err, "");
  for (const std::string& bad :
       {ca, ca + shows("foreigner"), "?ca=" + path("stranger.pem") + shows("client"),
        shows("client").replace(0, 1, "?")}) {
    const Finished refused = by(bad);
    EXPECT_EQ(refused.exit, 1) << bad;
    EXPECT_THAT(refused.err, testing::MatchesRegex("strand: [^\n]+\n")) << bad;
  }
  EXPECT_EQ(run({"queue", "ls"}).exit, 1) << "without TLS";
  EXPECT_EQ(by(ca + shows("client")).exit, 0);
  const Finished stopped = server_->stop();
  EXPECT_EQ(stopped.exit, 0);
  EXPECT_FALSE(json_lines(stopped.err).empty()) << "and all of it is JSON";
}

TEST_F(ServeAccess, New_certificates_are_served_by_HTTP_and_gRPC) {
  make_authority("authority");
  make_certificate("server", "first", "authority");
  serve({"--tls-certificate", path("server.pem"), "--tls-key", path("server.key")});
  EXPECT_THAT(owner_at(server_->http_port()), HasSubstr("CN = first"));
  EXPECT_THAT(owner_at(server_->grpc_port()), HasSubstr("CN = first"));

  make_certificate("server", "second", "authority");
  reload("server\\.reloaded[^\n]*certificates");
  EXPECT_THAT(owner_at(server_->http_port()), HasSubstr("CN = second"));
  EXPECT_TRUE(eventually(
      [&] { return owner_at(server_->grpc_port()).find("CN = second") != std::string::npos; }, 5s));
  const std::string store = server_->url("strands") + "?ca=" + path("authority.pem");
  EXPECT_EQ(Process(command({"send", "orders", "a", "--store", store}), {}).finish().exit, 0);

  // One that is broken changes nothing.
  std::ofstream(path("server.pem")) << "nonsense";
  reload("server\\.reload_failed[^\n]*server\\.pem");
  EXPECT_THAT(owner_at(server_->http_port()), HasSubstr("CN = second"));
  EXPECT_THAT(owner_at(server_->grpc_port()), HasSubstr("CN = second"));
}

}  // namespace
}  // namespace strand::e2e
