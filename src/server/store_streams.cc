// The streams of StoreService.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/planted.h"
#include "server/apply_batch.h"
#include "server/permits.h"
#include "server/store_call.h"
#include "store/remote/convert.h"

namespace strand::server {

namespace {

// Not an error of the store: a client that sees it connects again.
grpc::Status going_away() { return {grpc::StatusCode::UNAVAILABLE, "the server is shutting down"}; }

Error too_many() {
  return {Errc::limit_exceeded,
          "the server has as many streams open as it may have (grpc.streams); use fewer store "
          "handles, or try later"};
}

// A stream that was refused before it began.
template <class Request, class Response>
class Refused final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit Refused(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }  // NOLINT(cppcoreguidelines-owning-memory)
};

}  // namespace

void StoreService::opened(OpenStream* stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.insert(stream);
}

void StoreService::closed(OpenStream* stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.erase(stream);
}

std::size_t StoreService::open_streams() const {
  const std::lock_guard lock(streams_mutex_);
  return streams_.size();
}

void StoreService::drain() {
  draining_ = true;
  waiters_.drain();
  // A stream is in the set until gRPC is done with it, and leaves it under this lock.
  const std::lock_guard lock(streams_mutex_);
  for (OpenStream* stream : streams_)
    stream->drain();
}

// --- Transactions ---

// Owns itself until gRPC is done with it, and all that it has given to the committer is answered.
class StoreService::ApplyingStream final
    : public grpc::ServerBidiReactor<v1::ApplyRequest, v1::ApplyResponse>,
      public OpenStream,
      public std::enable_shared_from_this<ApplyingStream> {
 public:
  ApplyingStream(StoreService& service, Call call, PermitPointer permit)
      : service_(service),
        call_(std::move(call)),
        permit_(std::move(permit)),
        generation_(service.access_.generation()) {}

  static ApplyingStream* begin(StoreService& service, Call call, PermitPointer permit) {
    const auto self = std::make_shared<ApplyingStream>(service, std::move(call), std::move(permit));
    self->self_ = self;
    service.opened(self.get());
    self->StartRead(&self->request_);
    if (service.draining_.load()) self->drain();
    return self.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Nothing more will come; what came is answered.
      const std::lock_guard lock(mutex_);
      ended_ = true;
      finish_if_done();
      return;
    }
    if (auto admitted = renew_permit(); !admitted) {
      const std::lock_guard lock(mutex_);
      refuse(admitted.error());
      return;
    }
    const std::uint64_t sequence = request_.sequence();
    auto batch = std::make_shared<ApplyBatch>(request_, *permit_, std::nullopt);
    auto transactions = batch->take();
    const std::size_t count = transactions.size();
    {
      const std::lock_guard lock(mutex_);
      ++in_flight_;
      reading_ = false;
    }
    const auto self = shared_from_this();
    const bool taken =
        service_.committer_.submit(std::move(transactions), [self, batch, sequence](auto results) {
          self->answer(*batch, sequence, std::move(results));
        });
    if (!taken) {
      answer(*batch, sequence,
             Committer::Results(count, failure(Errc::unavailable,
                                               "the server has too much to do at the moment, and "
                                               "has not begun with this; try again")));
    }
    const std::lock_guard lock(mutex_);
    read_on();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      outgoing_.clear();
    } else {
      outgoing_.pop_front();
      write_next();
    }
    read_on();
    finish_if_done();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    call_.report("ok");
    service_.closed(this);
    const auto self = std::move(self_);
  }

  void drain() override {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    finish_if_done();
  }

 private:
  // Tokens may have been taken away since the stream began.
  Result<void> renew_permit() {
    const std::uint64_t generation = service_.access_.generation();
    if (generation == generation_) return {};
    auto permit = call_.admit();
    if (!permit) return std::unexpected(std::move(permit).error());
    permit_ = *std::move(permit);
    generation_ = generation;
    return {};
  }

  void answer(const ApplyBatch& batch, std::uint64_t sequence, Committer::Results results) {
    v1::ApplyResponse response;
    response.set_sequence(sequence);
    batch.write(std::move(results), response);
    response.set_now_ms(service_.store_.now().time_since_epoch().count());
    const std::lock_guard lock(mutex_);
    --in_flight_;
    if (!finished_) {
      outgoing_.push_back(std::move(response));
      write_next();
    }
    finish_if_done();
  }

  // The next request, unless there are too many without an answer, or answers that nobody takes.
  void read_on() {
    if (reading_ || ended_ || draining_ || finished_) return;
    if (in_flight_ + outgoing_.size() >= service_.options_.requests_in_flight_max) return;
    reading_ = true;
    request_.Clear();
    StartRead(&request_);
  }

  void write_next() {
    if (writing_ || finished_ || outgoing_.empty()) return;
    writing_ = true;
    StartWrite(&outgoing_.front());
  }

  void refuse(const Error& error) {
    if (finished_) return;
    finished_ = true;
    Finish(call_.finished(std::unexpected(error), false));
  }

  void finish_if_done() {
    if (finished_ || !(ended_ || draining_) || in_flight_ > 0 || writing_ || !outgoing_.empty()) {
      return;
    }
    finished_ = true;
    Finish(ended_ ? grpc::Status::OK : going_away());
  }

  StoreService& service_;
  Call call_;
  PermitPointer permit_;
  std::uint64_t generation_;
  v1::ApplyRequest request_;
  std::shared_ptr<ApplyingStream> self_;

  std::mutex mutex_;  // for what follows
  std::deque<v1::ApplyResponse> outgoing_;
  std::size_t in_flight_ = 0;
  bool reading_ = true;
  bool writing_ = false;
  bool ended_ = false;
  bool draining_ = false;
  bool finished_ = false;
};

