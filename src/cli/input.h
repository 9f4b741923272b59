#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <strand/error.h>
#include <strand/message.h>
#include <strand/time.h>

namespace strand::cli {

// Turns Ctrl-C and SIGTERM into something that a wait notices, while it lives; without it they end
// the program at once. There is one at a time.
class Interrupts {
 public:
  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  // The signal that came; 0: none.
  [[nodiscard]] int caught() const;
  // Readable once a signal came.
  [[nodiscard]] int descriptor() const;
};

// A bell that other threads ring, and that poll hears.
class Bell {
 public:
  Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell();

  void ring() const;
  // Waits until it was rung, a signal came, or the time is over. Rings are taken.
  void wait(Duration wait, const Interrupts& interrupts) const;

 private:
  int descriptor_;
};

// Whether a read would return at once, waiting for it, or a signal, if asked to.
enum class Patience { none, endless };
bool readable(int descriptor, Patience patience, const Interrupts& interrupts);

// Standard input up to its end. More than `bytes_max` is `limit_exceeded`.
Result<Bytes> read_all_input(std::size_t bytes_max);

// The body that the command line names: the argument, or standard input for "-" and for none.
// None, and nobody but a person at a terminal to give one, is `invalid_argument`.
Result<Bytes> read_body(const std::optional<std::string>& argument);

}  // namespace strand::cli
