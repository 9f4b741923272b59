#include "cli/lines.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <strand/limits.h>

#include "base/text.h"
#include "cli/input.h"
#include "cli/json.h"

namespace strand::cli {

namespace {

constexpr std::size_t batch_lines_max = 1000;
constexpr std::size_t batch_bytes_max = std::size_t{1} << 20U;
constexpr std::size_t read_bytes = std::size_t{256} << 10U;
constexpr auto progress_every = std::chrono::milliseconds{200};

// Whether another transaction, with fewer of the same lines, could succeed: the request was
// refused, and not the store in trouble.
bool is_refusal(Errc code) {
  switch (code) {
    case Errc::unavailable:
    case Errc::unknown_outcome:
    case Errc::io_error:
    case Errc::corrupt:
      return false;
    default:
      return true;
  }
}

class LineSender {
 public:
  LineSender(Store& store, const LinesRequest& request, Output& output)
      : store_(store), request_(request), output_(output) {}

  Exit run();

 private:
  // Each returns false when it is over; exit_ then says how.
  bool read_more();
  bool take_lines();
  bool take_line(std::string_view line);
  bool send_batch();
  bool send(std::span<Send> sends);
  bool stop(std::string_view why);

  void acknowledge(const Receipt& receipt);
  void show_progress();
  void end_progress() const;
  Exit summary();

  Store& store_;
  const LinesRequest& request_;
  Output& output_;
  Interrupts interrupts_;

  std::vector<char> part_ = std::vector<char>(read_bytes);
  std::string buffer_;  // what was read, and is no whole line yet
  bool end_of_input_ = false;
  std::vector<Send> batch_;
  std::size_t batch_bytes_ = 0;
  std::uint64_t taken_ = 0;  // lines, those of the batch included
  std::uint64_t sent_ = 0;
  Exit exit_ = Exit::done;

  bool progress_ = ::isatty(STDERR_FILENO) != 0;
  std::chrono::steady_clock::time_point shown_at_;
};

Exit LineSender::run() {
  while (!end_of_input_) {
    if (!read_more() || !take_lines()) return exit_;
    // The rest of what is there comes first; when nothing is, the lines must not wait for more.
    const bool pauses = !end_of_input_ && !readable(STDIN_FILENO, Patience::none, interrupts_);
    if ((pauses || end_of_input_) && !send_batch()) return exit_;
  }
  return summary();
}

bool LineSender::read_more() {
  while (true) {
    const bool ready = readable(STDIN_FILENO, Patience::endless, interrupts_);
    // First, because Ctrl-C also ends whoever writes to our pipe.
    if (interrupts_.caught() != 0) {
      end_progress();
      complain(fmt::format("interrupted; {} lines were sent", sent_));
      exit_ = ended_by(interrupts_.caught());
      return false;
    }
    if (!ready) continue;
    const ssize_t count = ::read(STDIN_FILENO, part_.data(), part_.size());
    if (count > 0) {
      buffer_.append(part_.data(), static_cast<std::size_t>(count));
      return true;
    }
    if (count == 0) {
      end_of_input_ = true;
      return true;
    }
    if (errno == EINTR || errno == EAGAIN) continue;
    return stop(fmt::format("cannot read the standard input: {}", strerror(errno)));
  }
}

// Takes the whole lines of the buffer, and at the end of the input the last one without an end.
bool LineSender::take_lines() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && !end_of_input_) break;
    if (!take_line(rest.substr(0, end))) return false;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const bool full = batch_.size() >= batch_lines_max || batch_bytes_ >= batch_bytes_max;
    if (full && !send_batch()) return false;
  }
  buffer_.erase(0, buffer_.size() - rest.size());
  // Which size the store takes is for the store to say; this only bounds our memory.
  if (buffer_.size() <= Limits{}.transaction_bytes_max) return true;
  if (!send_batch()) return false;
  return stop(fmt::format("line {} has more than {} bytes, too many for one message", taken_ + 1,
                          Limits{}.transaction_bytes_max));
}

bool LineSender::take_line(std::string_view line) {
  Send send = request_.pattern;
  if (request_.key_separator) {
    const std::size_t at = line.find(*request_.key_separator);
    if (at == std::string_view::npos) {
      if (!send_batch()) return false;
      return stop(fmt::format("line {} has no key: '{}' does not occur in '{}'", taken_ + 1,
                              base::printable(*request_.key_separator), base::printable(line)));
    }
    send.key = line.substr(0, at);
    line.remove_prefix(at + request_.key_separator->size());
  }
  send.body = line;
  batch_bytes_ += line.size() + (send.key ? send.key->size() : 0);
  batch_.push_back(std::move(send));
  ++taken_;
  return true;
}

bool LineSender::send_batch() {
  if (batch_.empty()) return true;
  const bool sent = send(batch_);
  batch_.clear();
  batch_bytes_ = 0;
  if (!sent) return false;
  show_progress();
  // Who reads the ids reads them as they come; who does not want them any more wants no more sent.
  if (output_.flush()) return true;
  exit_ = Exit::failed;
  return false;
}

// A refused transaction leaves no trace, so halves of it lead to the line that was refused, with
// all lines before it sent.
bool LineSender::send(std::span<Send> sends) {
  Transaction transaction;
  transaction.durability = request_.durability;
  transaction.sends.assign(sends.begin(), sends.end());
  const auto receipt = store_.apply(transaction);
  if (receipt) {
    acknowledge(*receipt);
    return true;
  }
  const Error& error = receipt.error();
  if (is_refusal(error.code) && sends.size() > 1) {
    const std::size_t half = sends.size() / 2;
    return send(sends.first(half)) && send(sends.subspan(half));
  }
  const std::uint64_t first = sent_ + 1;
  const std::string lines = sends.size() == 1
                                ? fmt::format("line {}", first)
                                : fmt::format("lines {} to {}", first, sent_ + sends.size());
  return stop(fmt::format("{}: {}", lines, error.message));
}

bool LineSender::stop(std::string_view why) {
  end_progress();
  switch (sent_) {
    case 0:
      complain(fmt::format("{}; nothing was sent", why));
      break;
    case 1:
      complain(fmt::format("{}; 1 line before it was sent", why));
      break;
    default:
      complain(fmt::format("{}; {} lines before it were sent", why, sent_));
  }
  exit_ = Exit::failed;
  return false;
}

void LineSender::acknowledge(const Receipt& receipt) {
  sent_ += receipt.sent.size();
  if (!output_.json()) return;
  for (const Sent& sent : receipt.sent)
    output_.object(to_json(sent));
}

void LineSender::show_progress() {
  const auto now = std::chrono::steady_clock::now();
  if (!progress_ || now - shown_at_ < progress_every) return;
  shown_at_ = now;
  fmt::print(stderr, "\r\033[K{} sent", sent_);
}

void LineSender::end_progress() const {
  if (progress_) fmt::print(stderr, "\r\033[K");
}

Exit LineSender::summary() {
  end_progress();
  if (!output_.json()) {
    output_.text(fmt::format("{} sent to {}\n", sent_, base::escaped(request_.pattern.queue)));
  }
  return Exit::done;
}

}  // namespace

Exit send_lines(Store& store, const LinesRequest& request, Output& output) {
  return LineSender(store, request, output).run();
}

}  // namespace strand::cli
