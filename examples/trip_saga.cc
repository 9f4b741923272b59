// A trip is booked in four steps. The third one fails, so the two before it are undone in reverse.
// Everybody can read how far a saga is: its steps are records in the store.

#include <iostream>
#include <string>
#include <vector>

#include <strand/strand.h>
#include <strand/workflow_worker.h>
#include <strand/workflows.h>

struct Trip {
  std::string traveller;
  std::string city;
};
STRAND_JSON(Trip, traveller, city)

struct Booking {
  std::string number;
};
STRAND_JSON(Booking, number)

namespace {

Booking flight(const Trip& trip) { return {"flight to " + trip.city}; }
Booking hotel(const Trip& trip) { return {"room in " + trip.city}; }
Booking car(const Trip& trip) {
  // Final: trying again would not help. Any other exception is tried again, by default four times.
  throw strand::ApplicationError("sold_out", "no car is left in " + trip.city).final();
}
void cancel(const Booking& booking) { std::cout << "cancelled: " << booking.number << "\n"; }
void mail(const Trip& trip) { std::cout << "have a good trip, " << trip.traveller << "\n"; }

const strand::Activity book_flight{"book_flight", flight};
const strand::Activity cancel_flight{"cancel_flight", cancel};
const strand::Activity book_hotel{"book_hotel", hotel};
const strand::Activity cancel_hotel{"cancel_hotel", cancel};
const strand::Activity book_car{"book_car", car};
const strand::Activity cancel_car{"cancel_car", cancel};
const strand::Activity send_mail{"send_mail", mail};

strand::Task<> run_trip(strand::Workflow& wf, Trip trip) {
  strand::Saga saga{wf, {.name = "trip", .data = trip.traveller}};
  co_await saga.step(book_flight, trip, cancel_flight);
  co_await saga.step(book_hotel, trip, cancel_hotel);
  co_await saga.step(book_car, trip, cancel_car);
  co_await saga.step(send_mail, trip);  // nothing to undo
}

const strand::WorkflowType book_trip{"book_trip", run_trip};

}  // namespace

int main() {
  const auto store = strand::open("memory:").value();
  const auto worker = strand::WorkflowWorker::start(
                          *store, {.workflows = {book_trip},
                                   .activities = {book_flight, cancel_flight, book_hotel,
                                                  cancel_hotel, book_car, cancel_car, send_mail}})
                          .value();

  auto workflows = strand::Workflows::open(*store).value();
  auto trip = workflows.start(book_trip, "trip-1", {"Ada", "Lisbon"}).value();
  const auto ended = trip.wait().value();
  std::cout << "the trip has " << to_string(ended.state) << ": " << ended.error << "\n";

  const strand::SagaInfo saga = workflows.sagas("trip-1").value().front();
  std::cout << "saga '" << saga.name << "' of " << saga.coordinator << " for " << saga.data << ": "
            << to_string(saga.status) << "\n";
  std::vector<std::string> undone;
  for (const strand::SagaStep& step : saga.steps) {
    std::cout << "  " << step.name << " by " << step.agent << ": " << to_string(step.status);
    if (step.compensates) {
      std::cout << ", undoes " << *step.compensates;
      undone.push_back(*step.compensates);
    }
    std::cout << (step.error ? ", " + *step.error : "") << "\n";
  }
  return undone == std::vector<std::string>{"book_hotel", "book_flight"} ? 0 : 1;
}
