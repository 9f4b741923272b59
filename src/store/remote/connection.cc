#include "store/remote/connection.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "store/remote/convert.h"

namespace strand::remote {

namespace {

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now().time_since_epoch())
      .count();
}

Result<std::string> contents_of(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty()) {
    return failure(Errc::invalid_argument,
                   fmt::format("the {} \"{}\" cannot be read, or is empty", what, path));
  }
  return text;
}

// The first line of the file that the URL or the environment names. None: no token.
Result<std::string> token_of(const Location& location) {
  std::string path = location.token_file;
  if (path.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment of a running program
    if (const char* variable = std::getenv("STRAND_TOKEN_FILE")) path = variable;
  }
  if (path.empty()) return std::string{};
  auto text = contents_of(path, "file of the token");
  if (!text) return text;
  text->erase(std::find_if(text->begin(), text->end(),
                           [](char c) { return c == '\n' || c == '\r' || c == ' '; }),
              text->end());
  const bool good =
      !text->empty() && std::ranges::all_of(*text, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!good) {
    return failure(Errc::invalid_argument,
                   fmt::format("the first line of the file of the token \"{}\" is no token", path));
  }
  return text;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_of(const Location& location) {
  if (!location.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!location.ca_file.empty()) {
    auto ca = contents_of(location.ca_file, "file of trusted certificates");
    if (!ca) return std::unexpected(std::move(ca).error());
    options.pem_root_certs = *std::move(ca);
  }
  if (!location.key_file.empty()) {
    auto key = contents_of(location.key_file, "file of the key");
    if (!key) return std::unexpected(std::move(key).error());
    auto certificate = contents_of(location.certificate_file, "file of the certificate");
    if (!certificate) return std::unexpected(std::move(certificate).error());
    options.pem_private_key = *std::move(key);
    options.pem_cert_chain = *std::move(certificate);
  }
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> make_channel(
    const Location& location, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a lease may bring as much as was asked for
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Notices a server that is gone without a word.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Each store handle has a connection of its own, as it would have with a database.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(location.address(), credentials, arguments);
}

Errc errc_of_status(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return Errc::forbidden;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Errc::unsupported;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Errc::limit_exceeded;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Errc::invalid_argument;
    default:
      return Errc::io_error;
  }
}

bool may_be_lost(const grpc::Status& status) {
  switch (status.error_code()) {
    // A server that runs out of memory for connections cuts off some; what was too large for it has
    // another text.
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return status.error_message().find("RST_STREAM") != std::string::npos;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:
    // A connection that breaks in the middle of an answer.
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<Error> said_by_server(const grpc::Status& status,
                                    const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find(error_key); found != trailers.end()) {
    const auto code = errc_of({found->second.data(), found->second.size()});
    return Error{code.value_or(Errc::io_error), status.error_message()};
  }
  if (may_be_lost(status)) return std::nullopt;
  return Error{errc_of_status(status.error_code()),
               fmt::format("the server refused the call: {}", status.error_message())};
}

Connection::Connection(const Location& location, Patience patience, std::string token,
                       const std::shared_ptr<grpc::Channel>& channel)
    : address_(location.address()), patience_(patience), stub_(v1::Store::NewStub(channel)) {
  if (!token.empty()) authorization_ = "Bearer " + std::move(token);
}

Result<std::unique_ptr<Connection>> Connection::open(const Location& location, Patience patience) {
  keep_callback_threads();
  auto token = token_of(location);
  if (!token) return std::unexpected(std::move(token).error());
  const auto credentials = credentials_of(location);
  if (!credentials) return std::unexpected(credentials.error());
  std::unique_ptr<Connection> connection(
      new Connection(location, patience, *std::move(token), make_channel(location, *credentials)));

  grpc::ClientContext context;
  connection->prepare(context);
  context.set_deadline(std::chrono::system_clock::now() + patience.connect);
  v1::NowResponse now;
  const grpc::Status status = connection->stub_->Now(&context, {}, &now);
  if (!status.ok()) {
    if (const auto said = said_by_server(status, context)) return std::unexpected(*said);
    return failure(Errc::unavailable,
                   fmt::format("no server answers at {} ({}); start one with `strand serve`, or "
                               "name another store with --store",
                               location.address(), status.error_message()));
  }
  connection->manual_clock_ = now.manual();
  connection->note_now(Time{Duration{now.now_ms()}});
  return connection;
}

void Connection::prepare(grpc::ClientContext& context) const {
  if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
}

Result<void> Connection::repeat(const Attempt& attempt) {
  const auto until = Steady::now() + patience_.call;
  Duration pause{5};
  while (true) {
    const auto left = until - Steady::now();
    grpc::ClientContext context;
    prepare(context);
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::milliseconds>(left));
    const grpc::Status status = attempt(context);
    if (status.ok()) return {};
    if (const auto said = said_by_server(status, context)) return std::unexpected(*said);
    if (Steady::now() + pause >= until) {
      return failure(
          Errc::unavailable,
          fmt::format("the server at {} did not answer within {} ms ({}); is it running?", address_,
                      patience_.call.count(), status.error_message()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, Duration{200});
  }
}

Result<Time> Connection::ask_now() {
  v1::NowResponse response;
  if (auto asked = call(&v1::Store::Stub::Now, v1::NowRequest{}, response); !asked) {
    return std::unexpected(std::move(asked).error());
  }
  manual_clock_ = response.manual();
  note_now(Time{Duration{response.now_ms()}});
  return Time{Duration{response.now_ms()}};
}

Time Connection::now() {
  if (manual_clock_) {
    if (const auto asked = ask_now()) return *asked;
  }
  return estimated_now();
}

Time Connection::estimated_now() const { return Time{Duration{offset_ms_ + steady_ms()}}; }

void Connection::note_now(Time server_now) {
  const std::int64_t offset = server_now.time_since_epoch().count() - steady_ms();
  std::int64_t known = offset_ms_;
  // An answer that was long on its way shows an earlier time than there is: the latest counts.
  while (offset > known && !offset_ms_.compare_exchange_weak(known, offset)) {
  }
}

void keep_callback_threads() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A channel that is never destroyed, on which one call was made.
    static auto* const stub = new v1::Store::Stub(
        grpc::CreateChannel("unix:/nonexistent/strand", grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::NowRequest request;
    v1::NowResponse response;
    std::promise<void> done;
    stub->async()->Now(&context, &request, &response,
                       [&](const grpc::Status&) { done.set_value(); });
    done.get_future().wait();
  });
}

}  // namespace strand::remote
