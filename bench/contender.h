#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace strand::bench {

// One client of a queue, used by one thread. What goes wrong ends the benchmark with a message.
class QueueClient {
 public:
  QueueClient() = default;
  QueueClient(const QueueClient&) = delete;
  QueueClient& operator=(const QueueClient&) = delete;
  virtual ~QueueClient() = default;

  // Sends so many messages of 100 bytes together, and returns when all of them are on disk.
  virtual void send(std::size_t count) = 0;
  // Takes up to so many and acknowledges them, on disk as well. Returns how many there were; waits
  // a little if there are none.
  virtual std::size_t receive(std::size_t count) = 0;
};

// A queue that can be measured, in processes of its own on this machine, which syncs whatever it
// confirms. It goes with this object.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  // Clients from here on use a queue that is new and empty.
  virtual void begin_round() = 0;
  [[nodiscard]] virtual std::unique_ptr<QueueClient> connect() = 0;
};

inline constexpr std::size_t body_bytes = 100;

}  // namespace strand::bench
