#include "pq/connect.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

namespace strand::postgres {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
// What libpq is told about a connection, by keyword.
using Options = std::map<std::string, std::string>;

// libpq's complaints about a URL quote it, and with it the password.
std::string without_password(std::string message, const std::string& conninfo) {
  const std::size_t scheme = conninfo.find("://");
  const std::size_t at = conninfo.rfind('@');
  if (scheme == std::string::npos || at == std::string::npos || at < scheme) {
    return message;
  }
  const std::size_t colon = conninfo.find(':', scheme + 3);
  if (colon == std::string::npos || colon + 1 >= at) {
    return message;
  }
  const std::string password = conninfo.substr(colon + 1, at - colon - 1);
  for (std::size_t i = message.find(password); i != std::string::npos;
       i = message.find(password, i + 3)) {
    message.replace(i, password.size(), "***");
  }
  return message;
}

// One line, without what is of use only to those who work on PostgreSQL itself.
std::string one_line(std::string_view message) {
  std::string line;
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    std::string_view part = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    if (part.empty() || part.starts_with('\t') || part.starts_with("LOCATION:")) {
      continue;
    }
    line += line.empty() ? "" : "; ";
    line += part;
  }
  return line;
}

Result<Options> read_options(const std::string& conninfo) {
  char* complaint = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(conninfo.c_str(), &complaint), &PQconninfoFree);
  const std::unique_ptr<char, decltype(&PQfreemem)> freed(complaint, &PQfreemem);
  if (parsed == nullptr) {
    return failure(Errc::invalid_argument,
                   fmt::format("PostgreSQL's address cannot be read: {}; write it as "
                               "postgres://USER:PASSWORD@HOST:PORT/DATABASE",
                               without_password(one_line(complaint ? complaint : ""), conninfo)));
  }
  Options options;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) {
      options[option->keyword] = option->val;
    }
  }
  return options;
}

// Only for what neither the address nor the environment says.
void set_default(Options& options, const char* keyword, const char* variable, const char* value) {
  if (!options.contains(keyword) && (variable == nullptr || std::getenv(variable) == nullptr)) {
    options[keyword] = value;
  }
}

void set_defaults(Options& options) {
  set_default(options, "fallback_application_name", nullptr, "strand");
  // Of several servers only one takes writes. A standby would refuse them one by one; so it is not
  // connected to at all.
  set_default(options, "target_session_attrs", "PGTARGETSESSIONATTRS", "read-write");
  // A server that vanished without a word is noticed within half a minute, not hours.
  set_default(options, "keepalives_idle", nullptr, "10");
  set_default(options, "keepalives_interval", nullptr, "5");
  set_default(options, "keepalives_count", nullptr, "3");
  set_default(options, "tcp_user_timeout", nullptr, "30000");
  options["client_encoding"] = "UTF8";
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The options for each host alone. libpq would try them itself, but then the first one that does
// not answer uses up all the time.
std::vector<Options> for_each_host(const Options& options) {
  const auto listed = [&](const char* keyword) {
    const auto found = options.find(keyword);
    return found == options.end() ? std::vector<std::string>{} : split(found->second);
  };
  const auto hosts = listed("host");
  const auto addresses = listed("hostaddr");
  const auto ports = listed("port");
  const std::size_t count = std::max(hosts.size(), addresses.size());
  const bool lengths_fit =
      (hosts.empty() || addresses.empty() || hosts.size() == addresses.size()) &&
      (ports.size() <= 1 || ports.size() == count);
  // "prefer-standby" needs to see them all; libpq has the words for lists that do not fit.
  if (count <= 1 || !lengths_fit ||
      listed("target_session_attrs") == std::vector<std::string>{"prefer-standby"}) {
    return {options};
  }
  std::vector<Options> each;
  for (std::size_t i = 0; i < count; ++i) {
    Options& one = each.emplace_back(options);
    if (!hosts.empty()) {
      one["host"] = hosts[i];
    }
    if (!addresses.empty()) {
      one["hostaddr"] = addresses[i];
    }
    if (ports.size() > 1) {
      one["port"] = ports[i];
    }
  }
  return each;
}

// The SQLSTATE in a verbose message ("FATAL:  3D000: database ..."), because libpq keeps none for
// connections that failed.
std::string_view sqlstate_in(std::string_view message) {
  constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::size_t i = message.find(":  "); i != std::string_view::npos;
       i = message.find(":  ", i + 1)) {
    const std::string_view code = message.substr(i + 3, 5);
    if (code.size() == 5 && code.find_first_not_of(digits) == std::string_view::npos &&
        message.substr(i + 8, 1) == ":") {
      return code;
    }
  }
  return {};
}

