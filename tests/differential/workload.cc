#include "differential/workload.h"

namespace strand::differential {

Workload::Workload(const Plan& plan, Lockstep& stores) : plan_(plan), stores_(stores) {}

void Workload::run(std::size_t number, const Step& step) {
  random_ = sim::Random(step.seed);
  step_ = number;
  next_body_ = 0;
  stores_.heading("step " + std::to_string(number) + ": " + std::string(name(step.act)));
  switch (step.act) {
    case Act::configure:
      return configure();
    case Act::send:
      return send();
    case Act::publish:
      return publish();
    case Act::cancel:
      return cancel();
    case Act::write_record:
      return write_record();
    case Act::several:
      return several();
    case Act::repeat:
      return repeat();
    case Act::lease:
      return lease();
    case Act::lease_key:
      return lease_key();
    case Act::seize:
      return seize();
    case Act::repeat_request:
      return repeat_request();
    case Act::pull:
      return pull();
    case Act::renew:
      return renew();
    case Act::settle:
      return settle();
    case Act::turn:
      return turn();
    case Act::administer:
      return administer();
    case Act::redrive:
      return redrive();
    case Act::drop_dead:
      return drop_dead();
    case Act::resume_lane:
      return resume_lane();
    case Act::subscribe:
      return subscribe();
    case Act::configure_topic:
      return configure_topic();
    case Act::read:
      return read();
    case Act::survey:
      return survey();
    case Act::flaw:
      return flaw();
    case Act::advance:
      return advance();
    case Act::reopen:
      return stores_.reopen();
  }
}

}  // namespace strand::differential
