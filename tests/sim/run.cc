#include "sim/run.h"

#include <algorithm>
#include <memory>

#include "model/text.h"
#include "sim/client.h"
#include "sim/world.h"

namespace strand::sim {
namespace {

using model::Invariant;

// Steps of the world without any progress of clients: a run that comes here hangs.
constexpr std::uint64_t idle_steps_max = 200'000;
constexpr std::uint64_t drain_rounds_max = 2000;

// Lets the world go on until `done`.
template <class Done>
void go_on(World& world, const Done& done) {
  for (std::uint64_t steps = 0; !done(); ++steps) {
    model::expect(steps < idle_steps_max && world.step(), Invariant::drains,
                  [] { return "the simulated world has come to a halt"; });
  }
}

// Asks and waits for the answer, in a calm world.
template <class T, class Ask>
Result<T> ask(World& world, const Ask& call) {
  std::optional<Result<T>> answer;
  call([&answer](const Result<T>& result) { answer = result; });
  go_on(world, [&] { return answer.has_value(); });
  return *answer;
}

Result<Receipt> apply(World& world, const Transaction& transaction) {
  return ask<Receipt>(world, [&](auto reply) { world.apply(transaction, reply); });
}

void administer(World& world, Administration administration) {
  Transaction transaction;
  transaction.admin = std::move(administration);
  const Result<Receipt> result = apply(world, transaction);
  // What was to be resumed may have ended by its TTL meanwhile; the model has agreed.
  model::expect(result || result.error().code == Errc::not_found, Invariant::drains, [&] {
    return "cannot resume: " + model::text(transaction) + " -> " + model::text(result.error());
  });
}

void set_up(World& world) {
  world.open();
  Random random = Random(world.plan().seed).fork(3);
  for (const char* queue : {"jobs", "mail", "wf"}) {
    Transaction transaction;
    transaction.admin = ConfigureQueue{queue, draw_settings(random)};
    const bool left_out = random.one_in(3);  // made by the first send, with the defaults
    if (!left_out) world.apply(transaction, [](const Result<Receipt>&) {});
  }
}

// What a person would do: let everything go on that was stopped.
void resume_all(World& world, const std::string& queue) {
  administer(world, ResumeQueue{queue});
  PeekQuery query;
  query.queue = queue;
  query.state = MessageState::parked;
  query.limit = world.plan().limits.page_max;
  const auto parked =
      ask<Page<PeekedMessage>>(world, [&](auto reply) { world.read_peek(query, reply); });
  std::vector<std::string> keys;
  for (const PeekedMessage& message : parked->items) {
    if (!message.key) {
      administer(world, ResumeLane{queue, std::nullopt, message.id});
    } else if (std::ranges::find(keys, *message.key) == keys.end()) {
      keys.push_back(*message.key);
      administer(world, ResumeLane{queue, message.key, std::nullopt});
    }
  }
}

void ack_all(World& world, const std::string& queue) {
  LeaseRequest request;
  request.queue = queue;
  request.lanes = world.plan().limits.lease_lanes_max;
  request.messages = 50;  // one transaction must be able to ack them
  request.lease = std::chrono::hours{1};
  const auto leases =
      ask<std::vector<Lease>>(world, [&](auto reply) { world.lease(request, reply); });
  model::expect(leases.has_value(), Invariant::drains,
                [&] { return "cannot lease: " + model::text(leases.error()); });
  for (const Lease& lease : *leases) {
    Transaction transaction;
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease.token;
    for (const Message& message : lease.messages)
      settle.outcomes.push_back({message.id, {}, {}, {}});
    const Result<Receipt> result = apply(world, transaction);
    // TTLs go on, but a lease that was just granted is good for an hour.
    model::expect(result.has_value(), Invariant::drains, [&] {
      return "cannot ack: " + model::text(transaction) + " -> " + model::text(result.error());
    });
  }
}

// I11: with no accidents left, and consumers that work, all queues become empty.
void drain(World& world) {
  world.calm();
  go_on(world, [&] { return world.at_rest(); });
  for (std::uint64_t round = 0; world.model().decided().live_messages() > 0; ++round) {
    model::expect(round < drain_rounds_max, Invariant::drains, [&] {
      return std::to_string(world.model().decided().live_messages()) + " messages are left after " +
             std::to_string(round) + " rounds";
    });
    for (const QueueInfo& queue : world.model().decided().queue_infos()) {
      resume_all(world, queue.name);
      ack_all(world, queue.name);
    }
    // Whatever is not ready now becomes so by itself.
    world.skip(std::clamp(world.until_due(), Duration{1}, Duration{std::chrono::hours{1}}));
  }
  world.model().drained();
}

void play(World& world) {
  set_up(world);
  Gossip gossip;
  std::vector<std::unique_ptr<Client>> clients;
  const Plan& plan = world.plan();
  for (std::size_t i = 0; i < plan.roles.size(); ++i) {
    if (!plan.clients[i]) continue;
    clients.push_back(std::make_unique<Client>(world, gossip, i, plan.roles[i]));
    clients.back()->start();
  }
  std::uint64_t steps = 0;
  while (world.calls() < plan.steps_max && steps++ < idle_steps_max && world.step()) {
  }
  for (const auto& client : clients)
    client->stop();
  drain(world);
  world.read_everything();
  go_on(world, [&] { return world.at_rest(); });
  world.restart();
  world.model().drained();
}

}  // namespace

Run run(const Plan& plan, bool tracing) {
  World world(plan, tracing);
  Run result;
  try {
    play(world);
  } catch (const model::Violation& violation) {
    result.failed = Run::Failed{violation.invariant(), violation.what()};
  } catch (const std::exception& error) {
    result.failed = Run::Failed{Invariant::contract, std::string("exception: ") + error.what()};
  }
  result.calls = world.calls();
  result.fingerprint = world.fingerprint();
  result.trace = world.lines();
  if (tracing) result.model = world.model().decided().dump();
  return result;
}

}  // namespace strand::sim