grpc::ServerBidiReactor<v1::ApplyRequest, v1::ApplyResponse>* StoreService::ApplyStream(
    grpc::CallbackServerContext* context) {
  Call call(*this, context, "ApplyStream");
  auto permit = call.admit();
  if (!permit) {
    return new Refused<v1::ApplyRequest, v1::ApplyResponse>(
        call.finished(std::unexpected(permit.error()), false));
  }
  if (!may_open()) {
    return new Refused<v1::ApplyRequest, v1::ApplyResponse>(
        call.finished(std::unexpected(too_many())));
  }
  return ApplyingStream::begin(*this, std::move(call), *std::move(permit));
}

// --- Watches ---

class StoreService::WatchingStream final
    : public grpc::ServerBidiReactor<v1::WatchRequest, v1::WatchEvent>,
      public OpenStream,
      public std::enable_shared_from_this<WatchingStream> {
 public:
  WatchingStream(StoreService& service, Call call, PermitPointer permit)
      : service_(service),
        call_(std::move(call)),
        permit_(std::move(permit)),
        generation_(service.access_.generation()) {}

  static WatchingStream* begin(StoreService& service, Call call, PermitPointer permit) {
    const auto self = std::make_shared<WatchingStream>(service, std::move(call), std::move(permit));
    self->self_ = self;
    service.opened(self.get());
    self->StartRead(&self->request_);
    if (service.draining_.load()) self->drain();
    return self.get();
  }

  void OnReadDone(bool ok) override {
    const auto self = shared_from_this();
    if (!ok) {
      finish(grpc::Status::OK);
      return;
    }
    // Not here: a store may have to wait before it can watch.
    service_.executor_.run_always([self] { self->handle(); });
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) return;
    write_next();
    read_on();
  }

  void OnCancel() override { finish(grpc::Status::CANCELLED); }

  void OnDone() override {
    call_.report("ok");
    service_.closed(this);
    // The watches wait for callbacks that are running, so not here.
    service_.executor_.run_always([self = std::move(self_)] {
      // The last request may still be handled by another thread.
      const std::lock_guard lock(self->watches_mutex_);
      self->over_ = true;
      self->watches_.clear();
    });
  }

  void drain() override { finish(going_away()); }

 private:
  void handle() {
    const std::lock_guard watches_lock(watches_mutex_);
    if (over_) return;
    const std::uint64_t id = request_.id();
    if (request_.what_case() == v1::WatchRequest::kRemove) {
      watches_.erase(id);
    } else if (auto added = add(id); !added) {
      const std::lock_guard lock(mutex_);
      errors_.emplace_back(id, std::move(added).error());
      write_next();
    } else {
      happened(id);  // it is in place
    }
    const std::lock_guard lock(mutex_);
    reading_ = false;
    read_on();
  }

  // The next request, unless there are too many errors that nobody takes.
  void read_on() {
    if (reading_ || finished_) return;
    const bool full = errors_.size() >= service_.options_.requests_in_flight_max;
    if (full && !STRAND_PLANTED("unread-refusals-pile-up")) return;
    reading_ = true;
    request_.Clear();
    StartRead(&request_);
  }

  Result<void> add(std::uint64_t id) {
    WatchTarget target;
    switch (request_.what_case()) {
      case v1::WatchRequest::kQueue:
        target = WatchQueue{request_.queue()};
        break;
      case v1::WatchRequest::kLane: {
        const auto token = Token::parse(request_.lane());
        if (!token) return std::unexpected(token.error());
        target = WatchLane{*token};
        break;
      }
      case v1::WatchRequest::kRecord:
        target = WatchRecord{.space = request_.record().space(), .key = request_.record().key()};
        break;
      default:
        return failure(Errc::invalid_argument, "the request says neither what to watch nor remove");
    }
    if (const std::uint64_t now = service_.access_.generation(); now != generation_) {
      auto permit = call_.admit();
      if (!permit) return std::unexpected(std::move(permit).error());
      permit_ = *std::move(permit);
      generation_ = now;
    }
    if (auto permitted = permit_watch(*permit_, target); !permitted) return permitted;
    if (watches_.size() >= service_.options_.watches_max && !watches_.contains(id)) {
      return failure(Errc::limit_exceeded,
                     fmt::format("the stream has {} watches, its limit; remove some, or open "
                                 "another stream",
                                 watches_.size()));
    }
    watches_.insert_or_assign(
        id, service_.store_.watch(std::move(target), [weak = weak_from_this(), id] {
          if (const auto self = weak.lock()) self->happened(id);
        }));
    return {};
  }

  void happened(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    if (finished_ || STRAND_PLANTED("watches-tell-nothing")) return;
    pending_.insert(id);
    write_next();
  }

  void write_next() {
    if (writing_ || finished_) return;
    event_.Clear();
    if (!errors_.empty()) {
      event_.add_ids(errors_.front().first);
      remote::write(errors_.front().second, *event_.mutable_error());
      errors_.pop_front();
    } else if (!pending_.empty()) {
      for (const std::uint64_t id : pending_)
        event_.add_ids(id);
      pending_.clear();
    } else {
      return;
    }
    writing_ = true;
    StartWrite(&event_);
  }

  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }

  StoreService& service_;
  Call call_;
  PermitPointer permit_;
  std::uint64_t generation_;
  v1::WatchRequest request_;
  std::shared_ptr<WatchingStream> self_;

  std::mutex watches_mutex_;  // for what follows; held while watches wait for their callbacks
  std::map<std::uint64_t, strand::Watch> watches_;
  bool over_ = false;

  std::mutex mutex_;  // for what follows
  std::set<std::uint64_t> pending_;
  std::deque<std::pair<std::uint64_t, Error>> errors_;
  v1::WatchEvent event_;
  bool reading_ = true;
  bool writing_ = false;
  bool finished_ = false;
};

grpc::ServerBidiReactor<v1::WatchRequest, v1::WatchEvent>* StoreService::Watch(
    grpc::CallbackServerContext* context) {
  Call call(*this, context, "Watch");
  auto permit = call.admit();
  if (!permit) {
    return new Refused<v1::WatchRequest, v1::WatchEvent>(
        call.finished(std::unexpected(permit.error()), false));
  }
  if (!may_open()) {
    return new Refused<v1::WatchRequest, v1::WatchEvent>(
        call.finished(std::unexpected(too_many())));
  }
  return WatchingStream::begin(*this, std::move(call), *std::move(permit));
}

}  // namespace strand::server
