#include "store/remote/apply_pipe.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/contract/check.h"
#include "store/remote/convert.h"
#include "store/remote/unlimited.h"

namespace strand::remote {

namespace {

constexpr std::size_t batch_bytes_max = std::size_t{4} << 20U;
constexpr std::size_t batch_transactions_max = 4096;
constexpr std::size_t worthwhile_bytes = std::size_t{8} << 10U;
constexpr Duration pause_min{5};
constexpr Duration pause_max{500};

bool is_text(const std::optional<Address>& address) {
  return !address || base::is_utf8(address->queue);
}

// Whether the names that an operation has are text.
struct AdminTravels {
  template <class Operation>
  bool operator()(const Operation& operation) const {
    return base::is_utf8(operation.queue);
  }
  bool operator()(const ConfigureQueue& operation) const {
    return base::is_utf8(operation.queue) && is_text(operation.settings.dead_notice_to);
  }
  bool operator()(const Redrive& operation) const {
    return base::is_utf8(operation.queue) && (!operation.to || base::is_utf8(*operation.to));
  }
  bool operator()(const Subscribe& operation) const {
    return base::is_utf8(operation.queue) && base::is_utf8(operation.pattern);
  }
  bool operator()(const ConfigureTopic& operation) const { return base::is_utf8(operation.topic); }
};

// The same for all that travels as text.
bool can_travel(const Transaction& transaction) {
  const auto all = [](const auto& parts, auto travels) {
    return std::ranges::all_of(parts, travels);
  };
  return all(transaction.settles,
             [](const Settle& settle) {
               return (!settle.label || base::is_utf8(*settle.label)) &&
                      (!settle.owner_hint || base::is_utf8(settle.owner_hint->owner));
             }) &&
         all(transaction.cancels,
             [](const Cancel& cancel) { return base::is_utf8(cancel.queue); }) &&
         all(transaction.sends,
             [](const Send& send) {
               return base::is_utf8(send.queue) && base::is_utf8(send.label) &&
                      is_text(send.dead_notice_to);
             }) &&
         all(transaction.publishes,
             [](const Publish& publish) { return base::is_utf8(publish.topic); }) &&
         (!transaction.admin || std::visit(AdminTravels{}, *transaction.admin));
}

}  // namespace

// What one thread waits for: as much as fits into one request, so that its order is that of the
// request.
struct ApplyPipe::Job {
  std::vector<v1::Transaction> transactions;
  std::vector<std::size_t> places;  // of the results, in those of the call
  std::size_t bytes = 0;
  // Guarded by the lock of the pipe.
  bool sent = false;      // has left
  bool repeated = false;  // was sent more than once, or will be

  // A lock of its own, so that who was answered does not queue up with those who send.
  std::mutex mutex;  // for what follows
  std::vector<Result<Receipt>> results;
  bool done = false;
  bool poked = false;  // the stream is over: look whether there is something to do
  std::condition_variable changed;

  void finish(std::vector<Result<Receipt>> answer) {
    {
      const std::lock_guard lock(mutex);
      if (done) return;  // given up
      results = std::move(answer);
      done = true;
    }
    changed.notify_one();
  }
  void poke() {
    {
      const std::lock_guard lock(mutex);
      poked = true;
    }
    changed.notify_one();
  }
};

struct ApplyPipe::Request {
  struct Part {
    std::shared_ptr<Job> job;  // none: nobody waits for it any more
    std::size_t count = 0;
  };
  v1::ApplyRequest request;
  std::vector<Part> parts;
  bool sent = false;  // on any stream
};

// One stream, from its beginning to its end. Calls the pipe under its lock.
//
// Writes begin in any thread, so the stream is held: gRPC would otherwise be done with it, and call
// OnDone, while one of them begins. A read is always under way; when it fails, the stream is over,
// nothing more is written, and the hold ends.
class ApplyPipe::Stream final
    : public grpc::ClientBidiReactor<v1::ApplyRequest, v1::ApplyResponse> {
 public:
  explicit Stream(ApplyPipe& pipe) : pipe_(pipe) {
    pipe.connection_.prepare(context_);
    context_.set_wait_for_ready(true);
    pipe.connection_.stub().async()->ApplyStream(&context_, this);
    AddHold();
    StartRead(&response_);
    StartCall();
  }

  // Nothing more can be written.
  [[nodiscard]] bool over() const { return over_; }
  void write(const v1::ApplyRequest& request) { StartWrite(&request); }
  void cancel() { context_.TryCancel(); }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(pipe_.mutex_);
    pipe_.writing_ = false;
    if (ok) pipe_.send_next();
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        const std::lock_guard lock(pipe_.mutex_);
        over_ = true;
      }
      RemoveHold();  // OnDone follows
      return;
    }
    const v1::ApplyResponse response = std::move(response_);
    // The next answer may come while this one is handed out.
    response_.Clear();
    StartRead(&response_);
    pipe_.answered(response);
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(pipe_.mutex_);
    if (const auto said = said_by_server(status, context_)) {
      pipe_.fail_all(*said, context_.GetServerTrailingMetadata().contains(error_key));
    }
    pipe_.ended_.notify_all();
    pipe_.begin_again();  // destroys this
  }

 private:
  ApplyPipe& pipe_;
  grpc::ClientContext context_;
  v1::ApplyResponse response_;
  bool over_ = false;  // under the pipe's lock
};

