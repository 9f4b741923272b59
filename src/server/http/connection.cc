#include "server/http/connection.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffer_ref.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "server/http/head.h"

namespace strand::server::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;
using TlsStream = asio::ssl::stream<tcp::socket>;

// What is still on its way when we hang up is read for so long, because the answer would be lost if
// it met a closed door.
constexpr Duration linger = std::chrono::seconds{1};
constexpr std::size_t first_read = 512;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

// Those that every answer has: nothing of it is for caches, frames or other sites.
void add_common_fields(beast::http::fields& fields, const std::string& request_id) {
  fields.set(beast::http::field::server, "strand");
  fields.set("X-Request-Id", request_id);
  fields.set("X-Content-Type-Options", "nosniff");
  fields.set("X-Frame-Options", "DENY");
  fields.set("Referrer-Policy", "no-referrer");
  fields.set("Content-Security-Policy", "default-src 'self'");
  fields.set(beast::http::field::cache_control, "no-store");
}

// Bytes that are kept in memory for a caller, as long as this lives.
class Held {
 public:
  explicit Held(Hub& hub) : hub_(hub) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { hub_.held_bytes -= bytes_; }

  // False: there is too much already, for others.
  bool take(std::size_t bytes, const HttpLimits& limits) {
    if (bytes > always_taken && hub_.held_bytes + bytes > limits.held_bytes) return false;
    bytes_ += bytes;
    hub_.held_bytes += bytes;
    return true;
  }

 private:
  static constexpr std::size_t always_taken = std::size_t{16} << 10U;

  Hub& hub_;
  std::size_t bytes_ = 0;
};

constexpr std::string_view too_much_held = "too much is held in memory for others";

