#include "pq/values.h"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using ::testing::ElementsAre;

class Values : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (!IsSkipped()) {
      connection_ = connect_to(url());
    }
  }
  Rows ask(const std::string& sql, Params params) {
    return query(*connection_, sql, std::move(params));
  }

 private:
  std::unique_ptr<Connection> connection_;
};

TEST_F(Values, Numbers_come_back_with_sign_and_all_bits) {
  using Int8 = std::numeric_limits<std::int64_t>;
  using Int4 = std::numeric_limits<std::int32_t>;
  const std::array<std::int64_t, 6> wide{0, 1, -1, 0x0102030405060708, Int8::min(), Int8::max()};
  const std::array<std::int32_t, 6> narrow{0, 1, -1, 0x01020304, Int4::min(), Int4::max()};
  for (std::size_t i = 0; i < wide.size(); ++i) {
    // Text besides: a mistake in both directions would cancel out.
    const Rows rows =
        ask("SELECT $1, $1::text, $2, $2::text", Params().int8(wide[i]).int4(narrow[i]));
    EXPECT_EQ(rows.int8(0, 0), wide[i]);
    EXPECT_EQ(rows.bytes(0, 1), std::to_string(wide[i]));
    EXPECT_EQ(rows.int4(0, 2), narrow[i]);
    EXPECT_EQ(rows.bytes(0, 3), std::to_string(narrow[i]));
  }
}

TEST_F(Values, Booleans_come_back) {
  const Rows rows = ask("SELECT $1, $2, $1::text, $2::text", Params().boolean(true).boolean(false));
  EXPECT_TRUE(rows.boolean(0, 0));
  EXPECT_FALSE(rows.boolean(0, 1));
  EXPECT_EQ(rows.bytes(0, 2), "true");
  EXPECT_EQ(rows.bytes(0, 3), "false");
}

TEST_F(Values, Text_and_bytes_come_back_whatever_is_in_them) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) {
    every_byte.push_back(static_cast<char>(i));
  }
  const Rows rows =
      ask("SELECT $1, $2, $3, length($3), $4::varchar(20)",
          Params().text("").text("Gr\u00fc\u00dfe '\"\\").bytea(every_byte).text("x"));
  EXPECT_EQ(rows.bytes(0, 0), "");
  EXPECT_EQ(rows.bytes(0, 1), "Gr\u00fc\u00dfe '\"\\");
  EXPECT_EQ(rows.bytes(0, 2), every_byte);
  EXPECT_EQ(rows.int4(0, 3), 256);
  EXPECT_EQ(rows.bytes(0, 4), "x");
}

// NULL is not the empty value.
TEST_F(Values, Nulls_of_every_type_are_null) {
  const Rows rows = ask("SELECT $1, $2, $3, $4, $5, $6",
                        Params().int8({}).int4({}).boolean({}).text({}).bytea({}).text(""));
  for (std::size_t column = 0; column < 5; ++column) {
    EXPECT_TRUE(rows.is_null(0, column)) << column;
  }
  EXPECT_FALSE(rows.is_null(0, 5));
  EXPECT_EQ(rows.maybe_int8(0, 0), std::nullopt);
  EXPECT_EQ(rows.maybe_bytes(0, 4), std::nullopt);
  EXPECT_EQ(rows.maybe_bytes(0, 5), "");
}

TEST_F(Values, Arrays_come_back) {
  const std::vector<std::int64_t> numbers{1, -2, 3};
  const std::vector<std::optional<std::string_view>> words{"a", "", "with\0NUL"sv};
  const std::vector<std::optional<std::string_view>> texts{"x,y", "{}", "\""};
  const Rows rows = ask("SELECT $1, $2, $3", Params().int8s(numbers).byteas(words).texts(texts));
  EXPECT_THAT(rows.int8s(0, 0), ElementsAre(1, -2, 3));
  EXPECT_THAT(rows.bytes_array(0, 1), ElementsAre("a", "", "with\0NUL"s));
  EXPECT_THAT(rows.bytes_array(0, 2), ElementsAre("x,y", "{}", "\""));
}

