#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include <strand/json.h>

#include "base/assert.h"
#include "base/text.h"

namespace strand::json {

namespace bj = boost::json;

namespace {

std::unexpected<Error> invalid(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

std::string at(std::string_view path, std::string_view what) {
  return path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
}

// Adds a part to a path: "lines" and "[2]" and "price" are "lines[2].price".
void append_name(std::string& path, std::string_view name) {
  if (!path.empty()) path += '.';
  path += base::printable(name);
}
void append_index(std::string& path, std::size_t index) { path += fmt::format("[{}]", index); }

// A value that grows from its beginning to its end: where the next part goes, and where that is.
//
// Each step says what is wrong with it, or nothing. Boost's own parser does the same, but lets a
// name that occurs twice replace the first one.
class Tree {
 public:
  using Problem = std::optional<std::string_view>;

  Tree() = default;
  Tree(Tree&&) noexcept = default;  // once it is complete

  Problem name(std::string_view name) {
    if (open_.empty() || !open_.back()->is_object()) return "a name outside of an object";
    if (named_) return "a name behind a name";
    if (!open_.back()->get_object().emplace(name, nullptr).second) {
      repeated_ = name;
      return "the name occurs twice";
    }
    named_ = true;
    return {};
  }
  Problem put(bj::value value) {
    bj::value* place = nullptr;
    if (const Problem problem = next(place)) return problem;
    *place = std::move(value);
    return {};
  }
  Problem begin(bj::value container) {
    if (open_.size() == depth_max) return "nested too deeply";
    bj::value* place = nullptr;
    if (const Problem problem = next(place)) return problem;
    *place = std::move(container);
    open_.push_back(place);
    return {};
  }
  Problem end(bj::kind kind) {
    if (open_.empty() || open_.back()->kind() != kind || named_) return "an end without a begin";
    open_.pop_back();
    return {};
  }

  [[nodiscard]] bool complete() const { return begun_ && open_.empty(); }
  [[nodiscard]] const bj::value& root() const { return root_; }

  // Of what was begun or named last, or of the name that must not come again.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (const bj::value* value : open_) {
      if (const auto* array = value->if_array(); array != nullptr && !array->empty())
        append_index(path, array->size() - 1);
      if (const auto* object = value->if_object(); object != nullptr && !object->empty())
        append_name(path, last_name(*object));
    }
    return path;
  }

 private:
  [[nodiscard]] std::string_view last_name(const bj::object& object) const {
    if (repeated_ && &object == open_.back()->if_object()) return *repeated_;
    return std::prev(object.end())->key();
  }

  // What is open is a value in the one before it, which does not change meanwhile.
  Problem next(bj::value*& place) {
    if (open_.empty()) {
      if (std::exchange(begun_, true)) return "a second value";
      place = &root_;
    } else if (auto* array = open_.back()->if_array()) {
      place = &array->emplace_back(nullptr);
    } else {
      if (!std::exchange(named_, false)) return "a member without a name";
      place = &std::prev(open_.back()->get_object().end())->value();
    }
    return {};
  }

  bj::value root_;
  std::vector<bj::value*> open_;  // arrays and objects, each in the one before it
  bool begun_ = false;
  bool named_ = false;  // the value for the last name is still to come
  std::optional<std::string> repeated_;
};

// What Boost's parser calls for each part of a text.
class Handler {
 public:
  // Longer ones do not fit the containers.
  static constexpr std::size_t max_object_size = bj::object::max_size();
  static constexpr std::size_t max_array_size = bj::array::max_size();
  static constexpr std::size_t max_key_size = bj::string::max_size();
  static constexpr std::size_t max_string_size = bj::string::max_size();
  using Code = bj::error_code;

  static bool on_document_begin(Code&) { return true; }
  static bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code& code) { return accept(tree_.begin(bj::object()), code); }
  bool on_object_end(std::size_t, Code& code) { return accept(tree_.end(bj::kind::object), code); }
  bool on_array_begin(Code& code) { return accept(tree_.begin(bj::array()), code); }
  bool on_array_end(std::size_t, Code& code) { return accept(tree_.end(bj::kind::array), code); }

  bool on_key_part(bj::string_view part, std::size_t, Code&) { return gather(part); }
  bool on_key(bj::string_view part, std::size_t, Code& code) {
    gather(part);
    const bool accepted = accept(tree_.name(gathered_), code);
    gathered_.clear();
    return accepted;
  }
  bool on_string_part(bj::string_view part, std::size_t, Code&) { return gather(part); }
  bool on_string(bj::string_view part, std::size_t, Code& code) {
    gather(part);
    const bool accepted = accept(tree_.put(bj::string(gathered_)), code);
    gathered_.clear();
    return accepted;
  }

