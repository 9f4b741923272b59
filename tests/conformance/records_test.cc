// Records: small versioned values that change in the same transaction as the work.

#include <optional>
#include <string>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Values are bytes.
// Rules: Records
// Behaviours: kv_set_and_get, custom_status_set
TEST_P(StoreConformance, A_record_is_read_as_it_was_written) {
  const Bytes value("v\0\xff", 3);
  const Version version = apply(together(write("state", "k", value))).value().versions.at(0);
  EXPECT_EQ(read_record(store(), "state", "k"),
            (Record{.space = "state", .key = "k", .version = version, .value = value}));
}

// "Not there" is the usual answer before the first write.
// Rules: Records
// Behaviours: kv_get_nonexistent, kv_get_unknown_instance, custom_status_nonexistent_instance
TEST_P(StoreConformance, A_record_that_was_never_written_is_absent_not_an_error) {
  EXPECT_EQ(Answer(store().record("state", "k")).value(), std::nullopt);
  EXPECT_THAT(Answer(store().records({.space = "state", .prefix = {}, .after = {}})).value().items,
              IsEmpty());
}

// Pollers compare versions: each write is a new one, also when the value is the same.
// Rules: Records
// Behaviours: kv_overwrite, custom_status_version_increments, custom_status_polling_no_change
TEST_P(StoreConformance, Every_write_gives_a_record_a_higher_version) {
  const Version first = apply(together(write("state", "k", "v"))).value().versions.at(0);
  const Version second = apply(together(write("state", "k", "v"))).value().versions.at(0);
  EXPECT_GT(first, Version{0});
  EXPECT_GT(second, first);
  EXPECT_EQ(read_record(store(), "state", "k").version, second);
  EXPECT_EQ(read_record(store(), "state", "k").version, second) << "reading changes nothing";
}

// A version that came back would let an old writer believe that nothing had happened (ABA).
// Rules: Records
// Behaviours: kv_set_after_clear, kv_clear_single
TEST_P(StoreConformance, A_record_that_was_removed_comes_back_with_a_version_never_used) {
  const Version first = apply(together(write("state", "k", "v"))).value().versions.at(0);
  const Receipt removed = apply(together(write("state", "k", std::nullopt))).value();
  EXPECT_EQ(removed.versions.at(0), Version{0});
  EXPECT_EQ(Answer(store().record("state", "k")).value(), std::nullopt);

  const Version second = apply(together(write("state", "k", "v"))).value().versions.at(0);
  EXPECT_GT(second, first);
  EXPECT_EQ(apply(together(write("state", "k", "w", first))).error().code, Errc::version_mismatch);
}

// One counter for the store: a version names one write of one record, everywhere.
// Rules: Records
TEST_P(StoreConformance, No_two_writes_of_a_store_have_the_same_version) {
  const Receipt receipt =
      apply(together(write("state", "a", "1"), write("state", "b", "2"), write("other", "a", "3")))
          .value();
  ASSERT_THAT(receipt.versions, SizeIs(3));
  EXPECT_LT(receipt.versions[0], receipt.versions[1]);
  EXPECT_LT(receipt.versions[1], receipt.versions[2]);
  EXPECT_GT(apply(together(write("state", "c", "4"))).value().versions.at(0), receipt.versions[2]);
}

// Absent and empty are different answers to "has it started?".
// Rules: Records
// Behaviours: kv_empty_value, custom_status_clear
TEST_P(StoreConformance, An_empty_value_is_a_value) {
  ASSERT_TRUE(apply(together(write("state", "k", ""))));
  EXPECT_EQ(read_record(store(), "state", "k").value, "");
  EXPECT_EQ(apply(together(write("state", "k", "v", Version{0}))).error().code,
            Errc::version_mismatch);
}

// Compare and set: the base of leader election, of instance starts, of idempotent counters.
// Rules: Records
TEST_P(StoreConformance, A_write_that_expects_the_current_version_succeeds_once) {
  const Version first = apply(together(write("state", "k", "1"))).value().versions.at(0);
  EXPECT_TRUE(apply(together(write("state", "k", "2", first))));
  EXPECT_EQ(apply(together(write("state", "k", "3", first))).error().code, Errc::version_mismatch);
  EXPECT_EQ(read_record(store(), "state", "k").value, "2");
}

// "Start this workflow unless it exists" is a record that expects its own absence.
// Rules: Records
// Behaviours: instance_creation_via_metadata, no_instance_creation_on_enqueue
TEST_P(StoreConformance, Of_two_starts_that_expect_absence_only_the_first_succeeds) {
  const auto start = [](const char* input) {
    return together(send("workflow", key("order-7"), input),
                    write("state", "order-7", input, Version{0}));
  };
  EXPECT_TRUE(apply(start("one")));
  EXPECT_EQ(apply(start("two")).error().code, Errc::version_mismatch);

  EXPECT_EQ(drain("workflow"), Bodies{"one"});
  EXPECT_EQ(read_record(store(), "state", "order-7").value, "one");
}

