#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/strand.h>

// What the scenes stand on: a store, a clock, and a few words for what one does with them.

namespace demo {

// Thrown when the demo is not what it says: a claim does not hold, or a call fails that must not.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Tells one line of the story.
void say(std::string_view line);
// Tells what has just been shown, if it was.
void claim(bool holds, std::string_view what);

// The value of a call that must succeed.
template <class T>
T need(strand::Result<T> result) {
  if (!result) throw Broken(result.error().message);
  return *std::move(result);
}

// Another process. It is there from the start and waits for its scene, because a program must not
// be forked once it has threads.
class OtherProcess {
 public:
  // What it will do with the store that it is told, opened for it.
  explicit OtherProcess(void (*scene)(strand::Store& store));
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess();

  // Lets it play, and waits for its end: the status that waitpid tells.
  int play(const std::string& url, strand::Time time);

 private:
  int pipe_ = -1;
  int id_ = -1;
};

// The store of all scenes, in a folder that goes with it. Its clock is moved by hand, so that a
// minute passes at once.
class Stage {
 public:
  Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage();

  [[nodiscard]] std::string url() const { return "rocksdb:" + (folder_ / "store").native(); }
  [[nodiscard]] strand::Store& store() { return *store_; }
  [[nodiscard]] strand::Time time() const { return clock_->wall(); }
  void let_pass(strand::Duration time) { clock_->advance(time); }
  void close() { store_.reset(); }
  void open();

 private:
  std::filesystem::path folder_;
  std::shared_ptr<strand::ManualClock> clock_;
  std::unique_ptr<strand::Store> store_;
};

// A message for a lane.
strand::Send message(std::string queue, std::string key, std::string body);
void send(strand::Store& store, std::vector<strand::Send> messages);

// The lease of a lane that is ready.
strand::Lease lease(strand::Store& store, std::string queue, std::string key);
// Whether anyone could lease it now.
bool ready(strand::Store& store, std::string queue, std::string key);

// One outcome for these messages of a lease, which then ends; the others are given back.
strand::Settle settle(const strand::Token& token, const std::vector<strand::Message>& messages,
                      strand::Outcome::Kind kind, const std::string& reason = "");
strand::Result<strand::Receipt> ack(strand::Store& store, const strand::Lease& lease);
void administer(strand::Store& store, strand::Administration operation);

// "pay, pack" and "epoch 7", for the story.
std::string bodies(const strand::Lease& lease);
std::string epoch(const strand::Lease& lease);

}  // namespace demo
