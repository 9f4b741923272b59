// Values as JSON and back: every type with its extremes, every complaint, and input that means
// harm.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <strand/body.h>
#include <strand/ids.h>
#include <strand/json.h>

namespace shop {
namespace {

enum class Size : std::uint8_t { small = 1, large = 2 };

// A number in C++, a word in JSON.
enum class Colour : std::uint8_t { red, blue };
[[maybe_unused]] void write_json(strand::json::Writer& out, Colour colour) {
  out.text(colour == Colour::red ? "red" : "blue");
}
[[maybe_unused]] strand::Result<void> read_json(const strand::json::View& in, Colour& colour) {
  const auto word = in.text();
  if (!word) return std::unexpected(word.error());
  if (*word != "red" && *word != "blue") return in.fail("expected red or blue");
  colour = *word == "red" ? Colour::red : Colour::blue;
  return {};
}

struct Line {
  std::string article = {};
  std::uint32_t count = 1;
  std::optional<double> price = {};
  friend bool operator==(const Line&, const Line&) = default;
};
STRAND_JSON(Line, article, count, price)

struct Order {
  std::uint64_t id = 0;
  strand::MessageId message{};
  Size size = Size::small;
  Colour colour = Colour::red;
  std::vector<Line> lines = {};
  std::array<bool, 2> flags = {};
  std::map<std::string, std::int64_t> totals = {};
  strand::Duration patience{0};
  strand::Time placed{};
  std::optional<std::string> note = {};
  friend bool operator==(const Order&, const Order&) = default;
};
STRAND_JSON(Order, id, message, size, colour, lines, flags, totals, patience, placed, note)

struct Branch {
  std::vector<Branch> twigs = {};
};
STRAND_JSON(Branch, twigs)

struct Many {
  int a0 = 0, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, a8 = 8, a9 = 9, a10 = 10,
      a11 = 11, a12 = 12, a13 = 13, a14 = 14, a15 = 15, a16 = 16, a17 = 17, a18 = 18, a19 = 19,
      a20 = 20, a21 = 21, a22 = 22, a23 = 23, a24 = 24, a25 = 25, a26 = 26, a27 = 27, a28 = 28,
      a29 = 29, a30 = 30, a31 = 31;
  friend bool operator==(const Many&, const Many&) = default;
};
STRAND_JSON(Many, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
            a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31)

}  // namespace
}  // namespace shop

namespace strand::json {
namespace {

using namespace std::chrono_literals;

template <class T>
void expect_round_trip(const T& value) {
  const auto text = write(value);
  ASSERT_TRUE(text) << text.error().message;
  const auto back = read<T>(*text);
  ASSERT_TRUE(back) << *text << ": " << back.error().message;
  EXPECT_EQ(*back, value) << *text;
}

template <class T>
std::string complaint(std::string_view text) {
  const auto value = read<T>(text);
  if (value) return "none";
  EXPECT_EQ(value.error().code, Errc::invalid_argument);
  return value.error().message;
}

template <class T>
std::string refusal(const T& value) {
  const auto text = write(value);
  if (text) return "none: " + *text;
  EXPECT_EQ(text.error().code, Errc::invalid_argument);
  return text.error().message;
}

template <class T>
void expect_integer_extremes() {
  expect_round_trip(std::numeric_limits<T>::min());
  expect_round_trip(std::numeric_limits<T>::max());
  expect_round_trip(T{0});
  expect_round_trip(T{1});
}

// --- Round trips ---

TEST(Json, Integers_of_every_size_come_back_exactly) {
  expect_integer_extremes<std::int8_t>();
  expect_integer_extremes<std::uint8_t>();
  expect_integer_extremes<std::int16_t>();
  expect_integer_extremes<std::uint16_t>();
  expect_integer_extremes<std::int32_t>();
  expect_integer_extremes<std::uint32_t>();
  expect_integer_extremes<std::int64_t>();
  expect_integer_extremes<std::uint64_t>();
  // One more than a double can tell from its neighbour.
  expect_round_trip((std::uint64_t{1} << 53U) + 1);
}

TEST(Json, Doubles_come_back_to_the_last_bit) {
  for (const double value : {0.0, -0.0, 0.1, 1.0, -2.5, 1e21, 5e-324, 2.2250738585072014e-308,
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::lowest(), 1.7976931348623155e308}) {
    expect_round_trip(value);
    EXPECT_EQ(std::signbit(read<double>(write(value).value()).value()), std::signbit(value));
  }
  std::mt19937_64 random(20260711);  // NOLINT(cert-msc51-cpp): the same numbers in every run
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) expect_round_trip(value);
  }
}

