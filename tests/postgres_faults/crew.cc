#include "postgres_faults/crew.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

#include "postgres_faults/load.h"
#include "threads/recorded_client.h"

namespace strand::postgres_faults {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr auto patience = 60s;

Stamp now() { return std::chrono::steady_clock::now(); }

fs::path new_folder() {
  std::string name = fs::temp_directory_path() / "strand-journals-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  return name;
}

// Leases of the dead run out as often as they die, so attempts are not limited.
void configure(Store& store) {
  for (const char* queue : {work_queue, done_queue}) {
    Transaction transaction;
    transaction.admin =
        ConfigureQueue{.queue = queue, .settings = {.max_attempts = 0, .backoff = {}}};
    store.apply(transaction).value();
  }
}

}  // namespace

Crew::Crew(const std::string& url, std::uint64_t seed, Size size)
    : url_(url + "?connections=4"), random_(seed), folder_(new_folder()) {
  auto store = open(url_);
  if (!store) throw std::runtime_error("open: " + store.error().message);
  store_ = *std::move(store);
  configure(*store_);
  journal_ = std::make_unique<Journal>(Journal::path_of(folder_, "crew", 1));
  journaled_ = std::make_unique<JournaledStore>(*store_, *journal_, random_.next());
  for (int i = 0; i < size.producers; ++i)
    hire("producer", i);
  for (int i = 0; i < size.consumers; ++i)
    hire("consumer", i);
  for (int i = 0; i < size.hands; ++i)
    hire("hand", i);
  for (Worker& worker : workers_)
    await(worker, "ready");
}

Crew::~Crew() {
  workers_.clear();  // kills those that are still there
  if (!guilty_) fs::remove_all(folder_);
}

void Crew::hire(const std::string& role, int number, const std::string& lie) {
  workers_.push_back({.name = fmt::format("{}{}", role, number), .role = role, .lie = lie});
  start(workers_.back());
}

void Crew::start(Worker& worker) {
  crash::Child::Words command = {std::string(STRAND_BINARY_DIR) + "/strand-postgres-child",
                                 url_,
                                 folder_,
                                 worker.name,
                                 std::to_string(++worker.run),
                                 std::to_string(random_.next()),
                                 worker.role};
  if (!worker.lie.empty()) command.push_back(worker.lie);
  worker.child = std::make_unique<crash::Child>(std::move(command));
}

void Crew::await(Worker& worker, const std::string& word) {
  const auto line = worker.child->line(now() + patience);
  if (line != word) {
    throw std::runtime_error(
        fmt::format("{} said {} instead of {}", worker.name, line.value_or("nothing"), word));
  }
}

void Crew::lie(const std::string& role, const std::string& lie) {
  hire(role, 99, lie);
  await(workers_.back(), "ready");
  await(workers_.back(), "lied");
}

void Crew::kill_one() {
  Worker& victim = workers_[static_cast<std::size_t>(random_.below(workers_.size()))];
  victim.child->signal(SIGKILL);
  const int status = victim.child->wait();
  if (!WIFSIGNALED(status)) {
    throw std::runtime_error(
        fmt::format("{} had ended by itself, with status {}", victim.name, status));
  }
  start(victim);
}

void Crew::wait_for_progress(std::uint64_t acks) {
  const auto acked = [&] { return journaled_->stats(work_queue).value().acked; };
  std::uint64_t seen = acked();
  const std::uint64_t wanted = seen + acks;
  // However slow the machine is, something is acked in that time.
  for (Stamp moved = now(); seen < wanted;) {
    std::this_thread::sleep_for(10ms);
    if (const std::uint64_t more = acked(); more > seen) {
      seen = more;
      moved = now();
    }
    if (now() - moved > patience) throw std::runtime_error("nothing is acked any more");
  }
}

void Crew::wait_for_work(const JointRecord::Totals& least) const {
  for (const Stamp begin = now();;) {
    JointRecord record;
    record.add(whole_record());
    const JointRecord::Totals totals = record.totals();
    if (totals.applied >= least.applied && totals.leased >= least.leased &&
        totals.repeated >= least.repeated) {
      return;
    }
    if (now() - begin > patience) {
      throw std::runtime_error(
          fmt::format("only {} transactions were applied, {} of them more than once, and {} lanes "
                      "leased",
                      totals.applied, totals.repeated, totals.leased));
    }
    std::this_thread::sleep_for(100ms);
  }
}

void Crew::stop(bool producers) {
  for (Worker& worker : workers_) {
    if ((worker.role == "producer") != producers) continue;
    while (worker.child->line(now() + 20ms)) {
    }
    if (!worker.child->over()) worker.child->say("stop\n");
  }
  for (Worker& worker : workers_) {
    if ((worker.role == "producer") != producers) continue;
    while (worker.child->line(now() + patience)) {
    }
    if (!worker.child->over()) throw std::runtime_error(worker.name + " does not stop");
    const int status = worker.child->wait();
    // Who lies may be the first to stumble over it.
    if (status != 0 && worker.lie.empty()) {
      throw std::runtime_error(fmt::format("{} ended with status {}", worker.name, status));
    }
  }
}

std::vector<Entry> Crew::whole_record() const {
  std::vector<Entry> entries;
  for (const auto& file : fs::directory_iterator(folder_)) {
    for (Entry& entry : Journal::read(file.path()))
      entries.push_back(std::move(entry));
  }
  return entries;
}

void Crew::catch_up() { journaled_->catch_up(unanswered(whole_record())); }

// Leases that the dead have left run out meanwhile. Those that a restart has prolonged are not
// waited for; the model counts what they hold as still there.
void Crew::drain() {
  for (const Stamp begin = now();;) {
    const QueueStats stats = journaled_->stats(work_queue).value();
    const bool held = stats.ready + stats.delayed + stats.parked == 0;
    if (stats.live() == 0 || (held && now() - begin > 3s)) return;
    if (now() - begin > patience) throw std::runtime_error("messages stay that nobody can lease");
    LeaseRequest request{.queue = work_queue, .lanes = 100};
    const auto leases = journaled_->lease(request).value();
    for (const Lease& lease : leases) {
      Transaction transaction;
      Settle& settle = transaction.settles.emplace_back();
      settle.token = lease.token;
      for (const Message& message : lease.messages)
        settle.outcomes.push_back({.id = message.id});
      journaled_->apply(transaction).value();
    }
    if (leases.empty()) std::this_thread::sleep_for(10ms);
  }
}

JointRecord::Totals Crew::finish() {
  stop(true);
  stop(false);
  catch_up();
  drain();
  const std::vector<model::Remains> remains = {remains_of(*store_, work_queue),
                                               remains_of(*store_, done_queue)};
  JointRecord record;
  record.add(whole_record());
  guilty_ = true;
  record.check(remains);
  guilty_ = false;
  return record.totals();
}

}  // namespace strand::postgres_faults
