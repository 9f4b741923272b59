#include "server/config.h"

#include <chrono>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/doc_tables.h"
#include "unit/fresh_folder.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  ServerConfig config;
  const auto read = read_config(text, "strand.toml", config);
  return read ? "" : read.error().message;
}

// A value of each kind that is not the default.
std::string another(const Setting& setting) {
  switch (setting.kind) {
    case Setting::Kind::text:
      return setting.name.ends_with("listen") ? "[::1]:99" : "/a \"b\"\\c";
    case Setting::Kind::boolean:
      return "true";
    case Setting::Kind::number:
      return "77";
    case Setting::Kind::bytes:
      return "99MiB";
    case Setting::Kind::duration:
      return "1m17s";
    case Setting::Kind::choice:
      return setting.choices.back();
  }
  return {};
}

TEST(Config, What_is_printed_reads_back_to_the_same) {
  ServerConfig defaults;
  ServerConfig read;
  read.patience = 99s;
  ASSERT_TRUE(read_config(print(defaults), "printed", read));
  EXPECT_EQ(read, defaults);

  ServerConfig changed;
  for (const Setting& setting : settings())
    ASSERT_TRUE(setting.set(changed, another(setting))) << setting.name;
  ServerConfig again;
  const auto done = read_config(print(changed), "printed", again);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(again, changed);
  EXPECT_NE(again, defaults);
}

TEST(Config, Every_setting_changes_something_of_its_own) {
  for (const Setting& setting : settings()) {
    ServerConfig config;
    ASSERT_TRUE(setting.set(config, another(setting)));
    EXPECT_EQ(setting.get(config), another(setting)) << setting.name;
    for (const Setting& other : settings()) {
      if (other.name == setting.name) continue;
      EXPECT_EQ(other.get(config), other.get(ServerConfig{})) << setting.name << other.name;
    }
  }
}

TEST(Config, Names_flags_and_variables_are_each_used_once) {
  std::set<std::string> used;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(used.insert(setting.name).second);
    EXPECT_TRUE(used.insert(setting.flag).second);
    EXPECT_TRUE(used.insert(setting.environment()).second);
    EXPECT_THAT(setting.environment(), testing::MatchesRegex("STRAND_SERVE_[A-Z_]+"));
  }
}

TEST(Config, A_flag_wins_over_the_environment_which_wins_over_the_file) {
  const FreshFolder folder;
  const std::string file = folder / "strand.toml";
  std::ofstream(file) << "patience = \"1s\"\n[http]\nconnections = 1\nin_flight = 1\n";
  ConfigSources sources;
  sources.file = file;
  sources.environment = {{"STRAND_SERVE_HTTP_CONNECTIONS", "2"},
                         {"STRAND_SERVE_HTTP_IN_FLIGHT", "2"},
                         {"STRAND_STORE", "strand://elsewhere"},
                         {"PATH", "/bin"}};
  sources.flags = {{"http.in_flight", "3"}};
  const auto config = load_config(sources);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->patience, 1s);
  EXPECT_EQ(config->http.connections, 2U);
  EXPECT_EQ(config->http.in_flight, 3U);
  EXPECT_EQ(config->http.header_bytes, 16384U);
  EXPECT_EQ(config->store.url, "rocksdb:strand-data");
}

TEST(Config, The_environment_may_name_the_file) {
  const FreshFolder folder;
  const std::string file = folder / "strand.toml";
  std::ofstream(file) << "patience = \"1s\"\n";
  ConfigSources sources;
  sources.environment = {{"STRAND_SERVE_CONFIG", file}};
  EXPECT_EQ(load_config(sources)->patience, 1s);
  std::ofstream(folder / "empty.toml").flush();
  sources.file = folder / "empty.toml";
  EXPECT_EQ(load_config(sources)->patience, 10s);
  sources.file = folder.path();
  EXPECT_THAT(load_config(sources).error().message, HasSubstr("cannot read the configuration"));
  sources.file = folder / "missing.toml";
  EXPECT_THAT(load_config(sources).error().message, HasSubstr("missing.toml"));
}

