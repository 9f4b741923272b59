#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "pq/connect.h"
#include "pq/values.h"

namespace strand::postgres {

// Why a transaction did not succeed.
struct Failure {
  enum class Kind {
    refused,          // the server said no: `sqlstate`; nothing was changed
    not_sent,         // no connection; nothing was changed
    unknown_outcome,  // the connection broke between sending the commit and its answer
  };
  Kind kind = Kind::refused;
  std::string sqlstate = {};  // five characters; empty if it is not the server that said it
  std::string message = {};   // the server's, or libpq's
  std::string detail = {};
  // Deadlock, serialization failure: the same again may work (40001, 40P01). So it may, on another
  // connection, when the server ended this one before the transaction (57P01 and its kind).
  [[nodiscard]] bool repeatable() const;
};

// A statement with its parameters. Each distinct text is prepared once on each connection, and has
// parameters of the same types each time. No COPY, and nothing that controls transactions or cannot
// run inside one.
struct Statement {
  std::string sql = {};
  Params params = {};
};

// The statements of one transaction: all or none of them take effect.
using Group = std::vector<Statement>;
// One Rows for each statement.
using GroupResult = std::expected<std::vector<Rows>, Failure>;

// One connection to a server.
//
// Threads: one at a time.
// Failure: a transaction that is refused, and a statement that cannot be prepared, leave the
//          connection usable.
class Connection {
 public:
  // Connects, and waits at most `timeout` for it, or until `stop` (a descriptor) becomes readable.
  // Errors as those of connect().
  static Result<std::unique_ptr<Connection>> open(const std::string& conninfo,
                                                  Duration timeout = std::chrono::seconds(10),
                                                  int stop = -1);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Sends all groups at once, each a transaction of its own, and waits for the answers: one round
  // trip. A failed group does not keep later ones from being applied. All statements are prepared
  // before the first group runs, so none may need what an earlier one creates.
  std::vector<GroupResult> run(std::span<const Group> groups);
  GroupResult run(const Group& group);
  // For scripts of several statements without parameters (migrations): one transaction.
  std::expected<void, Failure> script(const std::string& sql);

  // False after the connection broke; it is then of no more use.
  [[nodiscard]] bool usable() const { return handle_ != nullptr; }
  // Looks whether the server has closed the connection meanwhile, as it does when it stops. Asks
  // only this machine, so it costs next to nothing. run() and script() do it before they send.
  bool still_open();

  // The process that serves this connection.
  [[nodiscard]] int backend_pid() const;

 private:
  class Pipeline;
  explicit Connection(Handle handle);

  void forget_notifications();

  Handle handle_;  // none after the connection broke
  // The server said, while it was asked nothing, that it ends the connection. It sees nothing of
  // what is sent from then on.
  bool ended_ = false;
  struct Prepared {
    std::string name;
    std::vector<unsigned> types;
  };
  std::unordered_map<std::string, Prepared> prepared_;  // by their text
  std::size_t names_ = 0;
};

}  // namespace strand::postgres
