// The snippets of docs/guide/workflows.md, in the order in which it shows them. A check compares
// the two. Those on sagas and on tests are in checkout.cc, trip_saga.cc and workflow_test.cc.

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <strand/strand.h>
#include <strand/workflow_test.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

using namespace std::chrono_literals;

struct Order {
  std::string id;
  std::string country;
  int cents = 0;
};
STRAND_JSON(Order, id, country, cents)

struct Payment {
  std::string id;
};
STRAND_JSON(Payment, id)

struct Decline {
  int code = 0;
};
STRAND_JSON(Decline, code)

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

// Runs a workflow in the test environment, to its end.
template <class R, class... In>
strand::EndedWith<R> outcome(strand::WorkflowTest& test, const strand::WorkflowType<R(In...)>& type,
                             const In&... input) {
  test.add(type);
  auto handle = test.workflows().start(type, type.name() + "-1", input...).value();
  test.run();
  return handle.wait(1s).value();
}

// --- Activities ---

namespace activities {

std::string draw(const std::string& page) { return "picture of " + page; }

const strand::Activity render{
    "render",
    draw,
    {.queue = "rendering",
     .label = "gpu",
     .retry = {.attempts = 5, .first = 2s, .max = 1min, .not_for = {"no_such_page"}},
     .timeout = 10min,
     .heartbeat = 30s}};

int rows_of(const std::string&) { return 5; }
void insert_row(int) {}

int import_file(strand::ActivityContext& context, const std::string& file) {
  int row = context.progress<int>().value_or(0);  // where an earlier attempt got to
  for (; row < rows_of(file); ++row) {
    insert_row(row);
    if (!context.heartbeat(row + 1)) throw std::runtime_error("told to stop");
  }
  return row;
}
const strand::Activity import_rows{"import_rows", import_file, {.heartbeat = 30s}};

const strand::ErrorType<Decline> card_declined{"card_declined"};

Payment charge(const Order& order) {
  if (order.cents > 100'000) throw card_declined("over the limit", Decline{.code = 51}).final();
  if (order.cents < 0) throw std::runtime_error("the bank cannot be reached");
  return {"payment-" + order.id};
}
const strand::Activity charge_card{"charge_card", charge, {.timeout = 30s}};

strand::Task<std::string> run_pay(strand::Workflow& wf, Order order) {
  try {
    const Payment payment = co_await wf.call(charge_card, order);
    co_return payment.id;
  } catch (const strand::ActivityError& error) {
    const auto decline = error.details(card_declined);
    if (!decline) throw;  // of another type, after four attempts
    co_return "declined with " + std::to_string(decline->code);
  }
}
const strand::WorkflowType pay{"pay", run_pay};

double tax(const std::string& country) { return country == "PT" ? 0.23 : 0.19; }
const strand::Activity tax_rate{"tax_rate", tax};

strand::Task<double> run_prices(strand::Workflow& wf, Order order) {
  const double rate = co_await wf.local(tax_rate, order.country);
  strand::ActivityOptions once = charge_card.options();
  once.retry = strand::Retry::never();
  strand::Future<Payment> paid = wf.call(charge_card, order, once);  // begins
  if (rate > 0.2) {
    paid.cancel("too much tax");
  } else {
    co_await paid;
  }
  co_return rate;
}
const strand::WorkflowType prices{"prices", run_prices};

strand::Task<std::string> run_film(strand::Workflow& wf, std::string file) {
  co_await wf.call(import_rows, file);
  co_return co_await wf.call(render, file);
}
const strand::WorkflowType film{"film", run_film};

void special_worker(strand::Store& store) {
  strand::WorkflowWorkerOptions options;
  options.activities = {render};
  options.activity_labels = {"gpu"};
  options.activity_workers = 1;
  const auto worker = strand::WorkflowWorker::start(store, options).value();

  const auto turns =
      strand::WorkflowWorker::start(store, {.workflows = {film}, .activities = {import_rows}})
          .value();
  auto workflows = strand::Workflows::open(store).value();
  const auto ended = workflows.start(film, "film-1", "a film").value().wait(10s).value();
  require(ended.value() == "picture of a film", "two workers share the activities");
}

void run() {
  strand::WorkflowTest test;
  test.add(charge_card);
  require(outcome(test, pay, {"1", "PT", 200'000}).value() == "declined with 51", "a typed error");
  require(outcome(test, prices, {"2", "PT", 5}).value() == 0.23, "a local activity");
  require(test.attempts() == 1, "a cancelled activity does not run");
  const auto store = strand::open("memory:").value();
  special_worker(*store);
}

}  // namespace activities

// --- Time ---

namespace timing {

strand::Task<std::string> run_clock(strand::Workflow& wf) {
  const strand::Time began = wf.now();
  co_await wf.sleep(8h);
  co_await wf.sleep_until(began + 24h);
  const bool heads = wf.random() % 2 == 0;  // the same in every replay
  co_return (heads ? "heads " : "tails ") + wf.uuid();
}
const strand::WorkflowType clock{"clock", run_clock};

void run() {
  strand::WorkflowTest test;
  require(outcome(test, clock).value().size() == 6 + 36, "a word and a UUID");
}

}  // namespace timing

// --- Control ---

namespace control {

const strand::Activity fetch{"fetch", [](const std::string& url) { return "page " + url; }};
const strand::Activity count_words{"count_words", [](const std::string&) { return 42; }};

strand::Task<int> run_report(strand::Workflow& wf, std::vector<std::string> urls) {
  // A tuple of what they return.
  auto [front, words] =
      co_await wf.all_of(wf.call(fetch, urls.front()), wf.call(count_words, urls.front()));

  // As many as there are, all at the same time.
  std::vector<strand::Future<std::string>> pages;
  for (const std::string& url : urls)
    pages.push_back(wf.call(fetch, url));
  const std::vector<std::string> all = co_await wf.all_of(pages);
  co_return words + static_cast<int>(all.size());
}
const strand::WorkflowType report{"report", run_report};

strand::Task<std::string> run_mirrors(strand::Workflow& wf, std::string url) {
  // A variant, whose index says which one was first. The others are cancelled.
  auto first = co_await wf.first_of(wf.call(fetch, url), wf.sleep(5s));
  if (first.index() == 1) co_return "nothing";

  // They may go on as well.
  auto slow = wf.call(count_words, url);
  co_await wf.first_of(strand::Others::keep, slow, wf.sleep(1s));
  const int words = co_await slow;

  // The same limit in one word: DeadlinePassed is thrown when it is over.
  co_await wf.within(5s, wf.call(fetch, url));
  co_return std::get<0>(first) + ", " + std::to_string(words) + " words";
}
const strand::WorkflowType mirrors{"mirrors", run_mirrors};

// A part of a workflow is a coroutine as well. Parameters by value.
strand::Task<std::string> fetch_twice(strand::Workflow& wf, std::string url) {
  co_await wf.call(fetch, url);
  co_await wf.sleep(1s);
  co_return co_await wf.call(fetch, url);
}

strand::Task<std::string> run_pair(strand::Workflow& wf) {
  strand::Future<std::string> beside = wf.spawn(fetch_twice(wf, "a"));  // runs beside this one
  const std::string here = co_await fetch_twice(wf, "b");               // runs here
  co_return here + ", " + co_await beside;
}
const strand::WorkflowType pair{"pair", run_pair};

void run() {
  strand::WorkflowTest test;
  test.add(fetch);
  test.add(count_words);
  require(outcome(test, report, {"a", "b", "c"}).value() == 45, "all of them");
  require(outcome(test, mirrors, std::string("a")).value() == "page a, 42 words", "the first");
  require(outcome(test, pair).value() == "page b, page a", "two coroutines");
}

}  // namespace control

// --- Cancellation ---

namespace cancellation {

const strand::Activity<void(std::string)> build_image{"build_image"};
const strand::Activity<void(std::string)> remove_image{"remove_image"};

strand::Task<> clean_up(strand::Workflow& wf, std::string image) {
  co_await wf.call(remove_image, image);
}

strand::Task<> run_build(strand::Workflow& wf, std::string image) {
  std::exception_ptr cancelled;
  try {
    co_await wf.call(build_image, image);
    co_await wf.sleep(30 * 24h);
  } catch (const strand::Cancelled&) {
    cancelled = std::current_exception();  // there is no co_await inside a catch block
  }
  co_await wf.shield(clean_up(wf, image));
  if (cancelled) std::rethrow_exception(cancelled);
}
const strand::WorkflowType build{"build", run_build};

void run() {
  strand::WorkflowTest test;
  test.add(build);
  test.mock(build_image, [](const std::string&) {});
  test.mock(remove_image, [](const std::string&) {});
  auto handle = test.workflows().start(build, "build-1", "image").value();
  test.run_for(1h);
  test.workflows().cancel("build-1", "not needed any more").value();
  test.run();
  const auto ended = handle.wait(1s).value();
  require(ended.state == strand::InstanceState::cancelled, "it was cancelled");
  require(test.activities_tried().back() == "remove_image", "and has cleaned up");
}

}  // namespace cancellation

// --- Events and queries ---

namespace events {

strand::Task<int> run_cart(strand::Workflow& wf) {
  int total = 0;
  const auto answering = wf.answer("total", [&] { return total; });
  while (true) {
    auto next = co_await wf.first_of(wf.event<int>("add"), wf.event<std::string>("checkout"));
    if (next.index() == 1) co_return total;
    total += std::get<0>(next);
  }
}
const strand::WorkflowType cart{"cart", run_cart};

void run() {
  const auto store = strand::open("memory:").value();
  const auto worker = strand::WorkflowWorker::start(*store, {.workflows = {cart}}).value();
  auto workflows = strand::Workflows::open(*store).value();

  auto handle = workflows.start(cart, "cart-1").value();
  workflows.send_event("cart-1", "add", 300).value();
  workflows.send_event("cart-1", "add", 200).value();
  const int total = workflows.query_for<int>("cart-1", "total").value();  // 500
  workflows.send_event("cart-1", "checkout", "now").value();

  require(total == 500 && handle.wait(10s).value().value() == 500, "events in order");
}

}  // namespace events

// --- Composition ---

namespace composition {

strand::Task<int> run_part(strand::Workflow& wf, int number) {
  co_await wf.sleep(1h);
  co_return number* number;
}
const strand::WorkflowType part{"part", run_part};

strand::Task<int> run_whole(strand::Workflow& wf) {
  const int nine = co_await wf.child(part, 3);  // its id is made of the parent's and a number
  auto four = wf.child(
      part, 2, {.id = "part-2", .when_parent_ends = strand::WhenParentEnds::keep, .timeout = 24h});
  wf.start(part, "part-of-nobody", 5);                    // started, and not waited for
  wf.send("mails", "the work has begun", {.key = "me"});  // a message in an ordinary queue
  wf.publish("works.begun", wf.id());
  wf.send_event("watcher", "begun", wf.id());
  co_return nine + co_await four;
}
const strand::WorkflowType whole{"whole", run_whole};

strand::Task<int> run_meter(strand::Workflow& wf, int sum) {
  for (int i = 0; i < 100; ++i) {
    const auto reading = co_await wf.first_of(wf.event<int>("reading"), wf.sleep(30 * 24h));
    if (reading.index() == 1) co_return sum;  // a month of silence
    sum += std::get<0>(reading);
  }
  co_return co_await wf.continue_as_new(sum);
}
const strand::WorkflowType meter{"meter", run_meter};

void run() {
  strand::WorkflowTest test;
  test.add(part);
  require(outcome(test, whole).value() == 13, "children");
  require(test.store().stats("mails").value().ready == 1, "a mail");
  test.add(meter);
  auto handle = test.workflows().start(meter, "meter-1", 0).value();
  for (int i = 0; i < 250; ++i)
    test.workflows().send_event("meter-1", "reading", 1).value();
  test.run();
  require(handle.wait(1s).value().value() == 250, "no reading is lost");
  require(test.workflows().get("meter-1").value().execution == 3, "three executions");
}

}  // namespace composition

// --- Versions ---

namespace versions {

const strand::Activity<void(std::string)> ship{"ship"};
const strand::Activity<void(std::string)> insure{"insure"};

strand::Task<> run_parcel(strand::Workflow& wf, std::string parcel) {
  co_await wf.call(ship, parcel);
}
strand::Task<> run_insured(strand::Workflow& wf, std::string parcel) {
  co_await wf.call(insure, parcel);
  co_await wf.call(ship, parcel);
}
const strand::WorkflowType parcel_1{"parcel", run_parcel};
const strand::WorkflowType parcel_2{"parcel", run_insured, 2};

// The same change in place.
strand::Task<> run_patched(strand::Workflow& wf, std::string parcel) {
  if (wf.patched("insurance")) co_await wf.call(insure, parcel);
  co_await wf.call(ship, parcel);
}

void run() {
  const auto store = strand::open("memory:").value();
  const strand::Activity ship_it{"ship", [](const std::string&) {}};
  const strand::Activity insure_it{"insure", [](const std::string&) {}};
  const auto worker = strand::WorkflowWorker::start(*store, {.workflows = {parcel_1, parcel_2},
                                                             .activities = {ship_it, insure_it}})
                          .value();
  auto workflows = strand::Workflows::open(*store).value();
  workflows.start(parcel_1, "p-1", "tea").value().wait(10s).value().value();
  workflows.start(parcel_2, "p-2", "tea").value().wait(10s).value().value();
  require(workflows.history("p-2").value().length > workflows.history("p-1").value().length,
          "each runs the version that it was started with");

  // An instance of the old code goes on with the patched one.
  strand::WorkflowTest test;
  test.mock(ship, [](const std::string&) {});
  test.mock(insure, [](const std::string&) {});
  test.add(parcel_1);
  auto old = test.workflows().start(parcel_1, "old", "tea").value();
  test.step();
  test.add(strand::WorkflowType{"parcel", run_patched});
  auto young = test.workflows().start(parcel_1, "young", "tea").value();
  test.run();
  require(old.wait(1s).value().state == strand::InstanceState::completed, "the old one goes on");
  require(young.wait(1s).value().state == strand::InstanceState::completed,
          "and so does a new one");
  require(test.attempts() == 3, "the old one is not insured");
}

}  // namespace versions

// --- From outside ---

namespace outside {

strand::Task<> run_upload(strand::Workflow& wf, std::string file) {
  wf.set_status("waiting for " + file);
  wf.set("percent", 0);
  co_await wf.event<bool>("arrived");
  wf.set("percent", 100);
  wf.set_status("done");
  co_await wf.park("please look at " + file);  // stops until somebody resumes it
}
const strand::WorkflowType upload{"upload", run_upload};

void start(strand::Workflows& workflows) {
  strand::StartOptions options;
  options.if_exists = strand::IfExists::reject;
  options.delay = 1min;
  options.timeout = 24h;
  auto handle = workflows.start(upload, "upload-7", "a film", options).value();
  require(handle.started_now(), "started");
}

void look(strand::Workflows& workflows) {
  strand::InstanceFilter filter;
  filter.name = "upload";
  filter.ended = false;
  for (const strand::InstanceInfo& info : workflows.list(filter).value().items)
    std::cout << info.id << ": " << to_string(info.state) << ", " << info.status << "\n";

  const strand::InstanceInfo info = workflows.get("upload-7").value();
  if (info.parked) std::cout << "stopped: " << *info.parked << "\n";
  for (const auto& [key, value] : workflows.state("upload-7").value())
    std::cout << key << " = " << value << "\n";
  for (const strand::HistoryEvent& event : workflows.history("upload-7").value().events)
    std::cout << strand::format_time(event.at) << " " << describe(event) << "\n";
}

void tidy_up(strand::Workflows& workflows) {
  workflows.resume("upload-7").value();
  workflows.terminate("upload-7", "enough").value();
  workflows.prune({.older_than = 30 * 24h, .limit = 1000}).value();
  workflows.remove("upload-7").value();
}

void run() {
  strand::WorkflowTest test;
  test.add(upload);
  strand::Workflows& workflows = test.workflows();
  start(workflows);
  test.run_for(2min);
  workflows.send_event("upload-7", "arrived", true).value();
  test.run_for(2min);
  require(workflows.get("upload-7").value().parked == "please look at a film", "it is parked");
  look(workflows);
  tidy_up(workflows);
  require(!workflows.get("upload-7"), "it is gone");
}

}  // namespace outside

// --- Checkpoints ---

namespace checkpoints {

const strand::Activity price{"price", [](int usage) { return 3 * usage; }};

struct Bill {
  int cents = 0;
  int months = 0;
};
STRAND_JSON(Bill, cents, months)

strand::Task<Bill> run_subscription(strand::Workflow& wf, std::string customer) {
  Bill bill = wf.restored<Bill>().value_or(Bill{});  // what it had; nothing at first
  while (true) {
    co_await wf.checkpoint(bill);  // may begin again from here
    const int usage = co_await wf.event<int>("usage of " + customer);
    if (usage == 0) co_return bill;
    bill.cents += co_await wf.call(price, usage);
    ++bill.months;
  }
}
const strand::WorkflowType subscription{"subscription", run_subscription};

void run() {
  strand::WorkflowTest test;
  test.set_checkpoints({.when = {.every_events = 1}});
  test.add(price);
  test.add(subscription);
  auto handle = test.workflows().start(subscription, "ada", "Ada").value();
  for (int month = 0; month < 24; ++month) {
    test.workflows().send_event("ada", "usage of Ada", 100).value();
    test.run();
  }
  require(test.workflows().history("ada").value().first > 50, "old events are gone");
  test.workflows().send_event("ada", "usage of Ada", 0).value();
  test.run();
  const Bill bill = handle.wait().value().value();
  require(bill.cents == 7200 && bill.months == 24, "two years");
}

}  // namespace checkpoints

// --- The rules ---

namespace rules {

const strand::Activity greet{"greet", [](const std::string& name) { return "hello " + name; }};

// A lambda that is a coroutine captures nothing: what it needs are its parameters.
strand::Task<std::string> run_greetings(strand::Workflow& wf, std::vector<std::string> names) {
  const auto greet_later = [](strand::Workflow& door,
                              std::string name) -> strand::Task<std::string> {
    co_await door.sleep(1h);
    co_return co_await door.call(greet, name);
  };
  std::vector<strand::Future<std::string>> greetings;
  for (const std::string& name : names)
    greetings.push_back(wf.spawn(greet_later(wf, name)));
  std::string all;
  for (const std::string& greeting : co_await wf.all_of(greetings))
    all += greeting + "\n";
  co_return all;
}
const strand::WorkflowType greetings{"greetings", run_greetings};

void run() {
  strand::WorkflowTest test;
  test.add(greet);
  require(outcome(test, greetings, {"Ada", "Bob"}).value() == "hello Ada\nhello Bob\n",
          "greetings");
}

}  // namespace rules

}  // namespace

int main() {
  activities::run();
  timing::run();
  control::run();
  cancellation::run();
  events::run();
  composition::run();
  versions::run();
  outside::run();
  checkpoints::run();
  rules::run();
}
