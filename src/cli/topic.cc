#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/store.h>
#include <strand/topics.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/content.h"
#include "cli/input.h"
#include "cli/json.h"

// topic publish, subscribe, unsubscribe, ls, set, tail

namespace strand::cli {

namespace {

using base::escaped;

// --- publish ---

struct PublishOptions : ContentOptions {
  std::string topic = {};
};

void declare_publish(CLI::App& app, PublishOptions& options) {
  add_text(app, "TOPIC", options.topic, "", "Segments with dots between them").required();
  add_content(app, options);
}

Exit run_publish(const PublishOptions& options, Output& output) {
  auto body = read_body(options.body);
  if (!body && body.error().code == Errc::invalid_argument) {
    return wrong_usage(body.error().message);
  }
  if (!body) return fail(body.error());
  Transaction transaction;
  transaction.durability = options.durability;
  Publish& publish = transaction.publishes.emplace_back();
  fill(publish, options);
  publish.topic = options.topic;
  publish.body = *std::move(body);
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  const auto receipt = (*store)->apply(transaction);
  if (!receipt) return fail(receipt.error());
  const Published& published = receipt->published.front();
  if (output.json()) {
    output.object(to_json(published));
  } else if (published.duplicate) {
    output.text(fmt::format("duplicate of {}\n", number(published.id)));
  } else {
    output.text(
        fmt::format("published {} to {} subscriptions\n", number(published.id), published.matched));
  }
  return Exit::done;
}

// --- subscribe, unsubscribe ---

struct SubscribeOptions : Common {
  std::string pattern = {};
  std::string queue = {};
  Moment from = {};
};

void declare_subscribe(CLI::App& app, SubscribeOptions& options) {
  add_text(app, "PATTERN", options.pattern, "",
           "Topics: '*' is one segment, '#' at the end any number of them")
      .required();
  add_text(app, "--name", options.queue, "QUEUE", "The queue that gets what is published")
      .required();
  add_moment(app, "--from", options.from, "Also what the topics have retained since then");
}

// Nothing but the word of the outcome in text; the subscription in JSON.
Exit administer(Store& store, Administration administration, const boost::json::object& done,
                std::string_view text, Output& output) {
  Transaction transaction;
  transaction.admin = std::move(administration);
  const auto receipt = store.apply(transaction);
  if (!receipt) return fail(receipt.error());
  if (output.json()) {
    boost::json::object object = done;
    object["affected"] = receipt->affected;
    output.object(object);
  } else {
    output.text(text);
  }
  return Exit::done;
}

Exit run_subscribe(const SubscribeOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  Subscribe subscribe{.queue = options.queue,
                      .pattern = options.pattern,
                      .from = options.from.before((*store)->now())};
  return administer(
      **store, std::move(subscribe), {{"queue", options.queue}, {"pattern", options.pattern}},
      fmt::format("{} is subscribed to {}\n", escaped(options.queue), escaped(options.pattern)),
      output);
}

struct NameOptions : Common {
  std::string name = {};
};

void declare_unsubscribe(CLI::App& app, NameOptions& options) {
  add_text(app, "NAME", options.name, "", "The queue, which stays with what it holds").required();
}

Exit run_unsubscribe(const NameOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  return administer(**store, Unsubscribe{.queue = options.name}, {{"queue", options.name}},
                    fmt::format("{} is not subscribed any more\n", escaped(options.name)), output);
}

// --- set ---

struct SetOptions : Common {
  std::string topic = {};
  TopicSettings settings = {};
};

Result<void> read_assignment(TopicSettings& settings, std::string_view text) {
  static constexpr std::string_view retain = "retain=";
  if (!text.starts_with(retain)) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not a setting of topics; there is retain=D, such as "
                               "retain=24h, or retain=0s for nothing",
                               base::printable(text)));
  }
  const auto duration = parse_duration(text.substr(retain.size()));
  if (!duration) return std::unexpected(duration.error());
  settings.retain = *duration;
  return {};
}

void declare_set(CLI::App& app, SetOptions& options) {
  add_text(app, "TOPIC", options.topic, "", "The topic").required();
  add_values(app, "NAME=VALUE", "", "retain=D: how long messages are kept for new subscriptions",
             [&options](std::string_view text) { return read_assignment(options.settings, text); })
      .required();
}

Exit run_set(const SetOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  return administer(**store, ConfigureTopic{.topic = options.topic, .settings = options.settings},
                    {{"topic", options.topic}, {"retain_ms", options.settings.retain.count()}},
                    fmt::format("{} retains for {}\n", escaped(options.topic),
                                format_duration(options.settings.retain)),
                    output);
}

// --- ls ---

void declare_ls(CLI::App& app, Common& options) {
  static_cast<void>(app);
  static_cast<void>(options);
}