ApplyPipe::ApplyPipe(Connection& connection) : connection_(connection) {
  std::random_device random;
  client_ = std::uint64_t{random()} << 32U | random();
}

ApplyPipe::~ApplyPipe() {
  std::unique_lock lock(mutex_);
  if (stream_) stream_->cancel();
  ended_.wait(lock, [&] { return !stream_; });
}

TransactionId ApplyPipe::new_id(Time now) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = numbers_.next++;
  numbers_.unanswered.insert(number);
  return {.client = client_,
          .number = number,
          .time = now,
          .lowest_unanswered = STRAND_PLANTED("lowest-unanswered-is-the-highest")
                                   ? *numbers_.unanswered.rbegin()
                                   : *numbers_.unanswered.begin()};
}

// Whether who made the id says that there are answers to what the job holds. That is true only when
// the job has been answered: until then its receipts are needed, should it be sent again.
bool ApplyPipe::says_answered(const Job& job, const v1::TransactionId& id) {
  return std::ranges::any_of(job.transactions, [&](const v1::Transaction& one) {
    return one.id().client() == id.client() && one.id().number() < id.lowest_unanswered();
  });
}

std::vector<Result<Receipt>> ApplyPipe::apply(std::span<const Transaction> transactions) {
  std::vector<Result<Receipt>> results(transactions.size(), failure(Errc::unavailable, ""));
  std::vector<std::size_t> wanted(transactions.size());
  std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  // A second round only for ids that were too old when they were made.
  for (int round = 0; round < 2 && !wanted.empty(); ++round) {
    std::vector<std::size_t> too_old;
    std::shared_ptr<Job> job;
    const auto flush = [&] {
      if (!job) return;
      run(job);
      for (std::size_t k = 0; k < job->places.size(); ++k) {
        auto& result = job->results[k];
        const std::size_t place = job->places[k];
        // The estimate of the server's time was wrong, because its clock has leapt. Nothing was
        // done.
        if (!result && result.error().code == Errc::transaction_expired &&
            !transactions[place].id && !job->repeated) {
          too_old.push_back(place);
        }
        results[place] = std::move(result);
      }
      job.reset();
    };
    for (const std::size_t place : wanted) {
      auto one = wire_form(transactions[place]);
      if (!one) {
        results[place] = std::unexpected(std::move(one).error());
        continue;
      }
      const std::size_t bytes = one->ByteSizeLong();
      if (job && transactions[place].id && says_answered(*job, one->id())) flush();
      if (job &&
          (job->bytes + bytes > batch_bytes_max || job->places.size() == batch_transactions_max)) {
        flush();
      }
      if (!job) job = std::make_shared<Job>();
      job->bytes += bytes;
      job->transactions.push_back(*std::move(one));
      job->places.push_back(place);
    }
    flush();
    wanted = std::move(too_old);
    if (!wanted.empty() && !connection_.ask_now()) break;
  }
  return results;
}

Result<v1::Transaction> ApplyPipe::wire_form(const Transaction& transaction) {
  // Text that is not UTF-8 cannot travel. Whatever else is wrong is the server's to judge.
  if (!can_travel(transaction)) {
    if (auto checked = check_transaction(transaction, unlimited()); !checked) {
      return std::unexpected(std::move(checked).error());
    }
    return failure(Errc::invalid_argument, "a name in the transaction is not UTF-8 text");
  }
  v1::Transaction one;
  write(transaction, one);
  if (const std::size_t bytes = one.ByteSizeLong(); bytes > request_bytes_max) {
    return failure(Errc::transaction_too_large,
                   fmt::format("the transaction has {} bytes as it is sent, and {} fit into a "
                               "request; split it",
                               bytes, request_bytes_max));
  }
  if (!transaction.id) {
    const TransactionId id = new_id(connection_.now());
    one.mutable_id()->set_client(id.client);
    one.mutable_id()->set_number(id.number);
    one.mutable_id()->set_time_ms(id.time.time_since_epoch().count());
    one.mutable_id()->set_lowest_unanswered(id.lowest_unanswered);
  }
  return one;
}

