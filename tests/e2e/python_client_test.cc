// A client in Python, made of the schema alone: tests/python_client.

#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/serving.h"

namespace strand::e2e {
namespace {

// The one whose modules are Debian packages; there may be others on the path.
constexpr const char* python = "/usr/bin/python3";

class PythonClient : public Program {
 protected:
  void SetUp() override {
    const Finished imported = Process({python, "-c", "import grpc, google.protobuf"}, {}).finish();
    if (imported.exit != 0) GTEST_SKIP() << "python3-grpcio or python3-protobuf is missing";
    Words more;
    if (!tokens_.empty()) more = {"--tokens", tokens_};
    server_ = std::make_unique<ServerProcess>("memory:", more);
  }
  [[nodiscard]] std::string url() const override { return server_->url(); }

  [[nodiscard]] Words check(Words words) const {
    words.insert(words.begin(), {python, STRAND_SOURCE_DIR "/tests/python_client/check.py",
                                 "127.0.0.1:" + std::to_string(server_->grpc_port())});
    return words;
  }
  // It must be content.
  static void expect_fine(const Finished& finished) {
    EXPECT_EQ(finished.exit, 0) << finished.out << finished.err;
    EXPECT_EQ(finished.out, "fine\n") << finished.err;
  }

  std::string tokens_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(PythonClient, Sends_receives_retries_and_acknowledges) {
  expect_fine(Process(check({"messages"}), {}).finish());
}

TEST_F(PythonClient, Serves_an_activity_of_a_workflow_in_CPP) {
  ok({"workflow", "start", "payment", "4111", "--id", "paid"});
  ok({"workflow", "start", "payment", "none", "--id", "refused"});
  Process worker({STRAND_BINARY_DIR "/strand-e2e-worker", url(), "1m"}, {});
  // One fails once and is done then; the other is refused at once.
  Process doing(check({"activity", "charge_card", "3"}), {});
  EXPECT_EQ(ok({"workflow", "result", "paid", "--wait", "15s"}), "paid: charged 4111\n");
  const Finished refusal = run({"workflow", "result", "refused", "--wait", "15s"});
  EXPECT_EQ(refusal.exit, 1);
  EXPECT_THAT(refusal.err, testing::HasSubstr("there is no card"));
  expect_fine(doing.finish());
  EXPECT_EQ(worker.finish().exit, 0);
}

class PythonClientWithToken : public PythonClient {
 protected:
  PythonClientWithToken() {
    tokens_ = folder() + "/tokens.toml";
    token_ = folder() + "/token";
    const Finished made =
        Process(command({"token", "new", "python", "--admin", "#", "--append", tokens_}), {})
            .finish();
    std::ofstream(token_) << made.out;
  }
  std::string token_;
};

TEST_F(PythonClientWithToken, Is_let_in_by_its_token_alone) {
  expect_fine(Process(check({"token", token_}), {}).finish());
}

}  // namespace
}  // namespace strand::e2e
