#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

namespace strand::crash {

// What the killed processes said, and so what a store must hold. See load.h for the lines.
class Ledger {
 public:
  // One line of the process of this run.
  void hear(const std::string& line);

  // Compares a store with it, and takes over what the store decided about intentions without a
  // confirmation. Returns what is wrong; nothing if all is well. Ends the run.
  std::vector<std::string> compare(Store& store);

  [[nodiscard]] std::uint64_t confirmed() const { return confirmed_; }

 private:
  enum class Told : std::uint8_t { no, intended, confirmed };
  struct Message {
    Told sent = Told::no;
    Told moved = Told::no;
    Told finished = Told::no;
  };
  using Lane = std::map<std::uint64_t, Message>;  // by sequence number
  struct Found {
    std::map<std::string, std::vector<std::uint64_t>> in;
    std::map<std::string, std::vector<std::uint64_t>> out;
  };

  void hear_lease(const std::vector<std::string>& words);
  void complain(std::string what) { wrong_.push_back(std::move(what)); }
  void compare_lane(const std::string& key, Lane& lane, const std::vector<std::uint64_t>& in,
                    const std::vector<std::uint64_t>& out);
  void compare_message(const std::string& key, std::uint64_t sequence, Message& message,
                       std::size_t in, std::size_t out);
  void compare_record(Store& store, const std::string& key, const std::vector<std::uint64_t>& in,
                      const std::vector<std::uint64_t>& out);
  std::map<std::string, std::vector<std::uint64_t>> read_queue(Store& store, const char* queue);

  std::map<std::string, Lane> lanes_;
  std::set<std::uint64_t> epochs_;  // of this run
  std::uint64_t last_epoch_ = 0;    // of all runs before
  std::vector<std::string> wrong_;
  std::uint64_t confirmed_ = 0;
};

}  // namespace strand::crash
