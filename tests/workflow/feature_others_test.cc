// What a workflow says to others: messages, publications, events, starts, cancels; with its turn.

#include "workflow/fixture.h"

namespace strand::workflow_tests {

struct Mail {
  std::string to;
  int number = 0;
};
STRAND_JSON(Mail, to, number)

namespace {

TEST_P(WorkflowFeature, Messages_and_publications_are_sent_once_with_the_turn) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("seen", "orders.*")));
  const WorkflowType<void()> type{"mail", [](Workflow& wf) -> Task<void> {
                                    for (int i = 0; i < 3; ++i) {
                                      wf.send("mail", Mail{"ann", i},
                                              {.key = "ann", .headers = {{"x", "y"}}});
                                      wf.publish("orders.new", i);
                                      co_await wf.sleep(1h);
                                    }
                                    wf.send("mail", std::string("later"), {.delay = 5h});
                                  }};
  run(type);
  EXPECT_THAT(bodies_in("mail"),
              UnorderedElementsAre(R"({"to":"ann","number":0})", R"({"to":"ann","number":1})",
                                   R"({"to":"ann","number":2})", "later"));
  EXPECT_THAT(bodies_in("seen"), ElementsAre("0", "1", "2"));
  const auto mail = waiting("mail").front();
  EXPECT_EQ(mail.key, "ann");
  EXPECT_THAT(mail.headers, ElementsAre(Header{"x", "y"}));
  EXPECT_EQ(count("a", EventKind::message_sent), 4);
  EXPECT_EQ(count("a", EventKind::message_published), 3);
}

TEST_P(WorkflowFeature, A_workflow_starts_others_that_are_nobodys_children) {
  const WorkflowType<int(int)> other{"other", [](Workflow& wf, int number) -> Task<int> {
                                       EXPECT_FALSE(wf.parent());
                                       co_await wf.sleep(10h);
                                       co_return number;
                                     }};
  add(other);
  const WorkflowType<void()> type{"starter", [other](Workflow& wf) -> Task<void> {
                                    wf.start(other, "b", 7);
                                    wf.start(other, "b", 8);
                                    co_await wf.sleep(1h);
                                    wf.start(other, "b", 9);
                                    wf.start(other, "no\nid", 1);
                                  }};
  run(type);
  EXPECT_EQ(took("a"), 1h) << "it does not wait for them";
  EXPECT_EQ(ended("b").result, "7");
  EXPECT_EQ(info("b").parent, std::nullopt);
  EXPECT_EQ(info("b").execution, 1);
  EXPECT_THAT(Answer(workflows().children("a")).value(), IsEmpty());
}

const WorkflowType<Bytes()> listening{
    "listening", [](Workflow& wf) -> Task<Bytes> { co_return co_await wf.event<Bytes>("e"); }};

TEST_P(WorkflowFeature, A_workflow_sends_events_to_others) {
  add(listening);
  const WorkflowType<void()> type{"sender", [](Workflow& wf) -> Task<void> {
                                    wf.send_event("early", "e", std::string("before its start"));
                                    wf.send_event("runs", "e", std::string("hello"));
                                    wf.start(listening, "same turn");
                                    wf.send_event("same turn", "e", std::string("at once"));
                                    co_await wf.sleep(1h);
                                  }};
  start(listening, "runs");
  env().run();
  run(type);
  EXPECT_EQ(ended("runs").result, "hello");
  EXPECT_EQ(ended("same turn").result, "at once");
  start(listening, "early");
  env().run();
  EXPECT_EQ(ended("early").result, "before its start");
}

TEST_P(WorkflowDetail, A_workflow_can_send_an_event_to_itself) {
  const WorkflowType<Bytes()> type{"self", [](Workflow& wf) -> Task<Bytes> {
                                     wf.send_event(wf.id(), "e", std::string("note"));
                                     co_return co_await wf.event<Bytes>("e");
                                   }};
  EXPECT_EQ(run(type), "note");
}

// Behaviours: orphan_queue_messages_dropped
TEST_P(WorkflowDetail, What_is_said_to_an_instance_that_has_ended_is_not_heard_by_its_next_run) {
  add(listening);
  start(listening, "b");
  send_event("b", "e", std::string("first"));
  env().run();
  EXPECT_EQ(ended("b").result, "first");
  const WorkflowType<void()> type{"sender", [](Workflow& wf) -> Task<void> {
                                    wf.send_event("b", "e", std::string("too late"));
                                    wf.cancel_other("b");
                                    wf.cancel_other("nobody");
                                    co_await wf.sleep(1h);
                                  }};
  run(type);
  EXPECT_EQ(stats("workflow").live(), 0) << "nothing waits for nobody";
  start(listening, "b", {.if_exists = IfExists::reuse});
  start(listening, "nobody");
  env().run();
  EXPECT_EQ(state("b"), InstanceState::running);
  EXPECT_EQ(state("nobody"), InstanceState::running);
  send_event("b", "e", std::string("second"));
  env().run();
  EXPECT_EQ(ended("b").result, "second");
}

TEST_P(WorkflowFeature, A_workflow_cancels_others) {
  add(listening);
  const WorkflowType<void()> type{"canceller", [](Workflow& wf) -> Task<void> {
                                    wf.cancel_other("b");
                                    co_await wf.sleep(1h);
                                  }};
  start(listening, "b");
  env().run();
  run(type);
  EXPECT_EQ(ended("b").state, InstanceState::cancelled);
  EXPECT_THAT(ended("b").error, HasSubstr("'a'"));
}

TEST_P(WorkflowDetail, What_was_started_in_a_turn_can_be_cancelled_in_it) {
  add(listening);
  const WorkflowType<void()> type{"both", [](Workflow& wf) -> Task<void> {
                                    wf.start(listening, "b");
                                    wf.cancel_other("b");
                                    co_await wf.sleep(1h);
                                  }};
  run(type);
  EXPECT_EQ(state("b"), InstanceState::cancelled);
}

TEST_P(WorkflowDetail, What_an_ending_workflow_says_is_said) {
  const WorkflowType<void()> type{"last", [](Workflow& wf) -> Task<void> {
                                    co_await wf.sleep(1h);
                                    wf.send("mail", 1);
                                    wf.set_status("sent");
                                    throw ApplicationError("end", "now");
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_THAT(bodies_in("mail"), ElementsAre("1"));
  EXPECT_EQ(info("a").status, "sent");
}

}  // namespace
}  // namespace strand::workflow_tests