void print_json(const std::vector<Topic>& topics, const std::vector<Subscription>& subscriptions,
                Output& output) {
  boost::json::array topic_list;
  for (const Topic& topic : topics)
    topic_list.push_back(to_json(topic));
  boost::json::array subscription_list;
  for (const Subscription& subscription : subscriptions)
    subscription_list.push_back(to_json(subscription));
  output.object(
      {{"topics", std::move(topic_list)}, {"subscriptions", std::move(subscription_list)}});
}

Exit run_ls(const Common& options, Output& output) {
  const auto store = open_store(options, IfMissing::refuse);
  if (!store) return fail(store.error());
  const auto topics = (*store)->topics();
  if (!topics) return fail(topics.error());
  const auto subscriptions = (*store)->subscriptions();
  if (!subscriptions) return fail(subscriptions.error());
  if (output.json()) {
    print_json(*topics, *subscriptions, output);
    return Exit::done;
  }
  std::vector<std::vector<std::string>> rows = {{"PATTERN", "QUEUE"}};
  for (const Subscription& subscription : *subscriptions)
    rows.push_back({subscription.pattern, subscription.queue});
  output.text(table(rows));
  if (topics->empty()) return Exit::done;
  rows = {{"TOPIC", "RETAINS"}};
  for (const Topic& topic : *topics)
    rows.push_back({topic.name, format_duration(topic.settings.retain)});
  output.text("\n" + table(rows));
  return Exit::done;
}

// --- tail ---

struct TailOptions : Common {
  std::string pattern = {};
  Moment from = {};
  std::optional<Duration> within = {};
  std::uint64_t count = 0;
};

void declare_tail(CLI::App& app, TailOptions& options) {
  add_text(app, "PATTERN", options.pattern, "",
           "Topics: '*' is one segment, '#' at the end any number of them")
      .required();
  add_moment(app, "--from", options.from, "Also what the topics have retained since then");
  add_number<std::uint64_t>(app, "--count", options.count, 1,
                            "Ends after so many messages; else at Ctrl-C");
  add_duration(app, "--for", options.within, "Ends after so long");
}

void print(const Message& message, Output& output) {
  if (output.json()) {
    output.object(to_json(message));
  } else {
    output.text(fmt::format("{}  {}  {}\n", format_time(message.enqueued_at),
                            escaped(message.topic.value_or("")), escaped(message.body)));
  }
}

Exit run_tail(const TailOptions& options, Output& output) {
  const auto store = open_store(options, IfMissing::create);
  if (!store) return fail(store.error());
  const Interrupts interrupts;
  const Bell bell;
  std::atomic<std::uint64_t> shown = 0;
  std::atomic<bool> broken = false;  // nobody reads any more
  const auto tail = Topics(**store).tail(
      options.pattern,
      [&](const Message& message) {
        if (broken || (options.count > 0 && shown >= options.count)) return;
        print(message, output);
        broken = !output.flush();
        ++shown;
        bell.ring();
      },
      options.from.before((*store)->now()));
  if (!tail) return fail(tail.error());
  using std::chrono::steady_clock;
  const auto started = steady_clock::now();
  const Duration wait = options.within.value_or(Duration::max());
  while (interrupts.caught() == 0 && !broken && (options.count == 0 || shown < options.count)) {
    const auto passed = std::chrono::duration_cast<Duration>(steady_clock::now() - started);
    if (passed >= wait) break;
    bell.wait(wait - passed, interrupts);
  }
  return broken ? Exit::failed : Exit::done;
}

}  // namespace

void add_topic_commands(Family program) {
  const Family topic = add_family(program, "topic", "Publishes, and subscribes queues to topics.");
  add_command<PublishOptions>(
      topic,
      {.name = "publish",
       .what = "Publishes a message to every subscription that matches.",
       .example = "  strand topic publish orders.paid.eu '{\"order\": 7}' --key order-7"},
      declare_publish, run_publish);
  add_command<SubscribeOptions>(
      topic,
      {.name = "subscribe",
       .what = "Sends what is published on matching topics to a queue.",
       .example = "  strand topic subscribe 'orders.*.eu' --name mails --from 1h"},
      declare_subscribe, run_subscribe);
  add_command<NameOptions>(topic,
                           {.name = "unsubscribe",
                            .what = "Ends the subscription of a queue.",
                            .example = "  strand topic unsubscribe mails"},
                           declare_unsubscribe, run_unsubscribe);
  add_command<Common>(topic,
                      {.name = "ls",
                       .what = "Lists subscriptions, and topics that retain messages.",
                       .example = "  strand topic ls -o json"},
                      declare_ls, run_ls);
  add_command<SetOptions>(topic,
                          {.name = "set",
                           .what = "Says how long a topic keeps messages for new subscriptions.",
                           .example = "  strand topic set orders.paid.eu retain=24h"},
                          declare_set, run_set);
  add_command<TailOptions>(topic,
                           {.name = "tail",
                            .what = "Prints what is published on matching topics, as it comes.",
                            .example = "  strand topic tail 'orders.#' -o json"},
                           declare_tail, run_tail);
}

}  // namespace strand::cli
