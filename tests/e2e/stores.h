#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "e2e/program.h"
#include "e2e/serving.h"
#include "postgres/server.h"

namespace strand::e2e {

// The same on every kind of store, and on one that a server has: what commands print must not
// depend on it.
class ProgramOnStores : public Program, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "served") {
      server_ = std::make_unique<ServerProcess>("memory:");
    }
    if (GetParam() != "postgres") return;
    if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
    database_ = postgres::shared_server().fresh_database();
  }
  void TearDown() override {
    if (!server_) return;
    const Finished ended = server_->stop();
    EXPECT_EQ(ended.exit, 0) << ended.err;
  }

  [[nodiscard]] std::string url() const override {
    if (server_) return server_->url();
    return GetParam() == "postgres" ? database_ : GetParam() + ":" + folder() + "/store";
  }
  // A store that others have, and that is there before anything was sent.
  [[nodiscard]] static bool is_always_there() { return GetParam() == "served"; }

 private:
  std::unique_ptr<ServerProcess> server_;
  std::string database_;
};

}  // namespace strand::e2e