template <class Stream>
class StreamConnection final : public Connection,
                               public std::enable_shared_from_this<StreamConnection<Stream>> {
  static constexpr bool has_tls = std::is_same_v<Stream, TlsStream>;

 public:
  StreamConnection(Hub& hub, Stream stream, std::shared_ptr<asio::ssl::context> tls)
      : hub_(hub),
        limits_(hub.api.surroundings().limits),
        tls_(std::move(tls)),
        stream_(std::move(stream)),
        buffer_(limits_.header_bytes),
        deadline_(hub.io),
        pause_(hub.io) {
    error_code error;
    const auto peer = socket().remote_endpoint(error);
    if (!error) peer_ = peer.address().to_string();
    hub_.open.insert(this);
    ++hub_.connections;
  }
  ~StreamConnection() override {
    stop_waiting();
    hub_.open.erase(this);
    if (--hub_.connections == 0 && hub_.draining && hub_.on_last_closed) hub_.on_last_closed();
  }

  void drain() override {
    if (idle_) close();
    pause_.cancel();
  }
  void close() override {
    stop_waiting();
    error_code ignored;
    socket().close(ignored);
    pause_.cancel();
  }
  [[nodiscard]] Duration waited() const override {
    return std::chrono::duration_cast<Duration>(steady_clock::now() - waiting_since_);
  }

  asio::awaitable<void> run() {
    const auto self = this->shared_from_this();
    try {
      if (co_await begin()) {
        while (co_await serve_one()) {
        }
        co_await finish();
      }
    } catch (const std::exception&) {
      // Of memory, or of a library: this caller is lost, the others are not.
    }
    ++round_;  // nothing is due any more
    deadline_.cancel();
    close();
  }

 private:
  tcp::socket& socket() {
    if constexpr (has_tls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void start_waiting() {
    waiting_since_ = steady_clock::now();
    waiting_ = hub_.waiting.insert(hub_.waiting.end(), this);
  }
  void stop_waiting() {
    if (waiting_) hub_.waiting.erase(*waiting_);
    waiting_.reset();
  }

  // --- Time ---

  // What is under way is cancelled if it takes longer, and whatever follows it, until the next
  // call: an operation may end just before it could be cancelled.
  void within(Duration limit) {
    late_ = false;
    wait_for(limit, ++round_);
  }
  void wait_for(Duration limit, std::uint64_t round) {
    deadline_.expires_after(limit);
    deadline_.async_wait([self = this->shared_from_this(), round](error_code error) {
      if (error || self->round_ != round) return;
      self->late_ = true;
      error_code ignored;
      self->socket().cancel(ignored);
      self->wait_for(std::chrono::milliseconds{20}, round);
    });
  }
  void whatever_time_it_takes() {
    ++round_;
    deadline_.cancel();
  }

  // --- The parts of an exchange ---

  asio::awaitable<bool> begin() {
    if constexpr (has_tls) {
      error_code error;
      within(limits_.header_timeout);
      co_await stream_.async_handshake(asio::ssl::stream_base::server, into(error));
      co_return !error;
    }
    co_return true;
  }

  // Waits for the next request. False: the caller has gone, or says nothing.
  asio::awaitable<bool> wait_for_request() {
    if (buffer_.size() > 0) co_return true;
    if (hub_.draining) co_return false;
    error_code error;
    idle_ = true;
    buffer_.shrink_to_fit();
    within(limits_.idle_timeout);
    const std::size_t count = co_await stream_.async_read_some(
        buffer_.prepare(std::min(first_read, limits_.header_bytes)), into(error));
    idle_ = false;
    buffer_.commit(count);
    co_return !error;
  }

  asio::awaitable<std::optional<Refusal>> read_head(Parser& parser) {
    error_code error;
    within(limits_.header_timeout);
    const std::size_t length =
        co_await asio::async_read_until(stream_, beast::ref(buffer_), "\r\n\r\n", into(error));
    if (late_) co_return too_slow("head", limits_.header_timeout);
    if (error == asio::error::not_found) {
      co_return refusal_of(beast::http::error::header_limit, limits_);
    }
    if (error) {
      gone_ = true;
      co_return std::nullopt;
    }
    const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), length);
    auto refused = parse_head(parser, bytes, limits_);
    buffer_.consume(length);
    co_return refused;
  }

  asio::awaitable<std::optional<Refusal>> read_body(Parser& parser) {
    error_code error;
    within(limits_.body_timeout);
    if (parser.get().find(beast::http::field::expect) != parser.get().end() &&
        buffer_.size() == 0) {
      static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(go_on), into(error));
    }
    if (!error) co_await beast::http::async_read(stream_, buffer_, parser, into(error));
    if (late_) co_return too_slow("body", limits_.body_timeout);
    if (!error) co_return std::nullopt;
    if (error.category() ==
            beast::http::make_error_code(beast::http::error::bad_chunk).category() &&
        error != beast::http::error::partial_message &&
        error != beast::http::error::end_of_stream) {
      co_return refusal_of(error, limits_);
    }
    gone_ = true;
    co_return std::nullopt;
  }

  static Refusal too_slow(std::string_view what, Duration limit) {
    return {.status = 408,
            .code = "too_slow",
            .message = fmt::format("the {} took longer than {}", what, format_duration(limit))};
  }

  // One request and its answer. False: the connection ends.
  asio::awaitable<bool> serve_one() {
    start_waiting();
    if (!co_await wait_for_request()) co_return false;
    begun_ = steady_clock::now();
    Parser parser;
    Request request;
    auto refused = co_await read_head(parser);
    stop_waiting();
    if (gone_) co_return false;
    if (refused) co_return co_await refuse(*refused, request);
    request = to_request(parser);
    const Api::Admitted admitted = hub_.api.admit(request);
    Held body(hub_);
    if (!admitted.refused && request.has_body) {
      if (!body.take(parser.content_length().value_or(limits_.body_bytes), limits_)) {
        co_return co_await refuse(
            {.status = 503, .code = "unavailable", .message = std::string(too_much_held)}, request);
      }
      refused = co_await read_body(parser);
      if (gone_) co_return false;
      if (refused) co_return co_await refuse(*refused, request);
      request.body = std::move(parser.get().body());
    }
    if (!admitted.refused && admitted.route->live) {
      co_await stream_events(admitted, request);
      co_return false;
    }
    Response response = co_await answer(admitted, request);
    const bool all_read = parser.is_done() || !request.has_body;
    unread_ = !all_read;
    // Callers by HTTP/1.0 who want more would have to be told that they get it; nobody does.
    const bool keep =
        parser.keep_alive() && parser.get().version() == 11 && all_read && !hub_.draining;
    co_return co_await write(std::move(response), request, admitted.permit.get(), keep);
  }

  asio::awaitable<Response> answer(const Api::Admitted& admitted, const Request& request) {
    if (Api::is_quick(admitted)) co_return hub_.api.answer(admitted, request);
    if (hub_.workers.full()) {
      co_return error_response(503, "unavailable", "too many requests at once", request.id);
    }
    whatever_time_it_takes();
    // What the worker uses outlives this connection if the server is stopped meanwhile.
    const Api& api = hub_.api;
    co_return co_await hub_.workers.run(
        [&api, admitted, request] { return api.answer(admitted, request); });
  }

  asio::awaitable<bool> refuse(const Refusal& refusal, Request& request) {
    if (request.id.empty()) request.id = request_id("");
    unread_ = true;
    co_return co_await write(
        error_response(refusal.status, refusal.code, refusal.message, request.id), request, nullptr,
        false);
  }

  asio::awaitable<bool> write(Response response, const Request& request, const Permit* permit,
                              bool keep) {
    Held held(hub_);
    if (!held.take(response.body.size(), limits_))
      response = error_response(503, "unavailable", too_much_held, request.id);
    beast::http::response<beast::http::string_body> message(
        beast::http::int_to_status(response.status), 11);
    add_common_fields(message, request.id);
    message.set(beast::http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers)
      message.set(name, value);
    message.keep_alive(keep);
    const std::size_t bytes = response.body.size();
    message.body() = std::move(response.body);
    message.prepare_payload();
    error_code error;
    within(limits_.write_timeout);
    if (request.method == "HEAD") {
      beast::http::response<beast::http::empty_body> head(std::move(message.base()));
      co_await beast::http::async_write(stream_, head, into(error));
    } else {
      co_await beast::http::async_write(stream_, message, into(error));
    }
    log(request, response.status, bytes, permit);
    co_return keep && !error;
  }

  void log(const Request& request, unsigned status, std::size_t bytes, const Permit* permit) {
    if (!hub_.on_request) return;
    hub_.on_request(
        HttpRequestDone{.method = base::printable(request.method),
                        .path = base::printable(request.path),
                        .status = status,
                        .took = std::chrono::duration_cast<Duration>(steady_clock::now() - begun_),
                        .bytes_in = request.body.size(),
                        .bytes_out = bytes,
                        .caller = permit != nullptr ? permit->caller() : "",
                        .request_id = request.id,
                        .peer = peer_});
  }

  // --- Events ---

  // Writes events until the caller goes, loses the permission or the server stops.
  asio::awaitable<void> stream_events(const Api::Admitted& admitted, const Request& request) {
    const auto interval = admitted.query.number("interval_ms", 1'000, 250, 60'000);
    std::optional<Response> refused;
    if (!interval) refused = error_response(interval.error(), request.id);
    if (interval && hub_.streams >= limits_.streams) {
      refused = error_response(503, "unavailable", "too many streams", request.id);
    }
    if (refused) {
      co_await write(*std::move(refused), request, admitted.permit.get(), false);
      co_return;
    }
    ++hub_.streams;
    std::size_t bytes = 0;
    if (request.method == "HEAD") {
      co_await write_stream_head(request);
    } else if (co_await write_stream_head(request)) {
      bytes = co_await write_events(admitted.permit, request, Duration{*interval});
    }
    --hub_.streams;
    log(request, 200, bytes, admitted.permit.get());
  }

  asio::awaitable<bool> write_stream_head(const Request& request) {
    beast::http::response<beast::http::empty_body> message(beast::http::status::ok, 11);
    add_common_fields(message, request.id);
    message.set(beast::http::field::content_type, "text/event-stream");
    message.keep_alive(false);
    beast::http::response_serializer<beast::http::empty_body> serializer(message);
    error_code error;
    within(limits_.write_timeout);
    co_await beast::http::async_write_header(stream_, serializer, into(error));
    co_return !error;
  }

  asio::awaitable<std::size_t> write_events(std::shared_ptr<const Permit> permit,
                                            const Request& request, Duration interval) {
    const Access& access = hub_.api.access();
    std::uint64_t generation = access.generation();
    std::size_t bytes = 0;
    std::string_view why = "the server stops";
    while (!hub_.draining) {
      whatever_time_it_takes();
      const auto snapshot = co_await hub_.stats.get();
      if (access.generation() != generation) {
        generation = access.generation();
        auto again = access.admit(token_of(request));
        if (!again) {
          why = "the token is not known any more";
          break;
        }
        permit = *std::move(again);
      }
      // What cannot be read, or held, now may be the next time.
      std::string event;
      if (snapshot)
        event = fmt::format("event: stats\ndata: {}\n\n", stats_text(**snapshot, *permit));
      Held held(hub_);
      if (!event.empty() && held.take(event.size(), limits_)) {
        if (!co_await write_event(event)) co_return bytes;
        bytes += event.size();
      }
      if (hub_.draining) break;
      whatever_time_it_takes();
      error_code woken;
      pause_.expires_after(interval);
      co_await pause_.async_wait(into(woken));
      if (!socket().is_open()) co_return bytes;
    }
    co_await write_event(fmt::format("event: end\ndata: {{\"reason\":\"{}\"}}\n\n", why));
    co_return bytes;
  }

  asio::awaitable<bool> write_event(const std::string& event) {
    error_code error;
    within(limits_.write_timeout);
    co_await asio::async_write(stream_, asio::buffer(event), into(error));
    co_return !error;
  }

  // --- The end ---

  asio::awaitable<void> finish() {
    error_code error;
    within(linger);
    if constexpr (has_tls) {
      if (!unread_) {
        co_await stream_.async_shutdown(into(error));
        co_return;
      }
    }
    socket().shutdown(tcp::socket::shutdown_send, error);
    if (error || !unread_) co_return;
    buffer_.consume(buffer_.size());
    for (std::size_t left = limits_.body_bytes * 2; left > 0 && !error && !late_;) {
      const auto room = buffer_.prepare(limits_.header_bytes);
      left -= std::min(left, co_await socket().async_read_some(room, into(error)));
    }
  }

  Hub& hub_;
  const HttpLimits& limits_;
  const std::shared_ptr<asio::ssl::context> tls_;
  Stream stream_;
  beast::flat_buffer buffer_;
  asio::steady_timer deadline_;
  asio::steady_timer pause_;  // between two events
  std::uint64_t round_ = 0;   // of deadlines: an old one that rings late is passed over
  bool late_ = false;
  bool idle_ = false;    // waits for a request
  bool gone_ = false;    // the caller
  bool unread_ = false;  // something was sent that nobody will read
  std::optional<std::list<Connection*>::iterator> waiting_;  // its place among those
  steady_clock::time_point waiting_since_;
  steady_clock::time_point begun_;
  std::string peer_;
};