TEST(Config, An_unknown_key_names_the_nearest_one) {
  EXPECT_EQ(error_of("pacience = \"1s\""),
            "strand.toml:1: there is no setting 'pacience'; did you mean 'patience'?");
  EXPECT_EQ(error_of("# a\n\n[http]\nlisen = \"1s\""),
            "strand.toml:4: there is no setting 'http.lisen'; did you mean 'http.listen'?");
  EXPECT_EQ(error_of("http = \"127.0.0.1:80\""),
            "strand.toml:1: http is a table; did you mean 'http.listen'?");
  EXPECT_EQ(error_of("[patience]\na = 1"),
            "strand.toml:1: patience: write a duration in quotes, such as \"250ms\"");
  EXPECT_THAT(error_of("[nothing.like.it]\na = 1"), HasSubstr("there is no setting 'nothing'"));
  ConfigSources sources;
  sources.environment = {{"STRAND_SERVE_HTTP_LISEN", "x"}};
  EXPECT_EQ(load_config(sources).error().message,
            "the environment has STRAND_SERVE_HTTP_LISEN, which is no setting; did you mean "
            "'STRAND_SERVE_HTTP_LISTEN'?");
}

TEST(Config, The_first_mistake_of_a_file_is_the_one_that_is_named) {
  EXPECT_THAT(error_of("tokens = 1\ninsecure = 2\npatience = 3\n[log]\nlevel = 4"),
              StartsWith("strand.toml:1: tokens:"));
  EXPECT_THAT(error_of("a = = 1"), HasSubstr("strand.toml is no TOML"));
}

TEST(Config, A_wrong_value_says_what_to_write) {
  EXPECT_EQ(error_of("insecure = \"true\""),
            "strand.toml:1: insecure: write true or false, without quotes");
  EXPECT_THAT(error_of("patience = 10"), HasSubstr("a duration in quotes"));
  EXPECT_THAT(error_of("patience = \"10\""), StartsWith("strand.toml:1: patience: "));
  EXPECT_THAT(error_of("http.connections = 0"), HasSubstr("from 1 to"));
  EXPECT_THAT(error_of("http.connections = -1"), HasSubstr("from 1 to"));
  EXPECT_THAT(error_of("store.cache_bytes = \"12MB\""), HasSubstr("64KiB"));
  EXPECT_THAT(error_of("store.cache_bytes = 1"), HasSubstr("at least 1MiB"));
  EXPECT_THAT(error_of("log.level = \"warn\""), HasSubstr("debug, info, warning, error"));
  EXPECT_THAT(error_of("http.listen = \"7480\""), HasSubstr("HOST:PORT"));
  EXPECT_THAT(error_of("tokens = \"a\\nb\""), HasSubstr("control characters"));
  ConfigSources sources;
  sources.flags = {{"http.listen", "nowhere"}};
  EXPECT_THAT(load_config(sources).error().message, StartsWith("--http: 'nowhere' is no address"));
}

TEST(Config, Sizes_have_units_of_1024) {
  EXPECT_EQ(parse_bytes("65536"), 65536U);
  EXPECT_EQ(parse_bytes("64KiB"), 65536U);
  EXPECT_EQ(parse_bytes("2GiB"), std::uint64_t{2} << 30U);
  EXPECT_FALSE(parse_bytes("KiB"));
  EXPECT_FALSE(parse_bytes("-1"));
  EXPECT_FALSE(parse_bytes("99999999999GiB"));
  EXPECT_EQ(format_bytes(65536), "64KiB");
  EXPECT_EQ(format_bytes(65537), "65537");
  EXPECT_EQ(format_bytes(0), "0");
}