// Expecting something of nothing is a lost update.
// Rules: Records
TEST_P(StoreConformance, A_write_that_expects_a_version_of_an_absent_record_is_refused) {
  EXPECT_EQ(apply(together(write("state", "k", "v", Version{1}))).error().code,
            Errc::version_mismatch);
  EXPECT_EQ(Answer(store().record("state", "k")).value(), std::nullopt);
}

// Removing is a write like any other.
// Rules: Records
TEST_P(StoreConformance, A_removal_obeys_the_version_that_it_expects) {
  const Version first = apply(together(write("state", "k", "1"))).value().versions.at(0);
  const Version second = apply(together(write("state", "k", "2"))).value().versions.at(0);
  EXPECT_EQ(apply(together(write("state", "k", std::nullopt, first))).error().code,
            Errc::version_mismatch);
  EXPECT_EQ(apply(together(write("state", "k", std::nullopt, Version{0}))).error().code,
            Errc::version_mismatch);
  EXPECT_TRUE(apply(together(write("state", "k", std::nullopt, second))));
}

// Cleaning up twice is no error.
// Rules: Records
// Behaviours: kv_clear_nonexistent_key
TEST_P(StoreConformance, Removing_what_is_not_there_is_fine_unless_a_version_was_expected) {
  EXPECT_TRUE(apply(together(write("state", "k", std::nullopt))));
  EXPECT_TRUE(apply(together(write("state", "k", std::nullopt, Version{0}))));
  EXPECT_EQ(apply(together(write("state", "k", std::nullopt, Version{1}))).error().code,
            Errc::version_mismatch);
}

// Otherwise the result would depend on how the store groups them.
// Rules: Records
// Behaviours: kv_cross_execution_remove_readd
TEST_P(StoreConformance, Writes_of_one_transaction_see_each_other_in_order) {
  const Receipt receipt =
      apply(together(write("state", "k", "1", Version{0}), write("state", "k", std::nullopt),
                     write("state", "k", "2", Version{0})))
          .value();
  ASSERT_THAT(receipt.versions, SizeIs(3));
  EXPECT_EQ(receipt.versions[1], Version{0});
  EXPECT_EQ(read_record(store(), "state", "k").value, "2");
  EXPECT_EQ(read_record(store(), "state", "k").version, receipt.versions[2]);

  EXPECT_EQ(apply(together(write("state", "k", "3"), write("state", "k", "4", receipt.versions[2])))
                .error()
                .code,
            Errc::version_mismatch)
      << "the second write sees the first";
  EXPECT_EQ(read_record(store(), "state", "k").value, "2");
}

// Two libraries in one store must not find each other's keys.
// Rules: Records
// Behaviours: kv_instance_isolation, kv_clear_isolation
TEST_P(StoreConformance, Spaces_are_apart) {
  ASSERT_TRUE(apply(together(write("one", "k", "1"), write("two", "k", "2"))));
  ASSERT_TRUE(apply(together(write("one", "k", std::nullopt))));
  EXPECT_EQ(Answer(store().record("one", "k")).value(), std::nullopt);
  EXPECT_EQ(read_record(store(), "two", "k").value, "2");
}

// Space and key stand side by side in a database key: a join without a length mixes these up.
// Rules: Records S19
// Behaviours: kv_special_chars_in_key
TEST_P(StoreConformance, Spaces_and_keys_of_any_bytes_do_not_run_into_each_other) {
  const std::string nul("\0", 1);
  ASSERT_TRUE(apply(together(write("a", "bc", "1"), write("ab", "c", "2"),
                             write("a" + nul, "b", "3"), write("a", nul + "b", "4"),
                             write("\xff\xff", "\xff", "5"), write("a", "%_'\"\\", "6"))));
  EXPECT_EQ(read_record(store(), "a", "bc").value, "1");
  EXPECT_EQ(read_record(store(), "ab", "c").value, "2");
  EXPECT_EQ(read_record(store(), "a" + nul, "b").value, "3");
  EXPECT_EQ(read_record(store(), "a", nul + "b").value, "4");
  EXPECT_EQ(read_record(store(), "\xff\xff", "\xff").value, "5");
  EXPECT_EQ(read_record(store(), "a", "%_'\"\\").value, "6");
}

}  // namespace
}  // namespace strand::conformance
