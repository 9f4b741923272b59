#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include <strand/error.h>
#include <strand/json.h>
#include <strand/message.h>

namespace strand {

// A type that can be the body of a message: text and bytes as they are, everything else as JSON.
template <class T>
concept Sendable = std::convertible_to<const T&, std::string_view> || json::Convertible<T>;

// A value as the body of a message. Fails for what JSON cannot say: text that is not UTF-8, numbers
// that are infinite or none.
template <Sendable T>
Result<Bytes> to_body(const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    return Bytes(static_cast<std::string_view>(value));
  } else {
    return json::write(value);
  }
}

// A body as a value. Says where it is not one: "lines[2].price: expected a number, found a string".
template <class T>
  requires std::same_as<T, Bytes> || json::Convertible<T>
Result<T> from_body(std::string_view body) {
  if constexpr (std::same_as<T, Bytes>) {
    return Bytes(body);
  } else {
    return json::read<T>(body);
  }
}

}  // namespace strand