TEST(Config, An_address_is_a_host_and_a_port) {
  EXPECT_EQ(parse_address("127.0.0.1:7480")->port, 7480);
  EXPECT_EQ(parse_address("[::1]:0")->host, "::1");
  EXPECT_EQ(parse_address("example.org:65535")->host, "example.org");
  for (const char* bad : {"", ":80", "host", "host:", "host:65536", "host:-1", "::1:80", "[::1]",
                          "[host]:80", "http://host:80", "a b:80", "[]:80"}) {
    EXPECT_FALSE(parse_address(bad)) << bad;
  }
}

TEST(Config, Beyond_this_machine_there_is_TLS_or_somebody_says_insecure) {
  ServerConfig config;
  EXPECT_TRUE(check(config));
  for (const char* here : {"127.1.2.3:1", "[::1]:1", "localhost:1"}) {
    config.http.listen = config.grpc.listen = here;
    EXPECT_TRUE(check(config)) << here;
  }
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "[fe80::1]:1"}) {
    config = {};
    config.grpc.listen = open;
    const auto refused = check(config);
    ASSERT_FALSE(refused) << open;
    EXPECT_THAT(refused.error().message, StartsWith("grpc.listen: "));
    EXPECT_THAT(refused.error().message, HasSubstr("insecure"));
    config.insecure = true;
    EXPECT_TRUE(check(config));
    config.insecure = false;
    config.tls = {.certificate = "c.pem", .key = "k.pem", .client_ca = ""};
    EXPECT_TRUE(check(config));
    std::swap(config.grpc.listen, config.http.listen);
    EXPECT_TRUE(check(config));
    config.tls = {};
    EXPECT_THAT(check(config).error().message, StartsWith("http.listen: "));
  }
}

TEST(Config, What_belongs_together_comes_together) {
  const auto refusal = [](ServerConfig config) {
    const auto checked = check(config);
    return checked ? "" : checked.error().message;
  };
  ServerConfig config;
  config.tls.key = "k.pem";
  EXPECT_THAT(refusal(config), StartsWith("tls.certificate: "));
  config = {};
  config.tls.certificate = "c.pem";
  EXPECT_THAT(refusal(config), StartsWith("tls.key: "));
  config = {};
  config.tls.client_ca = "ca.pem";
  EXPECT_THAT(refusal(config), HasSubstr("tls.client_ca"));
  config = {};
  config.http.listen = config.grpc.listen = "";
  EXPECT_THAT(refusal(config), HasSubstr("listen somewhere"));
  config = {};
  config.store.url = "strand://127.0.0.1:7481";
  EXPECT_THAT(refusal(config), HasSubstr("store.url"));
  config = {};
  config.store.disk_reserve_bytes = 1;
  EXPECT_THAT(refusal(config), HasSubstr("disk_settle_reserve_bytes"));
}

TEST(Config, What_the_store_is_opened_with_is_what_was_set) {
  ServerConfig config;
  const OpenOptions options = config.store.open_options();
  EXPECT_EQ(options.cache_bytes, OpenOptions{}.cache_bytes);
  EXPECT_EQ(options.limits.memory_bytes_max, Limits{}.memory_bytes_max);
  config.store.cache_bytes = 5 << 20;
  config.store.body_bytes_max = 7;
  EXPECT_EQ(config.store.open_options().cache_bytes, std::size_t{5} << 20U);
  EXPECT_EQ(config.store.open_options().limits.body_bytes_max, 7U);
}

TEST(Config, The_table_in_the_documentation_has_all_settings_as_they_are) {
  std::vector<std::vector<std::string>> expected;
  for (const Setting& setting : settings()) {
    const std::string value = setting.get(ServerConfig{});
    expected.push_back({"`" + setting.name + "`", "`" + setting.flag + "`",
                        value.empty() ? "" : "`" + value + "`", setting.help});
  }
  EXPECT_THAT(test::rows_of("docs/configuration.md", "setting"),
              testing::ElementsAreArray(expected))
      << "the rows should be:\n"
      << test::as_rows(expected);
}

}  // namespace
}  // namespace strand::server
