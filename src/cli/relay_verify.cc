#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/relay.h"
#include "pq/connection.h"
#include "relay/config.h"
#include "relay/outbox.h"
#include "relay/verify_outbox.h"

// relay verify: what is in Kafka against what is in the table

namespace strand::cli {

namespace {

using relay::OutboxVerified;
using relay::VerifyFinding;

struct VerifyOptions : RelayCommon {
  std::vector<std::string> topics = {};
  std::optional<std::string> expected = {};
  std::optional<Duration> timeout = {};
  bool allow_unknown = false;
};

void declare_verify(CLI::App& app, VerifyOptions& options) {
  declare_relay_common(app, options);
  add_values(app, "--topic", "TOPIC", "Reads this topic too; may be repeated",
             [&options](std::string_view text) -> Result<void> {
               options.topics.emplace_back(text);
               return {};
             });
  add_text(app, "--expected", options.expected, "FILE",
           R"(Rows that must be there, in commit order, as lines {"id": "…", "key": "…"}; for )"
           "tables whose sent rows are deleted");
  add_flag(
      app, "--allow-unknown", options.allow_unknown,
      "Messages that are of no row are no fault: their rows were deleted, or others write too");
  add_duration(app, "--timeout", options.timeout, "How long Kafka may be silent (30s)");
}

Result<std::vector<relay::ExpectedRow>> read_expected(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return failure(Errc::not_found, fmt::format("cannot read {}", base::printable(path)));
  }
  auto rows = relay::parse_expected(text);
  if (!rows) {
    return failure(rows.error().code,
                   fmt::format("{}, {}", base::printable(path), rows.error().message));
  }
  return rows;
}

std::string place(const relay::TopicMessage& at, const OutboxVerified& verified) {
  return fmt::format("topic {}, partition {}, offset {}", verified.topics[at.topic], at.partition,
                     at.offset);
}

// One sentence for people.
std::string describe(const VerifyFinding& finding, const OutboxVerified& verified) {
  const std::string id = base::printable(finding.id);
  const std::string entity = base::printable(finding.entity);
  const std::string other = base::printable(finding.other);
  const std::string where = finding.at ? place(*finding.at, verified) : "";
  switch (finding.kind) {
    case VerifyFinding::Kind::missing:
      return fmt::format("row {} of {} was sent, and is in no topic", id, entity);
    case VerifyFinding::Kind::gap:
      return fmt::format("row {} of {} is in no topic, and the later row {} is", id, entity, other);
    case VerifyFinding::Kind::reordered:
      return fmt::format("row {} of {} comes after the later row {} ({})", id, entity, other,
                         where);
    case VerifyFinding::Kind::wrong_key:
      return fmt::format("row {} of {} has the key {} ({})", id, entity,
                         base::printable(finding.at->key), where);
    case VerifyFinding::Kind::unknown:
      return fmt::format("there is no row {} ({}); if that is right, say --allow-unknown", id,
                         where);
    case VerifyFinding::Kind::without_id:
      return fmt::format(
          "a message without a header id ({}); if that is right, say "
          "--allow-unknown",
          where);
    case VerifyFinding::Kind::twice:
      return fmt::format("two rows have the id {}", id);
  }
  std::unreachable();
}

boost::json::object to_json(const std::string& table, const OutboxVerified& verified) {
  const relay::VerifyReport& report = verified.report;
  boost::json::array topics;
  for (std::size_t i = 0; i < verified.topics.size(); ++i) {
    std::int64_t partitions = 0;
    std::int64_t deleted = 0;
    for (const relay::TopicRange& range : verified.ranges) {
      if (range.topic != i) continue;
      ++partitions;
      deleted += range.begin;
    }
    topics.push_back(boost::json::object{
        {"topic", verified.topics[i]}, {"partitions", partitions}, {"deleted", deleted}});
  }
  boost::json::array findings;
  for (const VerifyFinding& finding : report.findings) {
    findings.push_back(boost::json::object{{"kind", to_string(finding.kind)},
                                           {"entity", base::printable(finding.entity)},
                                           {"id", base::printable(finding.id)},
                                           {"what", describe(finding, verified)}});
  }
  return {{"table", table},
          {"ok", report.ok},
          {"rows", report.rows},
          {"sent", report.sent},
          {"entities", report.entities},
          {"messages", report.messages},
          {"delivered", report.delivered},
          {"repeated", report.repeated},
          {"spread", report.spread},
          {"missing", report.missing},
          {"gaps", report.gaps},
          {"reordered", report.reordered},
          {"wrong_key", report.wrong_key},
          {"unknown", report.unknown},
          {"without_id", report.without_id},
          {"twice", report.twice},
          {"topics", std::move(topics)},
          {"findings", std::move(findings)}};
}

void print_text(const std::string& table, const OutboxVerified& verified, Output& output) {
  const relay::VerifyReport& report = verified.report;
  output.text(fmt::format("{}: {} rows of {} entities, {} sent; {} messages, {} of them again\n",
                          table, report.rows, report.entities, report.sent, report.messages,
                          report.repeated));
  for (const std::string& topic : verified.absent)
    output.text(fmt::format("  there is no topic {}\n", topic));
  for (const relay::TopicRange& range : verified.ranges) {
    if (range.begin == 0) continue;
    output.text(
        fmt::format("  topic {}, partition {} begins at offset {}: Kafka has deleted what "
                    "was before, and rows may be missing for that\n",
                    verified.topics[range.topic], range.partition, range.begin));
  }
  if (report.spread > 0) {
    output.text(
        fmt::format("  {} entities are in several partitions; their order was compared "
                    "within each\n",
                    report.spread));
  }
  for (const VerifyFinding& finding : report.findings)
    output.text(fmt::format("  {}: {}\n", to_string(finding.kind), describe(finding, verified)));
  if (report.ok) {
    output.text("  every row that was sent is there, and first deliveries are in commit order\n");
  }
}

std::uint64_t faults(const relay::VerifyReport& report, bool allow_unknown) {
  const std::uint64_t foreign = allow_unknown ? 0 : report.unknown + report.without_id;
  return report.missing + report.gaps + report.reordered + report.wrong_key + report.twice +
         foreign;
}

Exit run_verify(const VerifyOptions& options, Output& output) {
  const auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  relay::VerifyOutboxOptions wanted{.topics = options.topics,
                                    .allow_unknown = options.allow_unknown};
  if (options.timeout) wanted.timeout = *options.timeout;
  if (options.expected) {
    if (config->tables.size() != 1) {
      return wrong_usage("--expected is for one table; name it with --table");
    }
    auto rows = read_expected(*options.expected);
    if (!rows) return fail(rows.error());
    wanted.expected = std::move(*rows);
  }
  auto connection = postgres::Connection::open(config->conninfo);
  if (!connection) return fail(connection.error());
  std::uint64_t wrong = 0;
  for (const relay::TableSettings& table : config->tables) {
    const auto outbox =
        relay::Outbox::describe(**connection, table, relay::OwnTables(config->own_schema));
    if (!outbox) return fail(outbox.error());
    const auto verified = verify_outbox(**connection, *outbox, config->kafka, wanted);
    if (!verified) return fail(verified.error());
    wrong += faults(verified->report, options.allow_unknown);
    if (output.json()) {
      output.object(to_json(table.name, *verified));
    } else {
      print_text(table.name, *verified, output);
    }
  }
  if (wrong == 0) return Exit::done;
  if (!output.flush()) return Exit::failed;
  return fail(fmt::format("{} things are wrong", wrong));
}

}  // namespace

void add_relay_verify(Family family) {
  add_command<VerifyOptions>(
      family,
      {.name = "verify",
       .what = "Reads the topics, and holds them against the table: nothing lost, all in order.",
       .example = "  strand relay verify --config relay.toml\n"
                  "  strand relay verify --config relay.toml --allow-unknown -o json"},
      declare_verify, run_verify);
}

}  // namespace strand::cli