  bool on_number_part(bj::string_view part, Code&) { return gather(part); }
  bool on_int64(std::int64_t number, bj::string_view, Code& code) {
    gathered_.clear();
    return accept(tree_.put(number), code);
  }
  bool on_uint64(std::uint64_t number, bj::string_view, Code& code) {
    gathered_.clear();
    return accept(tree_.put(number), code);
  }
  // Boost reads a double with an error in its last bit: it is read again from its text, so that
  // what was written comes back.
  bool on_double(double nearly, bj::string_view part, Code& code) {
    gather(part);
    double number = 0;
    const char* const end = gathered_.data() + gathered_.size();
    const auto [stop, error] = std::from_chars(gathered_.data(), end, number);
    if (error == std::errc::result_out_of_range) number = std::abs(nearly) < 1 ? 0 : nearly;
    STRAND_ASSERT(error != std::errc::invalid_argument, "a number of JSON is a number");
    gathered_.clear();
    return accept(std::isfinite(number) ? tree_.put(number) : "a number beyond all bounds", code);
  }
  bool on_bool(bool value, Code& code) { return accept(tree_.put(value), code); }
  bool on_null(Code& code) { return accept(tree_.put(nullptr), code); }
  static bool on_comment_part(bj::string_view, Code&) { return false; }
  static bool on_comment(bj::string_view, Code&) { return false; }

  [[nodiscard]] const Tree& tree() const { return tree_; }
  Tree& tree() { return tree_; }
  [[nodiscard]] Tree::Problem problem() const { return problem_; }

 private:
  bool gather(std::string_view part) {
    gathered_ += part;
    return true;
  }
  bool accept(Tree::Problem problem, Code& code) {
    if (!problem) return true;
    problem_ = problem;
    code = bj::error::syntax;
    return false;
  }

  Tree tree_;
  std::string gathered_;
  Tree::Problem problem_;
};

std::string_view kind_name(const bj::value& value) {
  switch (value.kind()) {
    case bj::kind::null:
      return "null";
    case bj::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case bj::kind::int64:
    case bj::kind::uint64:
    case bj::kind::double_:
      return "a number";
    case bj::kind::string:
      return "a string";
    case bj::kind::array:
      return "an array";
    case bj::kind::object:
      return "an object";
  }
  STRAND_ASSERT(false, "every kind of value has a name");
  return {};
}

}  // namespace

// --- Writer ---

struct Writer::State {
  Tree tree;
  std::optional<std::string> error;

  void keep(Tree::Problem problem) {
    if (problem) fail(*problem);
  }
  void fail(std::string_view what) {
    if (!error) error = at(tree.path(), what);
  }
};

Writer::Writer() : state_(std::make_unique<State>()) {}
Writer::~Writer() = default;

// After an error nothing is added: what would be is in vain, and could be without end.
void Writer::begin_object() {
  if (!state_->error) state_->keep(state_->tree.begin(bj::object()));
}
void Writer::end_object() {
  if (!state_->error) state_->keep(state_->tree.end(bj::kind::object));
}
void Writer::begin_array() {
  if (!state_->error) state_->keep(state_->tree.begin(bj::array()));
}
void Writer::end_array() {
  if (!state_->error) state_->keep(state_->tree.end(bj::kind::array));
}

void Writer::name(std::string_view name) {
  if (state_->error) return;
  if (!base::is_utf8(name))
    return fail(fmt::format("a name that is not UTF-8 cannot be written as JSON: {}",
                            base::printable(name)));
  state_->keep(state_->tree.name(name));
}

void Writer::null() {
  if (!state_->error) state_->keep(state_->tree.put(nullptr));
}
void Writer::boolean(bool value) {
  if (!state_->error) state_->keep(state_->tree.put(value));
}
void Writer::integer(std::int64_t value) {
  if (!state_->error) state_->keep(state_->tree.put(value));
}
void Writer::unsigned_integer(std::uint64_t value) {
  if (!state_->error) state_->keep(state_->tree.put(value));
}

void Writer::number(double value) {
  if (state_->error) return;
  state_->keep(state_->tree.put(value));
  if (!std::isfinite(value)) fail(fmt::format("{} cannot be written as JSON", value));
}

void Writer::text(std::string_view value) {
  if (state_->error) return;
  state_->keep(state_->tree.put(bj::string(value)));
  if (!base::is_utf8(value)) fail("text that is not UTF-8 cannot be written as JSON");
}

void Writer::fail(std::string_view what) { state_->fail(what); }

Result<std::string> Writer::take() {
  const auto state = std::exchange(state_, std::make_unique<State>());
  if (state->error) return invalid(*state->error);
  if (!state->tree.complete()) return invalid("the JSON value is not complete");
  return bj::serialize(state->tree.root());
}

// --- Document and View ---

struct Document::State {
  Tree tree;
};

Document::Document(std::unique_ptr<State> state) : state_(std::move(state)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Result<Document> Document::parse(std::string_view text) {
  bj::parse_options options;
  options.max_depth = depth_max;
  bj::basic_parser<Handler> parser(options);
  bj::error_code code;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), code);
  if (!code && used < text.size()) code = bj::error::extra_data;
  Handler& handler = parser.handler();
  if (code) {
    const std::string why = handler.problem() ? std::string(*handler.problem()) : code.message();
    return invalid(at(handler.tree().path(), fmt::format("not JSON at byte {}: {}", used, why)));
  }
  return Document(std::make_unique<State>(std::move(handler.tree())));
}

