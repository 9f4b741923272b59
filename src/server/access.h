#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>

namespace strand::server {

// What somebody may do with the queues, topics and spaces of records whose names match a pattern.
enum class Role : std::uint8_t {
  send,     // send, publish, cancel; write records
  receive,  // lease, watch, peek, read dead letters, histories and records
  admin,    // both, and all that changes or removes queues, topics and instances
};
std::string_view to_string(Role role);

// Whether every name that `filter` matches is matched by `pattern` too. Segments are separated by
// dots; `*` is exactly one segment, `#`, at the end only, zero or more. A plain name is a filter
// that matches itself.
[[nodiscard]] bool covers(std::string_view pattern, std::string_view filter);

// What one caller may do. A value; good for the time of a call (or of a stream, which asks again).
class Permit {
 public:
  struct Grant {
    Role role = Role::send;
    std::string pattern = {};
  };

  // Everything.
  static Permit all(std::string caller);
  Permit(std::string caller, std::vector<Grant> grants)
      : caller_(std::move(caller)), grants_(std::move(grants)) {}

  // For logs: the name of the token, never the token.
  [[nodiscard]] const std::string& caller() const { return caller_; }
  [[nodiscard]] bool may(Role role, std::string_view name) const;
  // Any role for this name: enough to see that it exists, and its counts.
  [[nodiscard]] bool sees(std::string_view name) const;
  // The role for at least one pattern: for calls that prove by a token of a lease which lane they
  // mean.
  [[nodiscard]] bool may_somewhere(Role role) const;
  // The role for all names there are.
  [[nodiscard]] bool may_everywhere(Role role) const { return may(role, "#"); }

  // The answer to what is not permitted. It is the same whether there is such a thing or not.
  [[nodiscard]] Error refusal(Role role, std::string_view name) const;

 private:
  Permit() = default;

  std::string caller_;
  bool all_ = false;
  std::vector<Grant> grants_;
};

// Knows the callers.
//
// Threads: every method may be called concurrently, and while tokens are read anew.
class Access {
 public:
  Access() = default;
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  virtual ~Access() = default;

  // Who brings this bearer token (none: brings none). `forbidden` if nobody who is known does.
  [[nodiscard]] virtual Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> bearer) const = 0;
  // Changes whenever the answers of admit() may have changed; streams that are open ask again then.
  [[nodiscard]] virtual std::uint64_t generation() const = 0;
};

// Everybody may do everything: as long as there are no tokens.
class OpenAccess final : public Access {
 public:
  OpenAccess();
  [[nodiscard]] Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> bearer) const override;
  [[nodiscard]] std::uint64_t generation() const override { return 0; }

 private:
  std::shared_ptr<const Permit> everybody_;
};

// The token in "Bearer TOKEN" (the word in any case). None: it says something else.
[[nodiscard]] std::optional<std::string_view> bearer_of(std::string_view authorization);

}  // namespace strand::server
