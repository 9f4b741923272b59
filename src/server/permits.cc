#include "server/permits.h"

#include <variant>

#include "base/planted.h"

namespace strand::server {

namespace {

Result<void> need(const Permit& permit, Role role, std::string_view name) {
  if (permit.may(role, name)) return {};
  return std::unexpected(permit.refusal(role, name));
}

// What each operation needs beyond the role `admin` for its queue or topic.
struct NeedAdmin {
  const Permit& permit;

  template <class Operation>
  Result<void> operator()(const Operation& operation) const {
    return need(permit, Role::admin, operation.queue);
  }
  Result<void> operator()(const ConfigureQueue& operation) const {
    if (auto needed = need(permit, Role::admin, operation.queue); !needed) return needed;
    if (!operation.settings.dead_notice_to) return {};
    return need(permit, Role::send, operation.settings.dead_notice_to->queue);
  }
  Result<void> operator()(const Redrive& operation) const {
    if (auto needed = need(permit, Role::admin, operation.queue); !needed) return needed;
    return operation.to ? need(permit, Role::send, *operation.to) : Result<void>{};
  }
  // Whatever is published there can be read in the queue.
  Result<void> operator()(const Subscribe& operation) const {
    if (auto needed = need(permit, Role::admin, operation.queue); !needed) return needed;
    return need(permit, Role::receive, operation.pattern);
  }
  Result<void> operator()(const ConfigureTopic& operation) const {
    return need(permit, Role::admin, operation.topic);
  }
};

}  // namespace

Result<void> permit_transaction(const Permit& permit, const Transaction& transaction) {
  if (!transaction.remove_histories.empty() || !transaction.appends.empty() ||
      !transaction.trim_histories.empty() || !transaction.settles.empty()) {
    if (auto needed = permit_holder(permit); !needed) return needed;
  }
  for (const Cancel& cancel : transaction.cancels) {
    if (auto needed = need(permit, Role::send, cancel.queue); !needed) return needed;
  }
  for (const Send& send : transaction.sends) {
    if (auto needed = need(permit, Role::send, send.queue); !needed) return needed;
    // A notice is a message like any other.
    if (send.dead_notice_to && !STRAND_PLANTED("notices-go-anywhere")) {
      if (auto needed = need(permit, Role::send, send.dead_notice_to->queue); !needed) {
        return needed;
      }
    }
  }
  for (const Publish& publish : transaction.publishes) {
    if (auto needed = need(permit, Role::send, publish.topic); !needed) return needed;
  }
  for (const WriteRecord& record : transaction.records) {
    if (auto needed = need(permit, Role::send, record.space); !needed) return needed;
  }
  return transaction.admin ? std::visit(NeedAdmin{permit}, *transaction.admin) : Result<void>{};
}

Result<void> permit_lease(const Permit& permit, const LeaseRequest& request) {
  return need(permit, request.seize ? Role::admin : Role::receive, request.queue);
}

Result<void> permit_watch(const Permit& permit, const WatchTarget& target) {
  if (const auto* queue = std::get_if<WatchQueue>(&target)) {
    return need(permit, Role::receive, queue->queue);
  }
  if (const auto* record = std::get_if<WatchRecord>(&target)) {
    return need(permit, Role::receive, record->space);
  }
  return permit_holder(permit);
}

Result<void> permit_holder(const Permit& permit) {
  if (permit.may_somewhere(Role::receive)) return {};
  return std::unexpected(permit.refusal(Role::receive, "any queue"));
}

Result<void> permit_read(const Permit& permit, std::string_view name) {
  return need(permit, Role::receive, name);
}

Result<void> permit_look(const Permit& permit, std::string_view name) {
  if (permit.sees(name)) return {};
  return std::unexpected(permit.refusal(Role::receive, name));
}

}  // namespace strand::server