View Document::view() const { return {&state_->tree.root(), nullptr}; }

namespace {

const bj::value& value_at(const void* node) { return *static_cast<const bj::value*>(node); }

}  // namespace

bool View::is_null() const { return value_at(node_).is_null(); }

Result<bool> View::boolean() const {
  const bool* const found = value_at(node_).if_bool();
  if (found == nullptr) return expected("true or false");
  return *found;
}

Result<std::int64_t> View::integer(std::int64_t min, std::int64_t max) const {
  const bj::value& value = value_at(node_);
  const std::int64_t* const found = value.if_int64();
  if (found != nullptr && *found >= min && *found <= max) return *found;
  if (!value.is_number()) return expected("a whole number");
  return fail(fmt::format("expected a whole number from {} to {}, found {}", min, max,
                          bj::serialize(value)));
}

Result<std::uint64_t> View::unsigned_integer(std::uint64_t max) const {
  const bj::value& value = value_at(node_);
  if (!value.is_number()) return expected("a whole number");
  const std::int64_t* const small = value.if_int64();
  const std::uint64_t* const large = value.if_uint64();
  if (small != nullptr && *small >= 0 && static_cast<std::uint64_t>(*small) <= max)
    return static_cast<std::uint64_t>(*small);
  if (large != nullptr && *large <= max) return *large;
  return fail(
      fmt::format("expected a whole number from 0 to {}, found {}", max, bj::serialize(value)));
}

Result<double> View::number() const {
  const bj::value& value = value_at(node_);
  if (const auto* found = value.if_double()) return *found;
  if (const auto* found = value.if_int64()) return static_cast<double>(*found);
  if (const auto* found = value.if_uint64()) return static_cast<double>(*found);
  return expected("a number");
}

Result<std::string_view> View::text() const {
  const bj::string* const found = value_at(node_).if_string();
  if (found == nullptr) return expected("a string");
  return std::string_view(found->data(), found->size());
}

Result<std::size_t> View::element_count() const {
  const bj::array* const found = value_at(node_).if_array();
  if (found == nullptr) return expected("an array");
  return found->size();
}

Result<void> View::for_each_element(const Each& each) const {
  const bj::array* const found = value_at(node_).if_array();
  if (found == nullptr) return expected("an array");
  for (std::size_t i = 0; i < found->size(); ++i) {
    View element(&(*found)[i], this);
    element.index_ = i;
    if (auto done = each(element); !done) return done;
  }
  return {};
}

Result<void> View::for_each_member(const Each& each) const {
  if (auto is_object = expect_object(); !is_object) return is_object;
  for (const auto& pair : value_at(node_).get_object()) {
    View member(&pair.value(), this);
    member.name_ = pair.key();
    if (auto done = each(member); !done) return done;
  }
  return {};
}

Result<void> View::expect_object() const {
  if (!value_at(node_).is_object()) return expected("an object");
  return {};
}

std::optional<View> View::find(std::string_view name) const {
  const bj::object* const object = value_at(node_).if_object();
  const bj::value* const found = object == nullptr ? nullptr : object->if_contains(name);
  if (found == nullptr) return std::nullopt;
  View member(found, this);
  member.name_ = name;
  return member;
}

// Stands for a member that is not there, for its path.
View View::missing(std::string_view name) const {
  View member(nullptr, this);
  member.name_ = name;
  return member;
}

std::unexpected<Error> View::expected(std::string_view what) const {
  return fail(fmt::format("expected {}, found {}", what, kind_name(value_at(node_))));
}

std::unexpected<Error> View::fail(std::string_view what) const { return invalid(at(path(), what)); }

std::string View::path() const {
  if (parent_ == nullptr) return {};
  std::string path = parent_->path();
  if (value_at(parent_->node_).is_array()) {
    append_index(path, index_);
  } else {
    append_name(path, name_);
  }
  return path;
}

// --- Types ---

Result<void> Codec<float>::read(const View& in, float& value) {
  const Result<double> found = in.number();
  if (!found) return std::unexpected(found.error());
  if (std::abs(*found) > static_cast<double>(std::numeric_limits<float>::max()))
    return in.fail(fmt::format("{} is beyond what a float can hold", *found));
  value = static_cast<float>(*found);
  return {};
}

Result<void> Codec<Duration>::read(const View& in, Duration& value) {
  std::int64_t ms = 0;
  auto done = in.value(ms);
  if (done) value = Duration{ms};
  return done;
}

void Codec<Time>::write(Writer& out, Time value) {
  const std::string text = format_time(value);
  out.text(text);
  // What lies beyond is shown as the nearest that RFC 3339 can say.
  if (parse_time(text) != value) out.fail("a time beyond the years 0000 to 9999");
}

Result<void> Codec<Time>::read(const View& in, Time& value) {
  const Result<std::string_view> text = in.text();
  if (!text) return std::unexpected(text.error());
  const Result<Time> time = parse_time(*text);
  if (!time) return in.fail(time.error().message);
  value = *time;
  return {};
}

}  // namespace strand::json
