#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_result;

namespace strand::postgres {

// The parameters of one statement, in PostgreSQL's binary format, in the order of their $n. All
// values lie in one buffer. The type of a parameter is known by how it was added: a NULL has one.
//
// Limits: a parameter has less than 1 GiB. Text with a NUL byte is refused by the server.
class Params {
 public:
  Params& int8(std::optional<std::int64_t> value);
  Params& int4(std::optional<std::int32_t> value);
  Params& boolean(std::optional<bool> value);
  Params& text(std::optional<std::string_view> value);
  Params& bytea(std::optional<std::string_view> value);

  Params& int8s(std::span<const std::optional<std::int64_t>> values);
  Params& int8s(std::span<const std::int64_t> values);
  Params& int4s(std::span<const std::optional<std::int32_t>> values);
  Params& int4s(std::span<const std::int32_t> values);
  Params& booleans(std::span<const std::optional<bool>> values);
  Params& booleans(std::span<const bool> values);
  Params& texts(std::span<const std::optional<std::string_view>> values);
  Params& byteas(std::span<const std::optional<std::string_view>> values);
  // The same, or NULL when none of them has a value.
  Params& sparse_int8s(std::span<const std::optional<std::int64_t>> values);
  Params& sparse_texts(std::span<const std::optional<std::string_view>> values);
  Params& sparse_byteas(std::span<const std::optional<std::string_view>> values);

  [[nodiscard]] std::size_t size() const { return types_.size(); }
  // How much there is to send.
  [[nodiscard]] std::size_t bytes() const { return buffer_.size(); }

  // As PQsendPrepare and PQsendQueryPrepared want them. Valid until the next change.
  [[nodiscard]] std::span<const unsigned> types() const { return types_; }
  [[nodiscard]] std::span<const int> lengths() const { return lengths_; }
  // Into `pointers`, because the buffer moves while it grows.
  void point_at_values(std::vector<const char*>& pointers) const;

 private:
  void begin(unsigned type);
  void end();
  void null(unsigned type);
  void bytes(unsigned type, std::string_view value);
  template <class Element>
  Params& sparse_array(unsigned type, unsigned element_type,
                       std::span<const std::optional<Element>> values);
  template <class Element>
  Params& array(unsigned type, unsigned element_type, std::span<const Element> values);

  std::string buffer_;
  std::vector<unsigned> types_;
  std::vector<std::size_t> begins_;  // in buffer_; `npos` for NULL
  std::vector<int> lengths_;
};

// The rows that a statement returned, in binary format.
//
// A column is read as the type that the statement gives it; reading it as another one, or a NULL as
// a value, is a bug in the statement, and an assertion stops it.
class Rows {
 public:
  Rows() = default;
  // Takes over the result.
  explicit Rows(pg_result* result) : result_(result) {}

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  // How many rows an INSERT, UPDATE or DELETE has touched, whether it returned them or not.
  [[nodiscard]] std::size_t affected() const;

  [[nodiscard]] bool is_null(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::int64_t int8(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::int32_t int4(std::size_t row, std::size_t column) const;
  [[nodiscard]] bool boolean(std::size_t row, std::size_t column) const;
  // Of text and bytea; valid as long as the rows.
  [[nodiscard]] std::string_view bytes(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_int8(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::optional<std::string> maybe_bytes(std::size_t row, std::size_t column) const;
  // Of arrays. A NULL array is an empty one; a NULL element is not expected (assertion).
  [[nodiscard]] std::vector<std::int64_t> int8s(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::vector<std::string> bytes_array(std::size_t row, std::size_t column) const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  [[nodiscard]] std::string_view value(std::size_t row, std::size_t column, unsigned type) const;
  [[nodiscard]] unsigned type(std::size_t column) const;

  std::unique_ptr<pg_result, Clear> result_;
};

}  // namespace strand::postgres
