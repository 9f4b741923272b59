// Requests as they come over the wire: what can be read is written so that it reads back to the
// same, whatever it asks for a store does or refuses, and every message is counted once (S16).

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <google/protobuf/stubs/logging.h>

#include <strand/store.h>

#include "fuzz/target.h"
#include "store/remote/convert.h"

namespace strand::fuzz {

namespace {

using remote::read_lease_request;
using remote::read_query;
using remote::read_transaction;

void refused_well(const Error& error) {
  FUZZ_REQUIRE(error.code == Errc::invalid_argument || error.code == Errc::invalid_token,
               "what the schema has no value for is the caller's mistake");
  FUZZ_REQUIRE(!error.message.empty() && error.message.find('\n') == std::string::npos,
               "and is explained in one line");
}

// What was read, written, read and written again is the same.
template <class Wire, class Value, class Read>
void reads_back(const Value& value, Read read) {
  Wire first;
  remote::write(value, first);
  const std::string bytes = first.SerializeAsString();
  Wire sent;
  FUZZ_REQUIRE(sent.ParseFromString(bytes), "what is written is a message");
  const auto again = read(sent);
  FUZZ_REQUIRE(again.has_value(), "what is written can be read");
  Wire second;
  remote::write(*again, second);
  FUZZ_REQUIRE(second.SerializeAsString() == bytes, "and is what was written");
}

// Readers that refuse nothing, as those that may.
template <class Wire>
auto query_of(const Wire& wire) {
  return Result<decltype(read_query(wire))>(read_query(wire));
}
Result<PeekQuery> query_of(const v1::PeekRequest& wire) { return read_query(wire); }

// A store with something in it, and a lane that is held.
class Served {
 public:
  Served() : store_(open("memory:").value()) {
    Transaction transaction;
    for (const char* body : {"one", "two"}) {
      Send& send = transaction.sends.emplace_back();
      send.queue = "q";
      send.key = "k";
      send.body = body;
    }
    FUZZ_REQUIRE(store_->apply(transaction).has_value(), "a message can be sent");
    token_ = store_->lease({.queue = "q"}).value().front().token.to_string();
  }

  // A token that is left out is the one of the held lane: no input could guess it.
  void give_tokens(v1::Transaction& transaction) const {
    const auto give = [&](auto& parts) {
      for (auto& part : parts) {
        if (part.token().empty()) part.set_token(token_);
      }
    };
    give(*transaction.mutable_settles());
    give(*transaction.mutable_appends());
    give(*transaction.mutable_trim_histories());
    give(*transaction.mutable_remove_histories());
  }

  Store& store() { return *store_; }

  void conserved() {
    for (const QueueInfo& queue : store_->queues().value()) {
      const QueueStats stats = store_->stats(queue.name).value();
      FUZZ_REQUIRE(stats.accepted == stats.acked + stats.expired + stats.dropped + stats.moved +
                                         stats.purged + stats.dead + stats.live(),
                   "every message that was accepted is somewhere, once");
    }
  }

 private:
  std::unique_ptr<Store> store_;
  std::string token_;
};

void sound(const Error& error) {
  FUZZ_REQUIRE(error.code != Errc::corrupt && error.code != Errc::io_error &&
                   error.code != Errc::unavailable,
               "a sound store in memory fails for reasons of the request only");
}

void run_apply(std::string_view bytes) {
  v1::ApplyRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  Served served;
  for (v1::Transaction& wire : *request.mutable_transactions()) {
    served.give_tokens(wire);
    const auto transaction = read_transaction(wire);
    if (!transaction) {
      refused_well(transaction.error());
      continue;
    }
    reads_back<v1::Transaction>(*transaction, read_transaction);
    auto receipt = served.store().apply(*transaction);
    if (!receipt) sound(receipt.error());
    // The answer on its way back.
    v1::ApplyResult answer;
    const bool good = receipt.has_value();
    remote::write(std::move(receipt), answer);
    FUZZ_REQUIRE(remote::read_result(answer).has_value() == good, "an answer says what it is");
    served.conserved();
  }
}

void run_lease(std::string_view bytes) {
  v1::LeaseRequest wire;
  if (!wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto request = read_lease_request(wire);
  if (!request) return refused_well(request.error());
  reads_back<v1::LeaseRequest>(*request, read_lease_request);
  Served served;
  auto leases = served.store().lease(*request);
  if (!leases) return sound(leases.error());
  for (Lease& lease : *leases) {
    v1::Lease answer;
    remote::write(std::move(lease), answer);
    FUZZ_REQUIRE(remote::read_lease(answer).has_value(), "a lease comes through");
  }
  served.conserved();
}

template <class Wire>
void run_query(std::string_view bytes) {
  Wire wire;
  if (!wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto query = query_of(wire);
  if (!query) return refused_well(query.error());
  reads_back<Wire>(*query, [](const Wire& again) { return query_of(again); });
}

// The first byte says which request the others are.
void run(std::string_view bytes) {
  const google::protobuf::LogSilencer silence;
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (static_cast<unsigned char>(bytes.front()) % 8) {
    case 0:
      return run_lease(rest);
    case 1:
      return run_query<v1::PeekRequest>(rest);
    case 2:
      return run_query<v1::HistoryRequest>(rest);
    case 3:
      return run_query<v1::InstancesRequest>(rest);
    case 4:
      return run_query<v1::RecordsRequest>(rest);
    case 5:
      return run_query<v1::DeadLettersRequest>(rest);
    default:
      return run_apply(rest);
  }
}

const Target target("wire", run, 20'000);

}  // namespace

}  // namespace strand::fuzz
