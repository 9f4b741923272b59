#include "store/sqlite/lists.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/text.h"

namespace strand::sqlite {

namespace {

namespace json = boost::json;

using base::ByteReader;
using base::ByteWriter;
using Carried = engine::LeaseRecord::Carried;

json::string_view as_json(std::string_view text) { return {text.data(), text.size()}; }

void bind_json(const json::array& list, Binder& out) { out.copied_text(json::serialize(list)); }

// The array in the next column; empty, and the row not ok, if there is none.
json::array read_json(Row& row) {
  const std::string_view text = row.text();
  boost::system::error_code error;
  json::value parsed = json::parse(as_json(text), error);
  if (error || !parsed.is_array()) {
    row.fail();
    return {};
  }
  return std::move(parsed.get_array());
}

std::uint64_t number_of(const json::value& value, Row& row) {
  boost::system::error_code error;
  const auto number = value.to_number<std::uint64_t>(error);
  if (error) row.fail();
  return error ? 0 : number;
}

std::int64_t milliseconds_of(const json::value& value, Row& row) {
  boost::system::error_code error;
  const auto number = value.to_number<std::int64_t>(error);
  if (error) row.fail();
  return error ? 0 : number;
}

std::string string_of(const json::value* value, Row& row) {
  if (value == nullptr || !value->is_string()) {
    row.fail();
    return {};
  }
  return {value->get_string().data(), value->get_string().size()};
}

Headers headers_from_bytes(Row& row) {
  ByteReader in(row.blob());
  Headers headers(in.count(2));
  for (Header& header : headers) {
    header.name = in.string();
    header.value = in.string();
  }
  if (!in.done()) row.fail();
  return headers;
}

std::vector<Failure> failures_from_bytes(Row& row) {
  ByteReader in(row.blob());
  std::vector<Failure> failures(in.count(2));
  for (Failure& failure : failures) {
    failure.at = in.time();
    failure.reason = in.string();
  }
  if (!in.done()) row.fail();
  return failures;
}

}  // namespace

void bind_headers(const Headers& headers, Binder& out) {
  if (headers.empty()) return out.null();
  const bool readable = std::ranges::all_of(headers, [](const Header& header) {
    return base::is_utf8(header.name) && base::is_utf8(header.value);
  });
  if (readable) {
    json::array list;
    list.reserve(headers.size());
    for (const Header& header : headers) {
      list.push_back(json::array{as_json(header.name), as_json(header.value)});
    }
    return bind_json(list, out);
  }
  std::string bytes;
  ByteWriter writer(bytes);
  writer.varint(headers.size());
  for (const Header& header : headers) {
    writer.text(header.name);
    writer.text(header.value);
  }
  out.copied_blob(bytes);
}

Headers read_headers(Row& row) {
  if (row.skip_null()) return {};
  if (!row.next_is_text()) return headers_from_bytes(row);
  Headers headers;
  for (const json::value& item : read_json(row)) {
    const json::array* const pair = item.if_array();
    if (pair == nullptr || pair->size() != 2) {
      row.fail();
      return {};
    }
    headers.push_back(
        {.name = string_of(&pair->at(0), row), .value = string_of(&pair->at(1), row)});
  }
  return headers;
}

void bind_failures(const std::vector<Failure>& failures, Binder& out) {
  if (failures.empty()) return out.null();
  const bool readable = std::ranges::all_of(
      failures, [](const Failure& failure) { return base::is_utf8(failure.reason); });
  if (readable) {
    json::array list;
    list.reserve(failures.size());
    for (const Failure& failure : failures) {
      list.push_back(json::object{{"at", std::int64_t{failure.at.time_since_epoch().count()}},
                                  {"reason", as_json(failure.reason)}});
    }
    return bind_json(list, out);
  }
  std::string bytes;
  ByteWriter writer(bytes);
  writer.varint(failures.size());
  for (const Failure& failure : failures) {
    writer.time(failure.at);
    writer.text(failure.reason);
  }
  out.copied_blob(bytes);
}

std::vector<Failure> read_failures(Row& row) {
  if (row.skip_null()) return {};
  if (!row.next_is_text()) return failures_from_bytes(row);
  std::vector<Failure> failures;
  for (const json::value& item : read_json(row)) {
    const json::object* const fields = item.if_object();
    const json::value* const at = fields == nullptr ? nullptr : fields->if_contains("at");
    if (at == nullptr) {
      row.fail();
      return {};
    }
    failures.push_back({.at = Time{Duration{milliseconds_of(*at, row)}},
                        .reason = string_of(fields->if_contains("reason"), row)});
  }
  return failures;
}

void bind_durations(const std::vector<Duration>& durations, Binder& out) {
  if (durations.empty()) return out.null();
  json::array list;
  list.reserve(durations.size());
  for (const Duration duration : durations)
    list.emplace_back(std::int64_t{duration.count()});
  bind_json(list, out);
}

std::vector<Duration> read_durations(Row& row) {
  if (row.skip_null()) return {};
  std::vector<Duration> durations;
  for (const json::value& item : read_json(row))
    durations.emplace_back(milliseconds_of(item, row));
  return durations;
}

void bind_carried(const std::vector<Carried>& messages, Binder& out) {
  if (messages.empty()) return out.null();
  json::array list;
  list.reserve(messages.size());
  for (const Carried& carried : messages) {
    const auto id = static_cast<std::uint64_t>(carried.id);
    if (carried.pull == 0) {
      list.emplace_back(id);
    } else {
      list.push_back(json::array{id, carried.pull});
    }
  }
  bind_json(list, out);
}

std::vector<Carried> read_carried(Row& row) {
  if (row.skip_null()) return {};
  std::vector<Carried> messages;
  for (const json::value& item : read_json(row)) {
    const json::array* const pair = item.if_array();
    if (pair == nullptr) {
      messages.push_back({.id = MessageId{number_of(item, row)}, .pull = 0});
    } else if (pair->size() == 2) {
      messages.push_back(
          {.id = MessageId{number_of(pair->at(0), row)}, .pull = number_of(pair->at(1), row)});
    } else {
      row.fail();
    }
  }
  return messages;
}

}  // namespace strand::sqlite
