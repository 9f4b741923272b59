// Which lane is served next, and that a lane's own order is never touched.

#include <iostream>
#include <string>

#include <strand/strand.h>

struct Job {
  std::string what = {};
  int pages = 1;
};
STRAND_JSON(Job, what, pages)

int main() {
  const auto store = strand::open("memory:").value();
  strand::Producer jobs(*store, "printer");

  jobs.send(Job{.what = "report", .pages = 900}, {.key = "anna", .priority = strand::Priority::low})
      .value();
  jobs.send(Job{.what = "letter"}, {.key = "ben"}).value();
  jobs.send(Job{.what = "memo"}, {.key = "cleo"}).value();
  // Cleo's lane is urgent from now on, her memo still comes first: a lane has one order.
  jobs.send(Job{.what = "ticket"}, {.key = "cleo", .priority = strand::Priority::urgent}).value();

  strand::MessageQueue printer(*store);
  std::string served;
  while (const auto batch = printer.dequeue_batch("printer").value()) {
    for (const strand::Bytes& body : batch->messages) {
      const Job job = strand::from_body<Job>(body).value();
      std::cout << *batch->routing_key << ": " << job.what << ", " << job.pages << " pages\n";
      served += job.what + " ";
    }
    printer.ack(batch->lock_token).value();
  }
  return served == "memo ticket letter report " ? 0 : 1;
}