void ApplyPipe::run(const std::shared_ptr<Job>& job) {
  const auto until = Steady::now() + connection_.patience().call;
  auto look_at = until;
  {
    const std::lock_guard lock(mutex_);
    gathered_.push_back(job);
    send_next();
    if (!stream_) look_at = std::min(until, reopen_at_);
  }
  while (true) {
    {
      std::unique_lock lock(job->mutex);
      job->changed.wait_until(lock, look_at, [&] { return job->done || job->poked; });
      if (job->done) return;
      job->poked = false;
    }
    const std::lock_guard lock(mutex_);
    if (Steady::now() >= until) {
      give_up(*job);
      return;
    }
    if (!stream_ && Steady::now() >= reopen_at_) open_stream();
    look_at = stream_ ? until : std::min(until, reopen_at_);
  }
}

// One request is what the server commits. A second one may wait there for its turn if it is worth
// it: small ones would cost both sides more than they gain.
bool ApplyPipe::may_send_more() const {
  if (gathered_.empty()) return false;
  if (requests_.empty()) return true;
  if (requests_.size() > 1) return false;
  const auto before =
      static_cast<std::size_t>(requests_.begin()->second->request.transactions_size());
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const auto& job : gathered_) {
    count += job->transactions.size();
    bytes += job->bytes;
    if (count >= before || bytes >= worthwhile_bytes) return true;
  }
  return false;
}

void ApplyPipe::send_next() {
  if (!stream_) {
    if (!gathered_.empty() && Steady::now() >= reopen_at_) open_stream();
    return;
  }
  if (writing_ || stream_->over()) return;
  if (unsent_.empty() && may_send_more()) {
    auto next = std::make_unique<Request>();
    next->request.set_sequence(++last_sequence_);
    std::size_t bytes = 0;
    while (!gathered_.empty()) {
      Job& job = *gathered_.front();
      const auto count = static_cast<std::size_t>(next->request.transactions_size());
      if (count > 0 && (bytes + job.bytes > batch_bytes_max ||
                        count + job.transactions.size() > batch_transactions_max)) {
        break;
      }
      bytes += job.bytes;
      next->parts.push_back({gathered_.front(), job.transactions.size()});
      for (v1::Transaction& one : job.transactions)
        next->request.mutable_transactions()->Add(std::move(one));
      job.transactions.clear();
      gathered_.pop_front();
    }
    unsent_.push_back(last_sequence_);
    requests_.emplace(last_sequence_, std::move(next));
  }
  if (unsent_.empty()) return;
  const auto found = requests_.find(unsent_.front());
  unsent_.pop_front();
  Request& request = *found->second;
  for (const Request::Part& part : request.parts) {
    if (part.job) part.job->sent = true;
  }
  request.sent = true;
  writing_ = true;
  stream_->write(request.request);
}

void ApplyPipe::open_stream() {
  forget_given_up();
  unsent_.clear();
  for (const auto& [sequence, request] : requests_) {
    unsent_.push_back(sequence);
    if (!request->sent) continue;
    if (STRAND_PLANTED("repeats-get-new-ids")) {
      for (v1::Transaction& one : *request->request.mutable_transactions())
        one.mutable_id()->set_number(numbers_.next++);
    }
    for (const Request::Part& part : request->parts) {
      if (part.job) part.job->repeated = true;
    }
  }
  writing_ = false;
  stream_ = std::make_unique<Stream>(*this);
  send_next();
}

void ApplyPipe::begin_again() {
  stream_.reset();
  writing_ = false;
  pause_ = std::clamp(pause_ * 2, pause_min, pause_max);
  reopen_at_ = Steady::now() + pause_;
  // Those who wait open the next one. All are woken, because any may have given up meanwhile.
  for (const auto& [sequence, request] : requests_) {
    for (const Request::Part& part : request->parts) {
      if (part.job) part.job->poke();
    }
  }
  for (const auto& job : gathered_)
    job->poke();
}

