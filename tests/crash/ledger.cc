#include "crash/ledger.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace strand::crash {

namespace {

std::uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

}  // namespace

void Ledger::hear(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(std::move(word));
  if (words.empty() || words[0] == "R") return;
  if (words[0] == "L" && words.size() >= 4) return hear_lease(words);
  if (words[0].size() != 1 || words.size() != 3) {
    return complain(fmt::format("the process said \"{}\"", line));
  }
  const char letter = words[0][0];
  Message& message = lanes_[words[1]][number(words[2])];
  const auto raise = [&](Told& told) {
    const Told to = letter >= 'a' ? Told::intended : Told::confirmed;
    told = std::max(told, to);
    if (to == Told::confirmed) ++confirmed_;
  };
  switch (letter) {
    case 's':
    case 'S':
      return raise(message.sent);
    case 'm':
    case 'M':
      return raise(message.moved);
    case 'd':
    case 'D':
      return raise(message.finished);
    default:
      return complain(fmt::format("the process said \"{}\"", line));
  }
}

void Ledger::hear_lease(const std::vector<std::string>& words) {
  const std::uint64_t epoch = number(words[1]);
  if (epoch <= last_epoch_ || !epochs_.insert(epoch).second) {
    complain(fmt::format("epoch {} was given out again (those before went up to {})", epoch,
                         last_epoch_));
  }
  for (std::size_t i = 5; i < words.size(); ++i) {
    if (number(words[i]) <= number(words[i - 1])) {
      complain(fmt::format("a lease of {} showed {} behind {}", words[3], words[i], words[i - 1]));
    }
  }
}

std::map<std::string, std::vector<std::uint64_t>> Ledger::read_queue(Store& store,
                                                                     const char* queue) {
  std::map<std::string, std::vector<std::uint64_t>> found;
  PeekQuery query;
  query.queue = queue;
  query.limit = 1'000;
  while (true) {
    const auto page = store.peek(query);
    if (!page) {
      if (page.error().code != Errc::not_found) {
        complain(fmt::format("peek {}: {}", queue, page.error().message));
      }
      return found;
    }
    for (const PeekedMessage& message : page->items)
      found[message.key.value_or("")].push_back(number(message.body));
    if (!page->more || page->items.empty()) return found;
    query.after = page->items.back().id;
  }
}

std::vector<std::string> Ledger::compare(Store& store) {
  Found found{.in = read_queue(store, "in"), .out = read_queue(store, "out")};
  for (const auto* queue : {&found.in, &found.out}) {
    for (const auto& [key, sequences] : *queue) {
      static_cast<void>(lanes_[key]);  // so that what nobody sent is looked at too
    }
  }
  for (auto& [key, lane] : lanes_) {
    compare_lane(key, lane, found.in[key], found.out[key]);
    compare_record(store, key, found.in[key], found.out[key]);
  }
  for (const char* queue : {"in", "out"}) {
    const auto stats = store.stats(queue);
    if (!stats) continue;
    const std::uint64_t gone =
        stats->acked + stats->expired + stats->dropped + stats->moved + stats->purged + stats->dead;
    if (stats->accepted != gone + stats->live()) {
      complain(fmt::format("queue {}: {} accepted, {} gone, {} live", queue, stats->accepted, gone,
                           stats->live()));
    }
  }
  if (!epochs_.empty()) last_epoch_ = *epochs_.rbegin();
  epochs_.clear();
  return std::exchange(wrong_, {});
}

namespace {

// How often each sequence is there.
using Times = std::unordered_map<std::uint64_t, std::size_t>;
Times times_of(const std::vector<std::uint64_t>& sequences) {
  Times times;
  for (const std::uint64_t sequence : sequences)
    ++times[sequence];
  return times;
}

}  // namespace

void Ledger::compare_lane(const std::string& key, Lane& lane, const std::vector<std::uint64_t>& in,
                          const std::vector<std::uint64_t>& out) {
  for (const auto* queue : {&in, &out}) {
    if (!std::ranges::is_sorted(*queue)) {
      complain(fmt::format("lane {} is out of order: {}", key, fmt::join(*queue, " ")));
    }
    for (const std::uint64_t sequence : *queue) {
      if (!lane.contains(sequence)) {
        complain(fmt::format("message {} {} is there, and nobody sent it", key, sequence));
      }
    }
  }
  const auto times_in = times_of(in);
  const auto times_out = times_of(out);
  const auto times = [](const Times& of, std::uint64_t sequence) {
    const auto found = of.find(sequence);
    return found == of.end() ? std::size_t{0} : found->second;
  };
  for (auto message = lane.begin(); message != lane.end();) {
    const auto sequence = message->first;
    compare_message(key, sequence, message->second, times(times_in, sequence),
                    times(times_out, sequence));
    // What is finished, or was never accepted, is not heard of again.
    const bool gone =
        message->second.finished == Told::confirmed || message->second.sent == Told::no;
    message = gone ? lane.erase(message) : std::next(message);
  }
}

// Where one message may be, by what was told of it; then what is there is what is told.
void Ledger::compare_message(const std::string& key, std::uint64_t sequence, Message& message,
                             std::size_t in, std::size_t out) {
  const auto wrong = [&](std::string_view what) {
    complain(
        fmt::format("message {} {}: {} (sent {}, moved {}, finished {}; {} times in, {} times "
                    "out)",
                    key, sequence, what, static_cast<int>(message.sent),
                    static_cast<int>(message.moved), static_cast<int>(message.finished), in, out));
  };
  if (in + out > 1) wrong("repeated");
  // Whoever moves or finishes it has seen it, so it was accepted, even if nobody said so.
  const bool accepted = message.sent == Told::confirmed || message.moved != Told::no;
  if (message.finished == Told::confirmed) {
    if (in + out > 0) wrong("finished, and there again");
  } else if (message.finished == Told::intended) {
    if (in > 0) wrong("moved back");
  } else if (message.moved == Told::confirmed) {
    if (out != 1) wrong("lost after it was moved");
  } else if (accepted && in + out == 0) {
    wrong("lost");
  } else if (message.moved == Told::no && out > 0) {
    wrong("moved by nobody");
  }
  if (in + out > 0) {
    message = {.sent = Told::confirmed,
               .moved = out > 0 ? Told::confirmed : Told::no,
               .finished = Told::no};
  } else {
    message = accepted ? Message{Told::confirmed, Told::confirmed, Told::confirmed} : Message{};
  }
}

// The record is written with each move: it says how far a lane was moved, no more and no less.
void Ledger::compare_record(Store& store, const std::string& key,
                            const std::vector<std::uint64_t>& in,
                            const std::vector<std::uint64_t>& out) {
  const auto record = store.record("moved", key);
  if (!record) return complain(fmt::format("record {}: {}", key, record.error().message));
  const std::uint64_t moved = *record ? number((*record)->value) : 0;
  if (!in.empty() && in.front() <= moved) {
    complain(
        fmt::format("lane {} was moved up to {}, and {} has not been", key, moved, in.front()));
  }
  if (!out.empty() && out.back() > moved) {
    complain(fmt::format("lane {} was moved up to {}, and {} has been", key, moved, out.back()));
  }
}

}  // namespace strand::crash
