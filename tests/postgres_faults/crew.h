#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <strand/store.h>

#include "crash/child.h"
#include "postgres_faults/journal.h"
#include "postgres_faults/journaled_store.h"
#include "sim/random.h"

namespace strand::postgres_faults {

// Processes that work on one store in PostgreSQL, and the process that watches them: this one,
// which has the store open too.
//
// Failure: throws std::runtime_error when the processes do not do as they should.
class Crew {
 public:
  struct Size {
    int producers = 2;
    int consumers = 2;  // by strand::Consumer
    int hands = 2;      // consumers that lease by hand
  };

  // Makes the store, and starts the processes.
  Crew(const std::string& url, std::uint64_t seed, Size size);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  // One more, which lies once; returns when it has.
  void lie(const std::string& role, const std::string& lie);

  // One of them, with SIGKILL. Its next run begins at once.
  void kill_one();
  // Returns when so many more messages have been acked: whatever happened, the work goes on.
  void wait_for_progress(std::uint64_t acks = 20);
  // Returns when all of them together have done at least so much, however slow the machine is.
  void wait_for_work(const JointRecord::Totals& least) const;

  // Lets all finish, repeats what is unanswered, and works off what can be leased. Then the model
  // judges what all of them have seen: throws a model::Violation.
  JointRecord::Totals finish();
  // The journals of all processes; they stay there when the model has found something.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Worker {
    std::string name;
    std::string role;
    std::string lie = {};
    std::uint64_t run = 0;
    std::unique_ptr<crash::Child> child = {};
  };
  void hire(const std::string& role, int number, const std::string& lie = {});
  void start(Worker& worker);
  static void await(Worker& worker, const std::string& word);
  void stop(bool producers);
  void catch_up();
  void drain();
  [[nodiscard]] std::vector<Entry> whole_record() const;

  const std::string url_;
  sim::Random random_;
  std::filesystem::path folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<JournaledStore> journaled_;
  std::vector<Worker> workers_;
  bool guilty_ = false;
};

}  // namespace strand::postgres_faults
