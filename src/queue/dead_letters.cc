#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/dead_letters.h>

#include "base/text.h"

namespace strand {

namespace {

constexpr std::size_t page_items = 100;
// Of one transaction, well below its limits.
constexpr std::size_t slice_items_max = 1'000;
constexpr std::size_t slice_bytes_max = std::size_t{4} << 20U;

}  // namespace

struct DeadLetters::Item {
  MessageId id{};
  Time due{};
  std::size_t bytes = 0;  // that a transaction moves with it

  explicit Item(MessageId named) : id(named) {}
  explicit Item(const DeadLetter& letter) : id(letter.id), due(letter.due) {
    bytes = letter.body.size();
    for (const Header& header : letter.headers)
      bytes += header.name.size() + header.value.size();
  }
};

// --- Looking ---

Result<Page<DeadLetter>> DeadLetters::list(std::optional<MessageId> after, std::size_t limit) {
  return store_.dead_letters({.queue = queue_, .after = after, .limit = limit});
}

Result<DeadLetter> DeadLetters::get(MessageId id) {
  const auto number = static_cast<std::uint64_t>(id);
  auto page = list(number == 0 ? std::nullopt : std::optional(MessageId{number - 1}), 1);
  if (!page) return std::unexpected(std::move(page.error()));
  if (page->items.empty() || page->items.front().id != id) {
    return failure(Errc::not_found, fmt::format("queue '{}' has no dead letter {}",
                                                base::printable(queue_), number));
  }
  return std::move(page->items.front());
}

Result<void> DeadLetters::each(const std::function<bool(const DeadLetter&)>& visit) {
  std::optional<MessageId> after;
  while (true) {
    const auto page = list(after, page_items);
    if (!page) return std::unexpected(page.error());
    for (const DeadLetter& letter : page->items) {
      if (!visit(letter)) return {};
    }
    if (!page->more || page->items.empty()) return {};
    after = page->items.back().id;
  }
}

Result<Page<PeekedMessage>> DeadLetters::in_backoff(std::optional<MessageId> after,
                                                    std::size_t limit) {
  return store_.peek(
      {.queue = queue_, .state = MessageState::backoff, .after = after, .limit = limit});
}

// --- Redrive and drop ---

Result<std::uint64_t> DeadLetters::redrive(const std::vector<MessageId>& ids,
                                           const std::optional<std::string>& to) {
  if (!to || *to == queue_)
    return apply_in_slices({ids.begin(), ids.end()}, redriving(to), IfGone::fail);
  auto items = find(ids);
  if (!items) return std::unexpected(std::move(items.error()));
  return apply_in_slices(*items, redriving(to), IfGone::fail);
}

Result<std::uint64_t> DeadLetters::redrive_all(const std::optional<std::string>& to) {
  auto items = find_all();
  if (!items) return std::unexpected(std::move(items.error()));
  return apply_in_slices(*items, redriving(to), IfGone::pass_over);
}

Result<std::uint64_t> DeadLetters::drop(const std::vector<MessageId>& ids) {
  return apply_in_slices({ids.begin(), ids.end()}, dropping(), IfGone::fail);
}

Result<std::uint64_t> DeadLetters::drop_all() {
  auto items = find_all();
  if (!items) return std::unexpected(std::move(items.error()));
  return apply_in_slices(*items, dropping(), IfGone::pass_over);
}

DeadLetters::MakeOperation DeadLetters::redriving(const std::optional<std::string>& to) const {
  return [this, to](std::vector<MessageId> ids) -> Administration {
    return Redrive{.queue = queue_, .ids = std::move(ids), .to = to};
  };
}

DeadLetters::MakeOperation DeadLetters::dropping() const {
  return [this](std::vector<MessageId> ids) -> Administration {
    return DropDead{.queue = queue_, .ids = std::move(ids)};
  };
}

namespace {

// The order of a lane. In another queue they get new places, one behind the other.
void sort_by_place(auto& items) {
  std::ranges::sort(items, {}, [](const auto& item) { return std::tuple(item.due, item.id); });
}

}  // namespace

Result<std::vector<DeadLetters::Item>> DeadLetters::find(const std::vector<MessageId>& ids) {
  std::vector<Item> items;
  for (const MessageId id : ids) {
    const auto letter = get(id);
    if (!letter) return std::unexpected(letter.error());
    items.emplace_back(*letter);
  }
  sort_by_place(items);
  return items;
}

Result<std::vector<DeadLetters::Item>> DeadLetters::find_all() {
  std::vector<Item> items;
  auto seen = each([&](const DeadLetter& letter) {
    items.emplace_back(letter);
    return true;
  });
  if (!seen) return std::unexpected(std::move(seen.error()));
  sort_by_place(items);
  return items;
}

Result<std::uint64_t> DeadLetters::apply(std::vector<MessageId> ids, const MakeOperation& make) {
  Transaction transaction;
  transaction.admin = make(std::move(ids));
  const Result<Receipt> receipt = store_.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->affected;
}

// One by one, for when some of them are gone.
Result<std::uint64_t> DeadLetters::apply_to_those_left(const std::vector<MessageId>& ids,
                                                       const MakeOperation& make) {
  std::uint64_t count = 0;
  for (const MessageId id : ids) {
    const auto done = apply({id}, make);
    if (!done && done.error().code != Errc::not_found) return done;
    count += done.value_or(0);
  }
  return count;
}

Result<std::uint64_t> DeadLetters::apply_in_slices(const std::vector<Item>& items,
                                                   const MakeOperation& make, IfGone if_gone) {
  std::uint64_t count = 0;
  for (auto next = items.begin(); next != items.end();) {
    std::vector<MessageId> slice;
    std::size_t bytes = 0;
    do {
      bytes += next->bytes;
      slice.push_back(next++->id);
    } while (next != items.end() && slice.size() < slice_items_max &&
             bytes + next->bytes <= slice_bytes_max);
    auto done = apply(slice, make);
    if (!done && done.error().code == Errc::not_found && if_gone == IfGone::pass_over)
      done = apply_to_those_left(slice, make);
    if (!done) {
      if (count > 0) done.error().message += fmt::format(" ({} done before it)", count);
      return done;
    }
    count += *done;
  }
  return count;
}

}  // namespace strand