Error connect_error(PGconn* connection) {
  const std::string_view raw = PQerrorMessage(connection);
  const std::string_view code = sqlstate_in(raw);
  std::string message = one_line(raw);
  if (!code.empty()) {
    message.erase(message.find(code), code.size() + 2);
  }
  if (code == "3D000") {
    return {Errc::not_found,
            fmt::format("there is no such PostgreSQL database: {}; create it with CREATE DATABASE, "
                        "or correct the name",
                        message)};
  }
  if (code.starts_with("28") || PQconnectionNeedsPassword(connection) != 0) {
    return {Errc::invalid_argument,
            fmt::format("PostgreSQL does not let us in: {}; correct user and password, or allow "
                        "them in pg_hba.conf",
                        message)};
  }
  if (code == "53300") {
    return {Errc::unavailable,
            fmt::format("PostgreSQL has no connection to spare: {}; raise max_connections, or use "
                        "fewer connections",
                        message)};
  }
  if (!code.empty()) {
    return {Errc::unavailable,
            fmt::format("PostgreSQL does not take connections now: {}", message)};
  }
  return {Errc::unavailable,
          fmt::format("no connection to PostgreSQL: {}; start the server, or correct host and port",
                      message)};
}

std::string place(PGconn* connection) {
  const char* host = PQhost(connection);
  const char* port = PQport(connection);
  return fmt::format("\"{}\", port {}", host == nullptr ? "" : host, port == nullptr ? "" : port);
}

enum class Waited { ready, stopped, late };

Waited wait_for(int socket, short events, int stop, SteadyTime deadline) {
  std::array<pollfd, 2> watched{pollfd{socket, events, 0}, pollfd{stop, POLLIN, 0}};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return Waited::late;
    }
    const int count = ::poll(watched.data(), watched.size(),
                             static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (count > 0) {
      return watched[1].revents != 0 ? Waited::stopped : Waited::ready;
    }
  }
}

Result<Handle> connect_to_one(const Options& options, SteadyTime deadline, int stop) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : options) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  Handle handle(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (handle == nullptr) {
    return failure(Errc::unavailable, "no memory for a connection to PostgreSQL");
  }
  PQsetErrorVerbosity(handle.get(), PQERRORS_VERBOSE);
  PQsetNoticeProcessor(handle.get(), [](void*, const char*) {}, nullptr);
  PostgresPollingStatusType status =
      PQstatus(handle.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING) {
    switch (wait_for(PQsocket(handle.get()), status == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                     stop, deadline)) {
      case Waited::ready:
        status = PQconnectPoll(handle.get());
        break;
      case Waited::stopped:
        return failure(Errc::unavailable, "connecting to PostgreSQL was given up: closing");
      case Waited::late:
        return failure(Errc::unavailable,
                       fmt::format("no PostgreSQL answers at {}; start the server, or correct host "
                                   "and port",
                                   place(handle.get())));
    }
  }
  if (status != PGRES_POLLING_OK) {
    return std::unexpected(connect_error(handle.get()));
  }
  PQsetErrorVerbosity(handle.get(), PQERRORS_DEFAULT);
  return handle;
}

}  // namespace

void Disconnect::operator()(pg_conn* connection) const { PQfinish(connection); }

Result<Handle> connect(const std::string& conninfo, Duration timeout, int stop) {
  Result<Options> options = read_options(conninfo);
  if (!options) {
    return std::unexpected(options.error());
  }
  set_defaults(*options);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::vector<Options> hosts = for_each_host(*options);
  std::optional<Error> failed;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<int>(hosts.size() - i);
    Result<Handle> handle = connect_to_one(hosts[i], now + share, stop);
    if (handle) {
      return handle;
    }
    if (!failed) {
      failed = std::move(handle.error());
      continue;
    }
    // As long as one of them may come up, trying again may help.
    if (handle.error().code == Errc::unavailable) {
      failed->code = Errc::unavailable;
    }
    failed->message += "; and " + handle.error().message;
  }
  return std::unexpected(std::move(*failed));
}

}  // namespace strand::postgres
