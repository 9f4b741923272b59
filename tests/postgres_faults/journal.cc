#include "postgres_faults/journal.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "model/text.h"
#include "model/violation.h"
#include "postgres_faults/words.h"

namespace strand::postgres_faults {

template <>
struct Fields<model::Call> {
  static constexpr auto all =
      std::tuple(&model::Call::begin, &model::Call::end, &model::Call::store_time);
};
template <>
struct Fields<TransactionKey> {
  static constexpr auto all = std::tuple(&TransactionKey::first, &TransactionKey::second);
};
template <>
struct Fields<Intended> {
  static constexpr auto all = std::tuple(&Intended::begin, &Intended::transaction);
};
template <>
struct Fields<Troubled> {
  static constexpr auto all = std::tuple(&Troubled::code);
};
template <>
struct Fields<Answered> {
  static constexpr auto all =
      std::tuple(&Answered::key, &Answered::end, &Answered::store_time, &Answered::answer);
};
template <>
struct Fields<CaughtUp> {
  static constexpr auto all = std::tuple(&CaughtUp::transactions);
};
template <>
struct Fields<model::Recorder::Leased> {
  using Type = model::Recorder::Leased;
  static constexpr auto all = std::tuple(&Type::call, &Type::lease);
};
template <>
struct Fields<model::Recorder::PulledMore> {
  using Type = model::Recorder::PulledMore;
  static constexpr auto all = std::tuple(&Type::call, &Type::token, &Type::messages);
};
template <>
struct Fields<model::Recorder::Renewed> {
  using Type = model::Recorder::Renewed;
  static constexpr auto all = std::tuple(&Type::call, &Type::token, &Type::expires_at);
};
template <>
struct Fields<model::Recorder::Counted> {
  using Type = model::Recorder::Counted;
  static constexpr auto all = std::tuple(&Type::call, &Type::queue, &Type::stats);
};

namespace {

// The first word of a line: the kind of its entry, by its place in the variant.
template <std::size_t index = 0>
Entry read_entry(std::size_t kind, WordReader& words) {
  if constexpr (index == std::variant_size_v<Entry>) {
    throw std::runtime_error("no such kind of entry");
  } else {
    if (kind != index) return read_entry<index + 1>(kind, words);
    std::variant_alternative_t<index, Entry> entry;
    words.read(entry);
    return entry;
  }
}

// Parts without words would not come back.
void check_has_words(const Transaction& transaction) {
  const bool plain = transaction.remove_histories.empty() && transaction.appends.empty() &&
                     transaction.trim_histories.empty() && transaction.cancels.empty() &&
                     transaction.publishes.empty() && transaction.records.empty() &&
                     !transaction.admin &&
                     std::ranges::all_of(transaction.sends, [](const Send& send) {
                       return send.headers.empty() && !send.ttl && !send.dedup_id && !send.name &&
                              send.label.empty() && !send.max_attempts && !send.dead_notice_to;
                     });
  if (!plain) throw std::logic_error("the journal has no words for a part of this transaction");
}

TransactionKey key_of(const Transaction& transaction) {
  return {transaction.id->client, transaction.id->number};
}

}  // namespace

Journal::Journal(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
}

Journal::~Journal() { ::close(file_); }

void Journal::write(std::span<const Entry> entries) const {
  std::string lines;
  for (const Entry& entry : entries) {
    if (const auto* intended = std::get_if<Intended>(&entry)) {
      check_has_words(intended->transaction);
    }
    WordWriter words;
    words.add(entry.index());
    std::visit([&](const auto& known) { words.add(known); }, entry);
    lines += words.text() + "\n";
  }
  if (::write(file_, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
    throw std::system_error(errno, std::generic_category(), "writing the journal");
  }
}

std::vector<Entry> Journal::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Entry> entries;
  std::string line;
  // A last line that nothing ends was being written when the process was killed.
  while (std::getline(file, line) && !file.eof()) {
    try {
      WordReader words(line);
      std::size_t kind = 0;
      words.read(kind);
      entries.push_back(read_entry(kind, words));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(
          fmt::format("{}:{}: {}", path.string(), entries.size() + 1, error.what()));
    }
  }
  return entries;
}

std::filesystem::path Journal::path_of(const std::filesystem::path& folder, const std::string& name,
                                       std::uint64_t run) {
  return folder / fmt::format("{}.{}", name, run);
}

std::vector<Transaction> unanswered(std::span<const Entry> entries) {
  std::map<TransactionKey, bool> answered;
  for (const Entry& entry : entries) {
    if (const auto* answer = std::get_if<Answered>(&entry)) answered[answer->key] = true;
  }
  std::vector<Transaction> result;
  for (const Entry& entry : entries) {
    const auto* intended = std::get_if<Intended>(&entry);
    if (intended != nullptr && !answered[key_of(intended->transaction)]) {
      result.push_back(intended->transaction);
    }
  }
  return result;
}

void JointRecord::add(std::span<const Entry> entries) {
  for (const Entry& entry : entries) {
    if (const auto* intended = std::get_if<Intended>(&entry)) {
      transactions_[key_of(intended->transaction)].intended = *intended;
    } else if (const auto* answered = std::get_if<Answered>(&entry)) {
      transactions_[answered->key].answers.push_back(*answered);
    } else if (const auto* troubled = std::get_if<Troubled>(&entry)) {
      ++(troubled->code == Errc::unknown_outcome ? totals_.unknown : totals_.unavailable);
    } else if (const auto* caught_up = std::get_if<CaughtUp>(&entry)) {
      totals_.left += caught_up->transactions;
    } else if (const auto* leased = std::get_if<model::Recorder::Leased>(&entry)) {
      ++totals_.leased;
      others_.emplace_back(*leased);
    } else if (const auto* pulled = std::get_if<model::Recorder::PulledMore>(&entry)) {
      others_.emplace_back(*pulled);
    } else if (const auto* renewed = std::get_if<model::Recorder::Renewed>(&entry)) {
      others_.emplace_back(*renewed);
    } else if (const auto* counted = std::get_if<model::Recorder::Counted>(&entry)) {
      others_.emplace_back(*counted);
    }
  }
}

JointRecord::Totals JointRecord::totals() const {
  Totals totals = totals_;
  for (const auto& [key, known] : transactions_) {
    if (known.answers.empty()) continue;
    ++(known.answers.front().answer ? totals.applied : totals.refused);
    totals.repeated += known.answers.size() > 1 ? 1 : 0;
  }
  return totals;
}

// When each message is due, as all who saw it say.
JointRecord::Dues JointRecord::find_dues(std::span<const model::Remains> remains) const {
  Dues dues;
  const auto see = [&](const Message& message) {
    const auto [known, first] = dues.try_emplace(message.id, message.due);
    model::expect(first || known->second == message.due, model::Invariant::lane_order, [&] {
      return "a message has changed its place: " + model::text(message) + ", due before at " +
             model::text(known->second);
    });
  };
  for (const model::Recorder::Entry& entry : others_) {
    if (const auto* leased = std::get_if<model::Recorder::Leased>(&entry)) {
      std::ranges::for_each(leased->lease.messages, see);
    } else if (const auto* pulled = std::get_if<model::Recorder::PulledMore>(&entry)) {
      std::ranges::for_each(pulled->messages, see);
    }
  }
  for (const model::Remains& queue : remains) {
    std::ranges::for_each(queue.left, see);
    std::ranges::for_each(queue.dead, see);
  }
  return dues;
}

// A store that many processes share accepts a message of a lane no earlier than the one in front of
// it, which may be a little later than the time of the transaction: at most when it was answered.
// To the model, which knows one time for all of a transaction, that is a longer delay.
model::Recorder::Applied JointRecord::as_accepted(const Known& known, const Answered& answer,
                                                  const Dues& dues) {
  model::Recorder::Applied applied{
      .call = {.begin = known.intended->begin, .end = answer.end, .store_time = answer.store_time},
      .transaction = known.intended->transaction,
      .answer = answer.answer};
  if (!answer.answer) return applied;
  std::vector<Send>& sends = applied.transaction.sends;
  for (std::size_t i = 0; i < std::min(sends.size(), answer.answer->sent.size()); ++i) {
    const auto due = dues.find(answer.answer->sent[i].id);
    if (due == dues.end()) continue;
    const Time accepted = due->second - sends[i].delay;
    const bool possible = answer.answer->time <= accepted && accepted <= answer.store_time;
    model::expect(possible, model::Invariant::not_early, [&] {
      return fmt::format("{} was accepted at {}, by a transaction of {} that was answered by {}",
                         model::text(due->first), model::text(accepted),
                         model::text(answer.answer->time), model::text(answer.store_time));
    });
    sends[i].delay = due->second - answer.answer->time;
  }
  return applied;
}

// The model is told each transaction once, as one call from its first attempt to its first answer;
// that its other answers say the same is seen here.
void JointRecord::check(std::span<const model::Remains> remains) const {
  const Dues dues = find_dues(remains);
  model::Recorder recorder(0);
  model::Recorder::Log& log = recorder.log();
  for (const auto& [key, known] : transactions_) {
    if (!known.intended || known.answers.empty()) {
      throw std::logic_error(fmt::format("transaction {} of client {} has {}", key.second,
                                         key.first, known.intended ? "no answer" : "no intent"));
    }
    const auto& first = *std::ranges::min_element(known.answers, {}, &Answered::end);
    for (const Answered& other : known.answers) {
      model::expect(!first.answer || (other.answer && *other.answer == *first.answer),
                    model::Invariant::exactly_once_id, [&] {
                      return fmt::format("transaction {} of client {} was answered {}, and then {}",
                                         key.second, key.first, model::text(first.answer),
                                         model::text(other.answer));
                    });
    }
    log.add(as_accepted(known, first, dues));
  }
  for (const model::Recorder::Entry& entry : others_)
    log.add(entry);
  recorder.check(remains);
}

}  // namespace strand::postgres_faults
