#include "store/remote/watch_pipe.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/planted.h"

namespace strand::remote {

namespace {

constexpr Duration pause_min{5};
constexpr Duration pause_max{500};

// Equal for equal targets.
struct NameOf {
  std::string operator()(const WatchQueue& target) const { return "q" + target.queue; }
  std::string operator()(const WatchLane& target) const { return "l" + target.token.to_string(); }
  std::string operator()(const WatchRecord& target) const {
    return "r" + std::to_string(target.space.size()) + ":" + target.space + target.key;
  }
};

struct WriteTarget {
  v1::WatchRequest& to;
  void operator()(const WatchQueue& target) const { to.set_queue(target.queue); }
  void operator()(const WatchLane& target) const { to.set_lane(target.token.to_string()); }
  void operator()(const WatchRecord& target) const {
    to.mutable_record()->set_space(target.space);
    to.mutable_record()->set_key(target.key);
  }
};

struct WakesOf {
  store::Wakes operator()(const WatchQueue& target) const {
    return {.queues = {target.queue}, .lanes = {}, .records = {}};
  }
  store::Wakes operator()(const WatchLane& target) const {
    return {.queues = {}, .lanes = {target.token.epoch()}, .records = {}};
  }
  store::Wakes operator()(const WatchRecord& target) const {
    return {.queues = {}, .lanes = {}, .records = {{target.space, target.key}}};
  }
};

v1::WatchRequest adding(std::uint64_t id, const WatchTarget& target) {
  v1::WatchRequest request;
  request.set_id(id);
  std::visit(WriteTarget{request}, target);
  return request;
}

}  // namespace

// Held while it can be written to, for the same reason as that of ApplyPipe.
class WatchPipe::Stream final : public grpc::ClientBidiReactor<v1::WatchRequest, v1::WatchEvent> {
 public:
  explicit Stream(WatchPipe& pipe) : pipe_(pipe) {
    pipe.connection_.prepare(context_);
    context_.set_wait_for_ready(true);
    pipe.connection_.stub().async()->Watch(&context_, this);
    AddHold();
    StartRead(&event_);
    StartCall();
  }

  // Nothing more can be written.
  [[nodiscard]] bool over() const { return over_; }
  void write(v1::WatchRequest request) {
    request_ = std::move(request);
    StartWrite(&request_);
  }
  void cancel() { context_.TryCancel(); }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(pipe_.mutex_);
    pipe_.writing_ = false;
    if (ok) pipe_.send_next();
  }
  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock(pipe_.mutex_);
      over_ = !ok;
      if (ok) pipe_.happened(event_);
    }
    if (ok) {
      StartRead(&event_);
    } else {
      RemoveHold();  // OnDone follows
    }
  }
  void OnDone(const grpc::Status& /*status*/) override {
    const std::lock_guard lock(pipe_.mutex_);
    pipe_.writing_ = false;
    pipe_.changed_.notify_all();
    pipe_.stream_.reset();  // destroys this
  }

 private:
  WatchPipe& pipe_;
  grpc::ClientContext context_;
  v1::WatchRequest request_;
  v1::WatchEvent event_;
  bool over_ = false;  // under the pipe's lock
};

// The watch of this process, and its share of the server's.
class WatchPipe::Registered final : public Watch::Registration {
 public:
  Registered(WatchPipe& pipe, std::string name, Watch watch)
      : pipe_(pipe), name_(std::move(name)), watch_(std::move(watch)) {}
  ~Registered() override {
    watch_.reset();
    pipe_.release(name_);
  }

 private:
  WatchPipe& pipe_;
  std::string name_;
  Watch watch_;
};

WatchPipe::WatchPipe(Connection& connection) : connection_(connection) {}

WatchPipe::~WatchPipe() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  if (stream_) stream_->cancel();
  changed_.notify_all();
  changed_.wait(lock, [&] { return !stream_; });
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

Watch WatchPipe::watch(WatchTarget target, std::function<void()> callback) {
  std::string name = std::visit(NameOf{}, target);
  Watch watch = watches_.add(target, std::move(callback));
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  if (entry.watches++ == 0) {
    entry.id = ++last_id_;
    entry.target = target;
    by_id_.emplace(entry.id, name);
    if (stream_) outgoing_.push_back(adding(entry.id, entry.target));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
    send_next();
  } else {
    // The server's watch may not be in place yet, or on its way; its next event may be for others.
    wake(target);
  }
  return Watch(std::make_unique<Registered>(*this, std::move(name), std::move(watch)));
}

void WatchPipe::release(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (--found->second.watches > 0) return;
  v1::WatchRequest request;
  request.set_id(found->second.id);
  request.set_remove(true);
  if (stream_) outgoing_.push_back(std::move(request));
  by_id_.erase(found->second.id);
  entries_.erase(found);
  send_next();
}

void WatchPipe::send_next() {
  if (!stream_ || stream_->over() || writing_ || outgoing_.empty()) return;
  writing_ = true;
  v1::WatchRequest next = std::move(outgoing_.front());
  outgoing_.pop_front();
  stream_->write(std::move(next));
}

void WatchPipe::happened(const v1::WatchEvent& event) {
  pause_ = Duration{0};
  for (const std::uint64_t id : event.ids()) {
    const auto name = by_id_.find(id);
    if (name == by_id_.end()) continue;
    wake(entries_.at(name->second).target);
  }
}

void WatchPipe::wake(const WatchTarget& target) { watches_.wake(std::visit(WakesOf{}, target)); }

void WatchPipe::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (stream_ || entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const bool forget = STRAND_PLANTED("watches-end-with-their-connection") && pause_ > Duration{0};
    outgoing_.clear();
    for (const auto& [name, entry] : entries_) {
      if (!forget) outgoing_.push_back(adding(entry.id, entry.target));
    }
    stream_ = std::make_unique<Stream>(*this);
    send_next();
    changed_.wait(lock, [&] { return !stream_ || stopping_; });
    pause_ = std::clamp(pause_ * 2, pause_min, pause_max);
    changed_.wait_for(lock, pause_, [&] { return stopping_; });
  }
}

}  // namespace strand::remote