void ApplyPipe::answered(const v1::ApplyResponse& response) {
  connection_.note_now(Time{Duration{response.now_ms()}});
  std::unique_ptr<Request> request;
  {
    const std::lock_guard lock(mutex_);
    pause_ = Duration{0};
    const auto found = requests_.find(response.sequence());
    if (found == requests_.end()) return;
    request = std::move(found->second);
    requests_.erase(found);
    for (const v1::Transaction& one : request->request.transactions()) {
      if (one.id().client() == client_) numbers_.unanswered.erase(one.id().number());
    }
    send_next();
  }
  int index = 0;
  for (const Request::Part& part : request->parts) {
    if (!part.job) {
      index += static_cast<int>(part.count);
      continue;
    }
    std::vector<Result<Receipt>> results;
    results.reserve(part.count);
    for (std::size_t i = 0; i < part.count; ++i, ++index) {
      results.push_back(
          index < response.results_size()
              ? read_result(response.results(index))
              : failure(Errc::unknown_outcome, "the server's answer has too few results"));
      const bool ours = request->request.transactions(index).id().client() == client_;
      if (part.job->repeated) doubt(results.back(), ours);
    }
    part.job->finish(std::move(results));
  }
}

// The first two are said before the store is asked, which would have known the id: of an earlier
// attempt they say nothing. Nor does a store that has forgotten an id of ours; who has made one
// himself is told just that.
void ApplyPipe::doubt(Result<Receipt>& result, bool our_id) {
  if (result) return;
  Errc& code = result.error().code;
  if (code == Errc::unavailable || code == Errc::forbidden ||
      (our_id && code == Errc::transaction_expired)) {
    code = Errc::unknown_outcome;
  }
}

void ApplyPipe::give_up(Job& job) {
  std::erase_if(gathered_, [&](const auto& other) { return other.get() == &job; });
  for (const v1::Transaction& one : job.transactions) {
    if (one.id().client() == client_) numbers_.unanswered.erase(one.id().number());
  }
  for (auto& [sequence, request] : requests_) {
    for (Request::Part& part : request->parts) {
      if (part.job.get() == &job) part.job.reset();
    }
  }
  // What waits on a stream that finds no server would be done whenever one comes.
  if (stream_ && gathered_.empty() && !requests_.empty() &&
      std::ranges::none_of(requests_, [](const auto& one) { return is_awaited(*one.second); })) {
    stream_->cancel();
  }
  const Error error =
      job.sent && !STRAND_PLANTED("doubt-is-called-unavailable")
          ? Error{Errc::unknown_outcome,
                  fmt::format("the server at {} did not answer within {} ms, so it is not "
                              "known whether the transaction was applied",
                              connection_.address(), connection_.patience().call.count())}
          : Error{Errc::unavailable,
                  fmt::format("the server at {} could not be reached within {} ms; the "
                              "transaction was not sent",
                              connection_.address(), connection_.patience().call.count())};
  job.finish(std::vector<Result<Receipt>>(job.places.size(), std::unexpected(error)));
}

bool ApplyPipe::is_awaited(const Request& request) {
  return std::ranges::any_of(request.parts,
                             [](const Request::Part& part) { return part.job != nullptr; });
}

// What nobody waits for any more is not sent again: it would be done long after its caller was told
// that it could not be reached. The server refuses it from now on, should it still be on its way.
void ApplyPipe::forget_given_up() {
  std::erase_if(requests_, [&](const auto& one) {
    if (is_awaited(*one.second)) return false;
    for (const v1::Transaction& transaction : one.second->request.transactions()) {
      if (transaction.id().client() == client_) {
        numbers_.unanswered.erase(transaction.id().number());
      }
    }
    return true;
  });
}

// The server refused the stream as a whole: who calls may not, or its limits are lower than ours.
// If the store's service said so, it has answered before what it had begun; gRPC does not.
void ApplyPipe::fail_all(const Error& error, bool answered_others) {
  const bool in_doubt = !answered_others && requests_.size() > 1;
  const auto fail = [&](Job& job) {
    // What was sent on an earlier stream may have been done.
    const bool unknown = job.repeated || (in_doubt && job.sent);
    job.finish(std::vector<Result<Receipt>>(
        job.places.size(),
        std::unexpected(unknown ? Error{Errc::unknown_outcome, error.message} : error)));
  };
  for (const auto& [sequence, request] : requests_) {
    for (const v1::Transaction& one : request->request.transactions()) {
      if (one.id().client() == client_) numbers_.unanswered.erase(one.id().number());
    }
    for (const Request::Part& part : request->parts) {
      if (part.job) fail(*part.job);
    }
  }
  for (const auto& job : gathered_)
    fail(*job);
  requests_.clear();
  unsent_.clear();
  gathered_.clear();
}

}  // namespace strand::remote
