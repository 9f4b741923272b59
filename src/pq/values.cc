#include "pq/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <concepts>
#include <type_traits>
#include <utility>

#include <libpq-fe.h>

#include "base/assert.h"

namespace strand::postgres {
namespace {

// The numbers of PostgreSQL's own types are part of its protocol and never change.
namespace oid {
constexpr unsigned boolean = 16;
constexpr unsigned bytea = 17;
constexpr unsigned int8 = 20;
constexpr unsigned int4 = 23;
constexpr unsigned text = 25;
constexpr unsigned varchar = 1043;
constexpr unsigned booleans = 1000;
constexpr unsigned byteas = 1001;
constexpr unsigned int4s = 1007;
constexpr unsigned texts = 1009;
constexpr unsigned int8s = 1016;
}  // namespace oid

constexpr std::size_t null_value = std::string::npos;

template <std::integral Number>
void append_number(std::string& buffer, Number number) {
  auto bits = static_cast<std::make_unsigned_t<Number>>(number);
  if constexpr (std::endian::native == std::endian::little) {
    bits = std::byteswap(bits);
  }
  const auto bytes = std::bit_cast<std::array<char, sizeof(Number)>>(bits);
  buffer.append(bytes.data(), bytes.size());
}

template <std::integral Number>
Number read_number(std::string_view bytes) {
  STRAND_ASSERT(bytes.size() == sizeof(Number), "a number has the size of its type");
  std::make_unsigned_t<Number> bits = 0;
  for (const char byte : bytes) {
    bits = static_cast<decltype(bits)>(static_cast<std::uint64_t>(bits) << 8U |
                                       static_cast<unsigned char>(byte));
  }
  return static_cast<Number>(bits);
}

void append_element(std::string& buffer, std::int64_t value) {
  append_number<std::int32_t>(buffer, sizeof(value));
  append_number(buffer, value);
}

void append_element(std::string& buffer, std::int32_t value) {
  append_number<std::int32_t>(buffer, sizeof(value));
  append_number(buffer, value);
}

void append_element(std::string& buffer, bool value) {
  append_number<std::int32_t>(buffer, 1);
  buffer.push_back(value ? '\1' : '\0');
}

void append_element(std::string& buffer, std::string_view value) {
  STRAND_ASSERT(std::in_range<std::int32_t>(value.size()), "a parameter has less than 1 GiB");
  append_number(buffer, static_cast<std::int32_t>(value.size()));
  buffer.append(value);
}

template <class Value>
void append_element(std::string& buffer, const std::optional<Value>& value) {
  if (value) {
    append_element(buffer, *value);
  } else {
    append_number<std::int32_t>(buffer, -1);
  }
}

// Takes a one-dimensional array apart: dimensions, whether there are NULLs, the type of the
// elements, then the number of elements and the index of the first, then the elements with their
// lengths.
class ArrayReader {
 public:
  explicit ArrayReader(std::string_view bytes) : rest_(bytes) {
    const auto dimensions = number();
    static_cast<void>(number());
    static_cast<void>(number());
    STRAND_ASSERT(dimensions == 0 || dimensions == 1, "an array has one dimension");
    if (dimensions == 1) {
      count_ = static_cast<std::size_t>(number());
      static_cast<void>(number());
    }
  }

  [[nodiscard]] std::size_t size() const { return count_; }

  std::string_view next() {
    const auto length = number();
    STRAND_ASSERT(length >= 0, "no element of this array is NULL");
    return take(static_cast<std::size_t>(length));
  }