template <class Stream>
void spawn(Hub& hub, Stream stream, std::shared_ptr<asio::ssl::context> tls) {
  auto connection =
      std::make_shared<StreamConnection<Stream>>(hub, std::move(stream), std::move(tls));
  asio::co_spawn(
      hub.io, [connection = std::move(connection)] { return connection->run(); }, asio::detached);
}

asio::awaitable<void> say_full(asio::io_context& io, std::shared_ptr<tcp::socket> socket) {
  static const std::string text = [] {
    const Response response = error_response(503, "unavailable", "too many connections", "");
    return fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{}",
        response.body.size(), response.body);
  }();
  asio::steady_timer timer(io);
  timer.expires_after(linger);
  timer.async_wait([socket](error_code error) {
    error_code ignored;
    if (!error) socket->close(ignored);
  });
  error_code error;
  co_await asio::async_write(*socket, asio::buffer(text), into(error));
  socket->shutdown(tcp::socket::shutdown_send, error);
  std::string rest(first_read, '\0');
  while (!error)
    co_await socket->async_read_some(asio::buffer(rest), into(error));
}

}  // namespace

void serve_connection(Hub& hub, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (tls) {
    TlsStream stream(std::move(socket), *tls);
    spawn(hub, std::move(stream), std::move(tls));
  } else {
    spawn(hub, std::move(socket), nullptr);
  }
}

bool make_room(Hub& hub) {
  if (hub.waiting.empty()) return false;
  Connection& longest = *hub.waiting.front();
  if (longest.waited() < hub.api.surroundings().limits.idle_kept) return false;
  longest.close();
  return true;
}

void refuse_connection(Hub& hub, tcp::socket socket) {
  constexpr std::size_t at_once_max = 64;
  if (hub.refusals >= at_once_max) return;
  ++hub.refusals;
  asio::co_spawn(hub.io, say_full(hub.io, std::make_shared<tcp::socket>(std::move(socket))),
                 [&hub](std::exception_ptr) { --hub.refusals; });
}

}  // namespace strand::server::http