TEST(Json, Floats_come_back_to_the_last_bit) {
  std::mt19937 random(20260711);  // NOLINT(cert-msc51-cpp): the same numbers in every run
  for (int i = 0; i < 5'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) expect_round_trip(value);
  }
  expect_round_trip(std::numeric_limits<float>::max());
  expect_round_trip(std::numeric_limits<float>::denorm_min());
}

TEST(Json, A_whole_number_is_a_double_too) {
  EXPECT_EQ(read<double>("7"), 7.0);
  EXPECT_EQ(read<double>("18446744073709551615"), 18446744073709551616.0);
  EXPECT_EQ(read<double>("100000000000000000000"), 1e20);
}

TEST(Json, Text_of_any_script_and_control_characters_come_back) {
  using namespace std::string_literals;
  for (const std::string& text : {""s, "plain"s, "\"quoted\\\""s, "\0\x01\n\t\x7f"s, "Grüße"s,
                                  "\U0001F9F5 and \U0010FFFF"s, std::string(100'000, 'x')})
    expect_round_trip(text);
  EXPECT_EQ(read<std::string>(R"("\ud83e\uddf5 \u0041")"), "\U0001F9F5 A");
}

TEST(Json, Lists_maps_and_optionals_come_back) {
  expect_round_trip(std::vector<std::vector<int>>{{}, {1}, {2, 3}});
  expect_round_trip(std::vector<bool>{true, false, true});
  expect_round_trip(std::array<std::string, 3>{"a", "", "c"});
  expect_round_trip(std::array<int, 0>{});
  expect_round_trip(std::map<std::string, std::map<std::string, int>>{{"", {}}, {"a", {{"b", 1}}}});
  expect_round_trip(std::vector<std::optional<int>>{1, std::nullopt, 3});
  expect_round_trip(true);
  expect_round_trip(std::optional<bool>{});
}

TEST(Json, Times_and_durations_come_back_to_the_millisecond) {
  expect_round_trip(Duration{0});
  expect_round_trip(Duration::min());
  expect_round_trip(Duration::max());
  expect_round_trip(Time{1ms});
  expect_round_trip(Time{-1ms});
  expect_round_trip(parse_time("0000-01-01T00:00:00.000Z").value());
  expect_round_trip(parse_time("9999-12-31T23:59:59.999Z").value());
  EXPECT_EQ(write(Time{7ms}), R"("1970-01-01T00:00:00.007Z")");
  EXPECT_EQ(read<Time>(R"("1970-01-01T01:00:00+01:00")"), Time{});
  EXPECT_EQ(write(Duration{90s}), "90000");
}

TEST(Json, A_struct_is_an_object_with_the_names_of_its_members) {
  const shop::Order order{.id = 18446744073709551615ULL,
                          .message = MessageId{7},
                          .size = shop::Size::large,
                          .colour = shop::Colour::blue,
                          .lines = {{.article = "tea", .count = 2, .price = 2.5}, {.article = ""}},
                          .flags = {true, false},
                          .totals = {{"eur", -5}},
                          .patience = 30s,
                          .placed = Time{1s},
                          .note = {}};
  EXPECT_EQ(write(order),
            R"({"id":18446744073709551615,"message":7,"size":2,"colour":"blue",)"
            R"("lines":[{"article":"tea","count":2,"price":2.5E0},{"article":"","count":1}],)"
            R"("flags":[true,false],"totals":{"eur":-5},"patience":30000,)"
            R"("placed":"1970-01-01T00:00:01.000Z"})");
  expect_round_trip(order);
  expect_round_trip(shop::Order{});
  expect_round_trip(shop::Many{});
}

// Whoever sends may be a version ahead, and in any order and spacing.
TEST(Json, Unknown_members_order_and_blanks_do_not_matter) {
  const auto line =
      read<shop::Line>(" {\"count\" : 3,\r\n \"colour\":{\"a\":[1]}, \"article\":\"tea\"}\t\n");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(*line, (shop::Line{.article = "tea", .count = 3, .price = {}}));
}

TEST(Json, An_optional_member_may_be_missing_or_null) {
  EXPECT_EQ(read<shop::Line>(R"({"article":"tea","count":3})")->price, std::nullopt);
  EXPECT_EQ(read<shop::Line>(R"({"article":"tea","count":3,"price":null})")->price, std::nullopt);
  EXPECT_EQ(read<shop::Line>(R"({"article":"tea","count":3,"price":4})")->price, 4.0);
}

// --- Bodies ---

TEST(Json, Text_is_a_body_as_it_is_and_everything_else_is_JSON) {
  EXPECT_EQ(to_body("a\xff"), "a\xff");
  EXPECT_EQ(to_body(std::string("\"a\"")), "\"a\"");
  EXPECT_EQ(to_body(shop::Line{.article = "tea"}), R"({"article":"tea","count":1})");
  EXPECT_EQ(from_body<Bytes>("a\xff"), "a\xff");
  EXPECT_EQ(from_body<std::vector<int>>("[1]"), std::vector<int>{1});
}

static_assert(Convertible<shop::Order> && Convertible<Epoch> &&
              Convertible<std::vector<shop::Size>>);
static_assert(!Convertible<char> && !Convertible<const char*> && !Convertible<long double>);
static_assert(!Convertible<std::optional<std::optional<int>>> && !Convertible<std::map<int, int>>);

// --- Complaints ---

TEST(Json, A_value_of_another_kind_is_named_with_its_path) {
  EXPECT_EQ(complaint<bool>("1"), "expected true or false, found a number");
  EXPECT_EQ(complaint<int>("\"1\""), "expected a whole number, found a string");
  EXPECT_EQ(complaint<std::uint8_t>("null"), "expected a whole number, found null");
  EXPECT_EQ(complaint<double>("true"), "expected a number, found true");
  EXPECT_EQ(complaint<std::string>("{}"), "expected a string, found an object");
  EXPECT_EQ(complaint<shop::Line>("[]"), "expected an object, found an array");
  EXPECT_EQ(complaint<std::vector<int>>("{}"), "expected an array, found an object");
  EXPECT_EQ((complaint<std::array<int, 2>>("3")), "expected an array, found a number");
  EXPECT_EQ((complaint<std::map<std::string, int>>("false")), "expected an object, found false");
  EXPECT_EQ(complaint<Time>("0"), "expected a string, found a number");
  EXPECT_EQ(complaint<Duration>("\"1s\""), "expected a whole number, found a string");
  EXPECT_EQ(complaint<shop::Colour>("2"), "expected a string, found a number");
}

TEST(Json, A_complaint_names_the_path) {
  EXPECT_EQ(complaint<std::vector<shop::Line>>(
                R"([{"article":"a","count":1},{"article":"b","count":1,"price":"dear"}])"),
            "[1].price: expected a number, found a string");
  EXPECT_EQ(
      (complaint<std::map<std::string, std::vector<std::vector<int>>>>(R"({"a":[[1],[2,"x"]]})")),
      "a[1][1]: expected a whole number, found a string");
  EXPECT_EQ((complaint<std::map<std::string, std::vector<shop::Line>>>(R"({"a\n\"":[{}]})")),
            "a\\x0a\"[0].article: missing");
  EXPECT_EQ(complaint<shop::Branch>(R"({"twigs":[{"twigs":[]},{"twigs":[{}]}]})"),
            "twigs[1].twigs[0].twigs: missing");
}

TEST(Json, A_number_out_of_range_is_refused) {
  EXPECT_EQ(complaint<std::uint8_t>("256"), "expected a whole number from 0 to 255, found 256");
  EXPECT_EQ(complaint<std::uint8_t>("-1"), "expected a whole number from 0 to 255, found -1");
  EXPECT_EQ(complaint<std::int8_t>("-129"), "expected a whole number from -128 to 127, found -129");
  EXPECT_EQ(complaint<std::int64_t>("9223372036854775808"),
            "expected a whole number from -9223372036854775808 to 9223372036854775807, "
            "found 9223372036854775808");
  EXPECT_EQ(complaint<std::uint64_t>("18446744073709551616"),
            "expected a whole number from 0 to 18446744073709551615, found 1.8446744073709552E19");
  EXPECT_EQ(complaint<int>("1.5"),
            "expected a whole number from -2147483648 to 2147483647, found 1.5E0");
  EXPECT_EQ(complaint<shop::Size>("256"), "expected a whole number from 0 to 255, found 256");
  EXPECT_EQ(complaint<float>("1e39"), "1e+39 is beyond what a float can hold");
  EXPECT_EQ(complaint<double>("1e400"), "not JSON at byte 5: a number beyond all bounds");
  EXPECT_EQ(complaint<double>("-1e400"), "not JSON at byte 6: a number beyond all bounds");
  EXPECT_EQ(read<double>("1e-400"), 0.0);
}

TEST(Json, What_is_missing_or_wrong_inside_is_said) {
  EXPECT_EQ(complaint<shop::Line>(R"({"article":"a"})"), "count: missing");
  EXPECT_EQ(complaint<shop::Line>(R"({"article":null,"count":1})"),
            "article: expected a string, found null");
  EXPECT_EQ((complaint<std::array<int, 2>>("[1]")), "expected 2 elements, found 1");
  EXPECT_EQ((complaint<std::array<int, 0>>("[1]")), "expected 0 elements, found 1");
  EXPECT_EQ(complaint<shop::Colour>("\"green\""), "expected red or blue");
  EXPECT_EQ(complaint<std::vector<Time>>("[\"yesterday\"]"),
            "[0]: 'yesterday' is not a time; write for example 2026-11-15T06:30:00Z");
}

TEST(Json, A_name_that_occurs_twice_is_refused_even_where_it_is_ignored) {
  EXPECT_EQ(complaint<shop::Line>(R"({"article":"a","count":1,"article":"b"})"),
            "article: not JSON at byte 33: the name occurs twice");
  EXPECT_EQ(complaint<shop::Line>(R"({"article":"a","count":1,"x":[{"y":1,"y":1}]})"),
            "x[0].y: not JSON at byte 39: the name occurs twice");
  EXPECT_EQ((complaint<std::map<std::string, int>>(R"({"a":1,"\u0061":2})")),
            "a: not JSON at byte 14: the name occurs twice");
}

// --- Hostile input ---

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, Nesting_beyond_the_limit_is_refused) {
  EXPECT_TRUE(Document::parse(nested(depth_max)));
  EXPECT_FALSE(Document::parse(nested(depth_max + 1)));
  const auto bomb = Document::parse(std::string(1'000'000, '['));
  ASSERT_FALSE(bomb);
  EXPECT_TRUE(bomb.error().message.ends_with("not JSON at byte 64: too deep"))
      << bomb.error().message;
}

TEST(Json, What_is_not_JSON_is_refused) {
  for (const std::string_view text : {"",
                                      " ",
                                      "{",
                                      "[1",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "nul",
                                      "NaN",
                                      "Infinity",
                                      "+1",
                                      "01",
                                      "1.",
                                      ".5",
                                      "0x1",
                                      "1e",
                                      "1e99999999999",
                                      "// no\n1",
                                      "/**/1",
                                      "1 2",
                                      "[] []",
                                      "{}x",
                                      "\"a",
                                      "\"a\n\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\ud83e\"",
                                      "\"\xff\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\ufeff1",
                                      "{\"a\"}",
                                      "{:1}",
                                      "[,]",
                                      "]",
                                      "}"}) {
    const auto document = Document::parse(text);
    EXPECT_FALSE(document) << text;
    if (!document) {
      EXPECT_NE(document.error().message.find("not JSON at byte "), std::string::npos);
    }
  }
  EXPECT_FALSE(Document::parse(std::string_view("1\0", 2)));
  EXPECT_EQ(complaint<int>("1 2"), "not JSON at byte 2: extra data");
  EXPECT_EQ(complaint<int>(""), "not JSON at byte 0: incomplete JSON");
}

TEST(Json, Long_numbers_and_many_members_are_read) {
  EXPECT_EQ(read<double>("0." + std::string(10'000, '0') + "1"), 0.0);
  EXPECT_EQ(read<double>("1" + std::string(300, '0')), 1e300);
  std::map<std::string, int> many;
  for (int i = 0; i < 50'000; ++i)
    many["name" + std::to_string(i)] = i;
  expect_round_trip(many);
}

// --- What cannot be written ---

TEST(Json, What_JSON_cannot_say_is_refused_with_its_path) {
  shop::Order order{.lines = {{.article = "a"}, {.article = "b"}}};
  order.lines[1].price = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(order), "lines[1].price: inf cannot be written as JSON");
  order.lines[0].article = "\xff";
  EXPECT_EQ(refusal(order), "lines[0].article: text that is not UTF-8 cannot be written as JSON");
  EXPECT_EQ(refusal(std::nan("")), "nan cannot be written as JSON");
  EXPECT_EQ(refusal(std::vector<float>{0, -std::numeric_limits<float>::infinity()}),
            "[1]: -inf cannot be written as JSON");
  EXPECT_EQ(refusal(std::map<std::string, int>{{"a", 1}, {"b\xff", 2}}),
            "a: a name that is not UTF-8 cannot be written as JSON: b\\xff");
  EXPECT_EQ(refusal(Time::max()), "a time beyond the years 0000 to 9999");
  EXPECT_EQ(refusal(Time::min()), "a time beyond the years 0000 to 9999");
}

TEST(Json, What_would_not_be_read_for_its_depth_is_not_written) {
  shop::Branch root;
  shop::Branch* tip = &root;
  for (std::size_t depth = 2; depth < depth_max; depth += 2)
    tip = &tip->twigs.emplace_back();
  EXPECT_TRUE(write(root));
  tip->twigs.emplace_back();
  EXPECT_TRUE(refusal(root).ends_with("nested too deeply")) << refusal(root);
}

TEST(Json, A_writer_notices_parts_that_do_not_fit) {
  const auto error_of = [](const auto& put) {
    Writer out;
    put(out);
    const auto text = out.take();
    return text ? "none: " + *text : text.error().message;
  };
  EXPECT_EQ(error_of([](Writer&) {}), "the JSON value is not complete");
  EXPECT_EQ(error_of([](Writer& out) { out.begin_array(); }), "the JSON value is not complete");
  EXPECT_EQ(error_of([](Writer& out) { out.end_array(); }), "an end without a begin");
  EXPECT_EQ(error_of([](Writer& out) { out.name("a"); }), "a name outside of an object");
  EXPECT_EQ(error_of([](Writer& out) {
              out.begin_object();
              out.null();
            }),
            "a member without a name");
  EXPECT_EQ(error_of([](Writer& out) {
              out.begin_object();
              out.name("a");
              out.name("b");
            }),
            "a: a name behind a name");
  EXPECT_EQ(error_of([](Writer& out) {
              out.begin_object();
              out.name("a");
              out.end_object();
            }),
            "a: an end without a begin");
  EXPECT_EQ(error_of([](Writer& out) {
              out.begin_object();
              out.member("a", 1);
              out.member("a", 2);
            }),
            "a: the name occurs twice");
  EXPECT_EQ(error_of([](Writer& out) {
              out.null();
              out.null();
            }),
            "a second value");
  EXPECT_EQ(error_of([](Writer& out) {
              out.fail("first");
              out.fail("second");
            }),
            "first");
}

TEST(Json, A_writer_can_be_used_again_after_take) {
  Writer out;
  out.fail("no");
  EXPECT_FALSE(out.take());
  out.value(std::vector<int>{1});
  EXPECT_EQ(out.take(), "[1]");
}

}  // namespace
}  // namespace strand::json
