#include <utility>
#include <vector>

#include <strand/producer.h>

namespace strand {

Send Producer::to_send(std::string queue, Bytes body, SendOptions options) {
  Send send;
  send.queue = std::move(queue);
  send.key = std::move(options.key);
  send.body = std::move(body);
  send.headers = std::move(options.headers);
  send.priority = options.priority;
  send.delay = options.delay;
  send.ttl = options.ttl;
  send.dedup_id = std::move(options.dedup_id);
  send.label = std::move(options.label);
  send.name = std::move(options.name);
  send.max_attempts = options.max_attempts;
  send.dead_notice_to = std::move(options.dead_notice_to);
  return send;
}

Result<Sent> Producer::send_body(Bytes body, SendOptions options) {
  Transaction transaction;
  transaction.sends.push_back(to_send(queue_, std::move(body), std::move(options)));
  const Result<Receipt> receipt = store_.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->sent.front();
}

Duration Producer::delay_until(Time due) const {
  const Time now = store_.now();
  return due <= now ? Duration{0} : due - now;
}

Result<std::vector<Sent>> Producer::Batch::send() {
  if (transaction_.sends.empty()) return std::vector<Sent>{};
  Result<Receipt> receipt = producer_.store_.apply(transaction_);
  if (!receipt) return std::unexpected(std::move(receipt.error()));
  transaction_.sends.clear();
  return std::move(receipt->sent);
}

}  // namespace strand
