#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pq/connection.h"
#include "relay/verify.h"
#include "sim/random.h"

namespace strand::relay_chaos {

// Applications that insert into the outbox of a database, and a record beside it of the order in
// which they committed that does not depend on the outbox: each transaction numbers its rows at its
// very end, under a lock of the entity that it keeps until the commit. The ids of the outbox are
// taken before.
class Producers {
 public:
  // Makes the tables of the record. The outbox is there already.
  Producers(std::string url, std::uint64_t seed);
  Producers(const Producers&) = delete;
  Producers& operator=(const Producers&) = delete;
  ~Producers();

  // So many rows at least, 1 to 10 of an entity, in one go.
  void insert_backlog(int rows);
  // Threads that commit transactions of random length, each 1 to 10 rows of one entity or two,
  // until stop(): about so many rows a second in all.
  void start(int threads, int rows_per_s);
  void stop();

  // Every committed row, in commit order of its entity. `sent` as the outbox says.
  std::vector<relay::ExpectedRow> rows();
  // How many rows of the outbox wait.
  std::uint64_t waiting();

 private:
  void run(sim::Random random, int rows_per_s);
  std::unique_ptr<postgres::Connection> connect() const;
  postgres::Rows ask(const std::string& sql) const;

  const std::string url_;
  sim::Random random_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strand::relay_chaos
