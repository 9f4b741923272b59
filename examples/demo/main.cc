// strand-demo: what Strand does, in six scenes that check what they say.

#include <exception>
#include <iostream>

#include "scenes.h"
#include "stage.h"

int main() {
  try {
    demo::OtherProcess other(demo::send_lease_and_die);
    demo::Stage stage;
    std::cout << "Strand: durable, ordered, per-key work. Six scenes on embedded RocksDB.\n";
    demo::many_workers(stage);
    demo::a_stalled_worker(stage);
    demo::a_message_that_fails(stage);
    demo::one_transaction(stage);
    demo::close_and_open(stage);
    demo::a_killed_process(stage, other);
    demo::nothing_is_lost(stage);
    std::cout << "\nEvery line with a ✓ was checked while you watched. Next:\n"
                 "   build/release/strand help  the command line\n"
                 "   examples/first_steps.cc   a program to begin with\n"
                 "   docs/semantics.md         what exactly is promised\n"
                 "   ./dev test, ./dev sim     how it is proven\n";
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "strand-demo: " << problem.what() << "\n";
    return 1;
  }
}