TEST_F(Values, Arrays_of_numbers_and_booleans_arrive_as_they_were) {
  const std::array<std::int32_t, 2> narrow{7, -7};
  const std::array<bool, 3> flags{true, false, true};
  const Rows rows = ask("SELECT $1::text, $2::text", Params().int4s(narrow).booleans(flags));
  EXPECT_EQ(rows.bytes(0, 0), "{7,-7}");
  EXPECT_EQ(rows.bytes(0, 1), "{t,f,t}");
}

TEST_F(Values, Elements_may_be_null) {
  const std::array<std::optional<std::int64_t>, 3> wide{1, std::nullopt, 3};
  const std::array<std::optional<std::int32_t>, 2> narrow{std::nullopt, 2};
  const std::array<std::optional<bool>, 2> flags{false, std::nullopt};
  const std::array<std::optional<std::string_view>, 3> words{"", std::nullopt, "NULL"};
  const Rows rows =
      ask("SELECT $1::text, $2::text, $3::text, $4::text, $5::text",
          Params().int8s(wide).int4s(narrow).booleans(flags).texts(words).byteas(words));
  EXPECT_EQ(rows.bytes(0, 0), "{1,NULL,3}");
  EXPECT_EQ(rows.bytes(0, 1), "{NULL,2}");
  EXPECT_EQ(rows.bytes(0, 2), "{f,NULL}");
  EXPECT_EQ(rows.bytes(0, 3), R"({"",NULL,"NULL"})");
  EXPECT_EQ(rows.bytes(0, 4), R"({"\\x",NULL,"\\x4e554c4c"})");
}

TEST_F(Values, An_empty_array_and_a_null_one_are_read_as_empty) {
  const Rows rows = ask("SELECT $1, $2, NULL::int8[], NULL::bytea[], $1 IS NULL",
                        Params().int8s(std::span<const std::int64_t>()).byteas({}));
  EXPECT_TRUE(rows.int8s(0, 0).empty());
  EXPECT_TRUE(rows.bytes_array(0, 1).empty());
  EXPECT_TRUE(rows.int8s(0, 2).empty());
  EXPECT_TRUE(rows.bytes_array(0, 3).empty());
  EXPECT_FALSE(rows.boolean(0, 4));
}

TEST_F(Values, Large_arrays_come_back) {
  std::vector<std::int64_t> numbers(1'000'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int64_t>(i * 0x9E3779B97F4A7C15U);
  }
  std::vector<std::string> kept(20'000);
  std::vector<std::optional<std::string_view>> words;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] = std::string(i % 500, static_cast<char>(i));
    words.emplace_back(kept[i]);
  }
  const Rows rows = ask("SELECT $1, $2", Params().int8s(numbers).byteas(words));
  EXPECT_EQ(rows.int8s(0, 0), numbers);
  EXPECT_EQ(rows.bytes_array(0, 1), kept);
}

TEST_F(Values, Rows_come_in_order_and_say_how_many_were_touched) {
  const Rows rows = ask("SELECT i::int8 FROM generate_series(1, 1000) AS i", {});
  ASSERT_EQ(rows.size(), 1000U);
  EXPECT_EQ(rows.int8(0, 0), 1);
  EXPECT_EQ(rows.int8(999, 0), 1000);
  ask("CREATE TABLE touched (i int8)", {});
  EXPECT_EQ(ask("INSERT INTO touched SELECT generate_series(1, 7)", {}).affected(), 7U);
  const Rows none = ask("DELETE FROM touched WHERE i > 7 RETURNING i", {});
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.affected(), 0U);
}

using ValuesDeathTest = Values;

// Reading a column as another type would give nonsense, not an error.
TEST_F(ValuesDeathTest, Reading_another_type_or_a_null_is_a_bug) {
  const Rows rows = ask("SELECT $1, NULL::int8, array[1, NULL]::int8[]", Params().int4(1));
  EXPECT_DEATH(static_cast<void>(rows.int8(0, 0)), "the type that is read");
  EXPECT_DEATH(static_cast<void>(rows.bytes(0, 0)), "text or bytea");
  EXPECT_DEATH(static_cast<void>(rows.int8(0, 1)), "no NULL");
  EXPECT_DEATH(static_cast<void>(rows.int8s(0, 2)), "no element of this array is NULL");
  EXPECT_DEATH(static_cast<void>(rows.int4(1, 0)), "a row that there is");
}

}  // namespace
}  // namespace strand::postgres