 private:
  std::int32_t number() { return read_number<std::int32_t>(take(sizeof(std::int32_t))); }
  std::string_view take(std::size_t length) {
    STRAND_ASSERT(length <= rest_.size(), "an array has as many bytes as it says");
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::string_view rest_;
  std::size_t count_ = 0;
};

}  // namespace

void Params::begin(unsigned type) {
  types_.push_back(type);
  begins_.push_back(buffer_.size());
}

void Params::end() {
  const std::size_t length = buffer_.size() - begins_.back();
  STRAND_ASSERT(length < (std::size_t{1} << 30U), "a parameter has less than 1 GiB");
  lengths_.push_back(static_cast<int>(length));
}

void Params::null(unsigned type) {
  types_.push_back(type);
  begins_.push_back(null_value);
  lengths_.push_back(0);
}

void Params::bytes(unsigned type, std::string_view value) {
  begin(type);
  buffer_.append(value);
  end();
}

Params& Params::int8(std::optional<std::int64_t> value) {
  if (value) {
    begin(oid::int8);
    append_number(buffer_, *value);
    end();
  } else {
    null(oid::int8);
  }
  return *this;
}

Params& Params::int4(std::optional<std::int32_t> value) {
  if (value) {
    begin(oid::int4);
    append_number(buffer_, *value);
    end();
  } else {
    null(oid::int4);
  }
  return *this;
}

Params& Params::boolean(std::optional<bool> value) {
  if (value) {
    bytes(oid::boolean, *value ? std::string_view("\1", 1) : std::string_view("\0", 1));
  } else {
    null(oid::boolean);
  }
  return *this;
}

Params& Params::text(std::optional<std::string_view> value) {
  if (value) {
    bytes(oid::text, *value);
  } else {
    null(oid::text);
  }
  return *this;
}

Params& Params::bytea(std::optional<std::string_view> value) {
  if (value) {
    bytes(oid::bytea, *value);
  } else {
    null(oid::bytea);
  }
  return *this;
}

template <class Element>
Params& Params::array(unsigned type, unsigned element_type, std::span<const Element> values) {
  STRAND_ASSERT(std::in_range<std::int32_t>(values.size()), "a parameter has less than 1 GiB");
  begin(type);
  append_number<std::int32_t>(buffer_, values.empty() ? 0 : 1);
  // Whether there are NULLs; the server looks for itself, and only checks that this is 0 or 1.
  append_number<std::int32_t>(buffer_, 1);
  append_number(buffer_, element_type);
  if (!values.empty()) {
    append_number(buffer_, static_cast<std::int32_t>(values.size()));
    append_number<std::int32_t>(buffer_, 1);
    for (const Element& value : values) {
      append_element(buffer_, value);
    }
  }
  end();
  return *this;
}

template <class Element>
Params& Params::sparse_array(unsigned type, unsigned element_type,
                             std::span<const std::optional<Element>> values) {
  if (std::ranges::any_of(values, [](const auto& value) { return value.has_value(); })) {
    return array(type, element_type, values);
  }
  null(type);
  return *this;
}

Params& Params::sparse_int8s(std::span<const std::optional<std::int64_t>> values) {
  return sparse_array(oid::int8s, oid::int8, values);
}

Params& Params::sparse_texts(std::span<const std::optional<std::string_view>> values) {
  return sparse_array(oid::texts, oid::text, values);
}

Params& Params::sparse_byteas(std::span<const std::optional<std::string_view>> values) {
  return sparse_array(oid::byteas, oid::bytea, values);
}

Params& Params::int8s(std::span<const std::optional<std::int64_t>> values) {
  return array(oid::int8s, oid::int8, values);
}

Params& Params::int8s(std::span<const std::int64_t> values) {
  return array(oid::int8s, oid::int8, values);
}

Params& Params::int4s(std::span<const std::optional<std::int32_t>> values) {
  return array(oid::int4s, oid::int4, values);
}

Params& Params::int4s(std::span<const std::int32_t> values) {
  return array(oid::int4s, oid::int4, values);
}

Params& Params::booleans(std::span<const std::optional<bool>> values) {
  return array(oid::booleans, oid::boolean, values);
}

Params& Params::booleans(std::span<const bool> values) {
  return array(oid::booleans, oid::boolean, values);
}

Params& Params::texts(std::span<const std::optional<std::string_view>> values) {
  return array(oid::texts, oid::text, values);
}

Params& Params::byteas(std::span<const std::optional<std::string_view>> values) {
  return array(oid::byteas, oid::bytea, values);
}

void Params::point_at_values(std::vector<const char*>& pointers) const {
  pointers.clear();
  for (const std::size_t begin : begins_) {
    pointers.push_back(begin == null_value ? nullptr : buffer_.data() + begin);
  }
}

void Rows::Clear::operator()(pg_result* result) const { PQclear(result); }

std::size_t Rows::size() const { return static_cast<std::size_t>(PQntuples(result_.get())); }

std::size_t Rows::affected() const {
  if (result_ == nullptr) {
    return 0;
  }
  const std::string_view text = PQcmdTuples(result_.get());
  std::size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

bool Rows::is_null(std::size_t row, std::size_t column) const {
  STRAND_ASSERT(row < size(), "a row that there is");
  STRAND_ASSERT(column < static_cast<std::size_t>(PQnfields(result_.get())),
                "a column that there is");
  return PQgetisnull(result_.get(), static_cast<int>(row), static_cast<int>(column)) != 0;
}

unsigned Rows::type(std::size_t column) const {
  return PQftype(result_.get(), static_cast<int>(column));
}

std::string_view Rows::value(std::size_t row, std::size_t column, unsigned type) const {
  STRAND_ASSERT(!is_null(row, column), "this column has no NULL");
  STRAND_ASSERT(this->type(column) == type, "the statement returns the type that is read");
  return {PQgetvalue(result_.get(), static_cast<int>(row), static_cast<int>(column)),
          static_cast<std::size_t>(
              PQgetlength(result_.get(), static_cast<int>(row), static_cast<int>(column)))};
}

std::int64_t Rows::int8(std::size_t row, std::size_t column) const {
  return read_number<std::int64_t>(value(row, column, oid::int8));
}

std::int32_t Rows::int4(std::size_t row, std::size_t column) const {
  return read_number<std::int32_t>(value(row, column, oid::int4));
}

bool Rows::boolean(std::size_t row, std::size_t column) const {
  return read_number<std::int8_t>(value(row, column, oid::boolean)) != 0;
}

std::string_view Rows::bytes(std::size_t row, std::size_t column) const {
  STRAND_ASSERT(!is_null(row, column), "this column has no NULL");
  const unsigned found = type(column);
  STRAND_ASSERT(found == oid::bytea || found == oid::text || found == oid::varchar,
                "the statement returns text or bytea");
  return value(row, column, found);
}

std::optional<std::int64_t> Rows::maybe_int8(std::size_t row, std::size_t column) const {
  if (is_null(row, column)) {
    return std::nullopt;
  }
  return int8(row, column);
}

std::optional<std::string> Rows::maybe_bytes(std::size_t row, std::size_t column) const {
  if (is_null(row, column)) {
    return std::nullopt;
  }
  return std::string(bytes(row, column));
}

std::vector<std::int64_t> Rows::int8s(std::size_t row, std::size_t column) const {
  std::vector<std::int64_t> values;
  if (is_null(row, column)) {
    return values;
  }
  ArrayReader array(value(row, column, oid::int8s));
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    values.push_back(read_number<std::int64_t>(array.next()));
  }
  return values;
}

std::vector<std::string> Rows::bytes_array(std::size_t row, std::size_t column) const {
  std::vector<std::string> values;
  if (is_null(row, column)) {
    return values;
  }
  const unsigned found = type(column);
  STRAND_ASSERT(found == oid::byteas || found == oid::texts, "the statement returns such an array");
  ArrayReader array(value(row, column, found));
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    values.emplace_back(array.next());
  }
  return values;
}

}  // namespace strand::postgres
