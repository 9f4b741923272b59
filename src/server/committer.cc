#include "server/committer.h"

#include <iterator>
#include <span>
#include <utility>

#include "base/planted.h"

namespace strand::server {

namespace {

// A batch is not larger than this, so that its first client does not wait for its last one for
// long.
constexpr std::size_t batch_max = 4096;

}  // namespace

Committer::Committer(Store& store, std::size_t threads, std::size_t waiting_max)
    : store_(store), waiting_max_(waiting_max) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

Committer::~Committer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

bool Committer::submit(std::vector<Transaction> transactions, Done done) {
  {
    const std::lock_guard lock(mutex_);
    // One that is larger than all there may be is taken when nothing else waits.
    if (waiting_ > 0 && waiting_ + transactions.size() > waiting_max_) return false;
    waiting_ += transactions.size();
    jobs_.push_back({std::move(transactions), std::move(done)});
  }
  work_.notify_one();
  return true;
}

std::size_t Committer::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

void Committer::work() {
  std::unique_lock lock(mutex_);
  std::vector<Job> jobs;
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::size_t count = 0;
    while (!jobs_.empty() &&
           (count == 0 || count + jobs_.front().transactions.size() <= batch_max)) {
      count += jobs_.front().transactions.size();
      jobs.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    waiting_ -= count;
    lock.unlock();
    commit(jobs);
    jobs.clear();
    lock.lock();
  }
}

void Committer::commit(std::vector<Job>& jobs) {
  if (jobs.size() == 1) {
    jobs.front().done(store_.apply(jobs.front().transactions));
    return;
  }
  std::vector<Transaction> all;
  std::vector<std::size_t> counts;
  for (Job& job : jobs) {
    counts.push_back(job.transactions.size());
    std::ranges::move(job.transactions, std::back_inserter(all));
  }
  auto results = store_.apply(std::span<const Transaction>(all));
  auto next = results.begin();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (STRAND_PLANTED("answers-to-the-wrong-client") && counts[i] == 1 && i + 1 < jobs.size()) {
      std::swap(*next, *std::next(next));
    }
    const auto end = next + static_cast<std::ptrdiff_t>(counts[i]);
    jobs[i].done(Results(std::move_iterator(next), std::move_iterator(end)));
    next = end;
  }
}

}  // namespace strand::server
