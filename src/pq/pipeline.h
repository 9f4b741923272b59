#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <libpq-fe.h>

#include "pq/connection.h"
#include "pq/wire.h"

namespace strand::postgres {

// One exchange on a connection: the statements that are not prepared yet, each with a sync of its
// own, then the groups, each with its sync. A sync commits what came since the one before it; after
// an error the server skips all up to the next one.
class Connection::Pipeline {
 public:
  Pipeline(Connection& connection, std::span<const Group> groups);

  // Once. False: the connection is gone.
  bool exchange();
  std::vector<GroupResult> take_results();

 private:
  // What the server answers next, in the order in which it was sent.
  struct Awaited {
    enum class Kind : std::uint8_t { prepare, statement, sync };
    Kind kind = Kind::statement;
    const Statement* statement = nullptr;
    std::optional<std::size_t> group = std::nullopt;  // not for the prepared ones
    bool answered = false;
  };
  struct Progress {
    bool committing = false;  // its sync may have been sent
    bool done = false;        // its sync was answered
    std::vector<Rows> rows = {};
    std::optional<Failure> refused = std::nullopt;
    const Statement* refused_at = nullptr;
  };

  void send_prepares();
  void send_prepare(const Statement& statement);
  void send_group(std::size_t group);
  bool send(const Statement& statement, std::size_t group);
  void send_sync(std::optional<std::size_t> group);

  // Moves bytes until all that was queued is written, or all that is awaited has come.
  void flush();
  void wait_for_answers();
  void read_answers();
  void read_end_of_answer();
  void read_answer(ResultHandle result);
  void read_refusal(const PGresult* result);
  void lose(std::string message);

  [[nodiscard]] GroupResult result_of(Progress& progress, std::size_t group);
  [[nodiscard]] Failure refusal_of(Progress& progress) const;
  [[nodiscard]] Failure loss_of(const Progress& progress, std::size_t group) const;

  Connection& connection_;
  std::span<const Group> groups_;
  std::deque<Awaited> awaited_;
  std::vector<Progress> progress_;
  std::unordered_map<std::string_view, Failure> not_prepared_;  // by their text
  std::vector<const char*> pointers_;                           // kept for its memory
  std::vector<int> formats_;
  std::size_t unflushed_bytes_ = 0;

  // The connection is gone, and nothing more comes. What was said about it.
  std::optional<std::string> lost_;
  // The server ended it, in place of the answer to the first of those awaited.
  std::optional<Failure> ended_;
};

}  // namespace strand::postgres
