#pragma once

#include <string>

#include <gtest/gtest.h>

#include "e2e/program.h"
#include "postgres/server.h"

namespace strand::e2e {

// The same on every kind of store: what commands print must not depend on it.
class ProgramOnStores : public Program, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "postgres") return;
    if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
    database_ = postgres::shared_server().fresh_database();
  }

  [[nodiscard]] std::string url() const override {
    return GetParam() == "postgres" ? database_ : GetParam() + ":" + folder() + "/store";
  }

 private:
  std::string database_;
};

}  // namespace strand::e2e
