#include <utility>

#include <fmt/format.h>

#include <strand/workflow.h>

#include "workflow/instance.h"

// The door of a workflow: every call goes on to the instance.

namespace strand {

using workflow::CallFor;

Answering::~Answering() {
  if (instance_ != nullptr) instance_->stop_answering(query_);
}

const std::string& Workflow::id() const { return instance_.identity().id; }
const std::string& Workflow::name() const { return instance_.definition().name; }
std::uint32_t Workflow::version() const { return instance_.definition().version; }
std::uint64_t Workflow::execution() const { return instance_.identity().execution; }
bool Workflow::cancel_requested() const { return instance_.cancel_requested(); }
std::uint64_t Workflow::history_length() const { return instance_.length(); }
Time Workflow::now() const { return instance_.now(); }
std::uint64_t Workflow::random() { return instance_.random(); }

std::optional<std::string> Workflow::parent() const {
  const std::string_view parent = instance_.start().detail("parent");
  if (parent.empty()) return std::nullopt;
  return std::string(parent);
}

// Version 4, by RFC 9562.
std::string Workflow::uuid() {
  const std::uint64_t high = (instance_.random() & ~0xf000ULL) | 0x4000ULL;
  const std::uint64_t low = (instance_.random() & ~(3ULL << 62U)) | (2ULL << 62U);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xffffU,
                     high & 0xffffU, low >> 48U, low & 0xffffffffffffULL);
}

Future<void> Workflow::sleep(Duration duration, Where where) {
  return sleep_until(now() + std::max(duration, Duration{0}), where);
}

Future<void> Workflow::sleep_until(Time time, Where where) {
  auto call = std::make_shared<CallFor<void>>(instance_);
  instance_.start_timer(call, time, where);
  return Future<void>(std::move(call));
}

Future<void> Workflow::all_of(const std::vector<Future<void>>& futures, Others others) {
  auto whole = std::make_shared<CallFor<void>>(instance_);
  std::vector<std::shared_ptr<workflow::Call>> parts;
  for (const Future<void>& future : futures)
    parts.push_back(future.call());
  workflow::gather(whole, std::move(parts), others, [whole = whole.get()] { whole->set(); });
  return Future<void>(std::move(whole));
}

Future<void> Workflow::park(const std::string& reason, Where where) {
  auto call = std::make_shared<CallFor<void>>(instance_);
  instance_.park(call, reason, where);
  return Future<void>(std::move(call));
}

bool CheckpointPoint::await_ready() const {
  return !instance_.checkpoint(state_, options_, where_);
}

std::optional<Bytes> Workflow::restored_raw(std::uint32_t version) {
  const auto& restored = instance_.restored();
  if (!restored) return std::nullopt;
  if (restored->version != version) {
    give_up_checkpoint(
        fmt::format("it has version {}, the code reads {}", restored->version, version));
  }
  return restored->state;
}

std::optional<std::uint32_t> Workflow::restored_version() const {
  const auto& restored = instance_.restored();
  if (!restored) return std::nullopt;
  return restored->version;
}

void Workflow::give_up_checkpoint(const std::string& why) {
  instance_.give_up_checkpoint(why);
  throw ApplicationError("unreadable_checkpoint", why);
}

bool Workflow::patched(std::string_view change, Where where) {
  return instance_.patched(change, where);
}

void Workflow::set_status(std::string text) { instance_.set_status(std::move(text)); }
void Workflow::erase(const std::string& key) { instance_.erase(key); }

void Workflow::erase_all() {
  const std::map<std::string, Bytes> all = instance_.state();
  for (const auto& [key, value] : all)
    instance_.erase(key);
}

void Workflow::cancel_other(const std::string& id, Where where) {
  instance_.cancel_other(id, where);
}

void Workflow::call_activity(const std::shared_ptr<workflow::Call>& call,
                             const workflow::ActivityCall& what, Where where) {
  instance_.call_activity(call, what, where);
}

void Workflow::run_local(const std::shared_ptr<workflow::Call>& call,
                         const workflow::ActivityCall& what, Where where) {
  instance_.run_local(call, what, where);
}

void Workflow::spawn_fiber(const std::shared_ptr<workflow::Call>& call, Task<void> task,
                           bool shielded) {
  instance_.spawn(call, std::move(task), shielded);
}

void Workflow::await_event(const std::shared_ptr<workflow::Call>& call, const std::string& name,
                           Where where) {
  instance_.await_event(call, name, where);
}

Answering Workflow::answer_raw(std::string query, std::function<Bytes(std::string_view)> function) {
  instance_.answer(query, std::move(function));
  return {instance_, std::move(query)};
}

void Workflow::start_child(const std::shared_ptr<workflow::Call>& call,
                           const workflow::ChildCall& what, Where where) {
  instance_.start_child(call, what, where);
}

void Workflow::start_other(const std::string& label, const std::string& id, Bytes input,
                           Where where) {
  instance_.start_other(label, id, std::move(input), where);
}

void Workflow::send_event_raw(const std::string& id, const std::string& event, Bytes value,
                              Where where) {
  instance_.send_event(id, event, std::move(value), where);
}

void Workflow::send_raw(std::string queue, Bytes body, SendOptions options, Where where) {
  instance_.send(Producer::to_send(std::move(queue), std::move(body), std::move(options)), where);
}

void Workflow::publish_raw(std::string topic, Bytes body, PublishOptions options, Where where) {
  instance_.publish(Topics::to_publish(std::move(topic), std::move(body), std::move(options)),
                    where);
}

Future<ContinuesAsNew> Workflow::continue_raw(Bytes input, std::optional<std::uint32_t> version,
                                              Where where) {
  instance_.continue_as_new({std::move(input), version}, where);
  return Future<ContinuesAsNew>(std::make_shared<CallFor<ContinuesAsNew>>(instance_));
}

void Workflow::set_raw(const std::string& key, Bytes value) {
  instance_.set(key, std::move(value));
}

std::optional<Bytes> Workflow::get_raw(const std::string& key) const {
  const auto found = instance_.state().find(key);
  if (found == instance_.state().end()) return std::nullopt;
  return found->second;
}

}  // namespace strand
