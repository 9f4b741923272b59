#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/http/router.h"

namespace strand::server::http {

// Answers requests, however they came.
//
// Threads: every method may be called concurrently.
// Failure: an answer, whatever happens.
class Api {
 public:
  // `access` must outlive it. `loopback_only`: it listens where only this machine can call, so that
  // a caller who needs no token, and asks for another machine by name, is a web page that must not
  // get in (DNS rebinding).
  Api(Surroundings surroundings, const Access& access, bool loopback_only)
      : surroundings_(std::move(surroundings)), access_(access), loopback_only_(loopback_only) {}

  // From now on there is a store, which must outlive this; until then all that needs one is told
  // that it is being loaded.
  void serve(Store& store) { store_ = &store; }
  // None yet: null.
  [[nodiscard]] Store* store() const { return store_; }

  // A request that was let in, by its head alone: before its body is read.
  struct Admitted {
    const Route* route = nullptr;
    std::vector<std::string> values = {};
    Query query = {};
    std::shared_ptr<const Permit> permit = {};
    std::optional<Response> refused = {};  // the answer, if it was not
  };
  [[nodiscard]] Admitted admit(const Request& head) const;

  // Whether the answer needs no store and takes no time.
  [[nodiscard]] static bool is_quick(const Admitted& admitted) {
    return admitted.refused || admitted.route->needs == Needs::nothing;
  }
  // May block, for as long as the store does.
  [[nodiscard]] Response answer(const Admitted& admitted, const Request& request) const;

  [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }
  [[nodiscard]] const Access& access() const { return access_; }

 private:
  [[nodiscard]] Result<void> admit(const Request& head, Admitted& admitted) const;
  [[nodiscard]] Result<Response> run(const Admitted& admitted, const Request& request) const;

  const Surroundings surroundings_;
  const Access& access_;
  const bool loopback_only_;
  std::atomic<Store*> store_ = nullptr;
};

// The token that the caller brings, if any.
[[nodiscard]] std::optional<std::string_view> token_of(const Request& request);

}  // namespace strand::server::http
