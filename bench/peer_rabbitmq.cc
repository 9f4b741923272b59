#include <cstdint>
#include <fstream>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "child.h"
#include "peer_socket.h"
#include "peers_made.h"

// RabbitMQ: a quorum queue, whose log is synced before a publication is confirmed. The client
// speaks AMQP 0-9-1 itself, so that a batch is one write: a library makes three of each message,
// on the cores that the broker needs.

namespace strand::bench {

namespace {

// Class and method, as one number.
enum class Method : std::uint32_t {
  connection_start = 10 << 16 | 10,
  connection_start_ok = 10 << 16 | 11,
  connection_tune = 10 << 16 | 30,
  connection_tune_ok = 10 << 16 | 31,
  connection_open = 10 << 16 | 40,
  connection_open_ok = 10 << 16 | 41,
  connection_close = 10 << 16 | 50,
  channel_open = 20 << 16 | 10,
  channel_open_ok = 20 << 16 | 11,
  channel_close = 20 << 16 | 40,
  queue_declare = 50 << 16 | 10,
  queue_declare_ok = 50 << 16 | 11,
  queue_delete = 50 << 16 | 40,
  queue_delete_ok = 50 << 16 | 41,
  basic_qos = 60 << 16 | 10,
  basic_qos_ok = 60 << 16 | 11,
  basic_consume = 60 << 16 | 20,
  basic_consume_ok = 60 << 16 | 21,
  basic_publish = 60 << 16 | 40,
  basic_deliver = 60 << 16 | 60,
  basic_ack = 60 << 16 | 80,
  confirm_select = 85 << 16 | 10,
  confirm_select_ok = 85 << 16 | 11,
};

enum class FrameType : std::uint8_t { method = 1, header = 2, body = 3 };

constexpr char frame_end = '\xCE';
constexpr std::size_t frame_head_bytes = 7;

class Writer {
 public:
  Writer& number(std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
      bytes_ += static_cast<char>(value >> shift);
    return *this;
  }
  Writer& short_text(std::string_view text) { return number(text.size(), 1).raw(text); }
  Writer& long_text(std::string_view text) { return number(text.size(), 4).raw(text); }
  Writer& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::uint64_t read_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes)
    value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

std::string frame(FrameType type, int channel, std::string_view payload) {
  return Writer()
      .number(static_cast<std::uint8_t>(type), 1)
      .number(static_cast<std::uint64_t>(channel), 2)
      .long_text(payload)
      .raw({&frame_end, 1})
      .bytes();
}

std::string method_frame(int channel, Method method, const Writer& arguments = {}) {
  return frame(
      FrameType::method, channel,
      Writer().number(static_cast<std::uint32_t>(method), 4).raw(arguments.bytes()).bytes());
}

// A connection with one channel, which is number 1.
class AmqpConnection {
 public:
  explicit AmqpConnection(int port) : socket_("rabbitmq", port) {
    using namespace std::string_view_literals;
    socket_.write("AMQP\0\0\x09\x01"sv);
    expect(Method::connection_start);
    socket_.write(method_frame(0, Method::connection_start_ok,
                               Writer()
                                   .long_text({})  // no properties
                                   .short_text("PLAIN")
                                   .long_text("\0guest\0guest"sv)
                                   .short_text("en_US")));
    expect(Method::connection_tune);
    constexpr std::uint64_t frame_bytes_max = 131'072;
    socket_.write(method_frame(0, Method::connection_tune_ok,
                               Writer().number(1, 2).number(frame_bytes_max, 4).number(0, 2)));
    call(0, Method::connection_open, Writer().short_text("/").short_text("").number(0, 1),
         Method::connection_open_ok);
    call(1, Method::channel_open, Writer().short_text(""), Method::channel_open_ok);
  }

  void call(int channel, Method method, const Writer& arguments, Method answer) {
    socket_.write(method_frame(channel, method, arguments));
    expect(answer);
  }
  void write(std::string_view frames) { socket_.write(frames); }
  bool readable(int wait_ms) { return socket_.readable(wait_ms); }

  // The arguments of the next method, which must be this one; valid until the next call.
  std::string_view expect(Method wanted) {
    const std::string_view payload = next(FrameType::method);
    const auto method = static_cast<Method>(read_number(payload.substr(0, 4)));
    if (method == wanted) return payload.substr(4);
    if (method == Method::connection_close || method == Method::channel_close) {
      const auto length = static_cast<std::uint8_t>(payload[6]);
      give_up(fmt::format("rabbitmq: {}", payload.substr(7, length)));
    }
    const auto number = static_cast<std::uint32_t>(method);
    give_up(fmt::format("rabbitmq answers with method {}.{}", number >> 16, number & 0xffff));
  }

  // The payload of the next frame; valid until the next call.
  std::string_view next(FrameType wanted) {
    const std::string_view head = socket_.read(frame_head_bytes);
    const auto type = static_cast<FrameType>(head[0]);
    const auto bytes = static_cast<std::size_t>(read_number(head.substr(3, 4)));
    const std::string_view payload = socket_.read(bytes + 1);
    if (type != wanted || payload.back() != frame_end)
      give_up("rabbitmq answers with a frame of another kind");
    return payload.substr(0, bytes);
  }

 private:
  PeerSocket socket_;
};

class RabbitmqClient final : public QueueClient {
 public:
  RabbitmqClient(int port, std::string queue) : rabbitmq_(port), queue_(std::move(queue)) {
    rabbitmq_.call(1, Method::confirm_select, Writer().number(0, 1), Method::confirm_select_ok);
    // To the queue by the exchange that has no name. Mandatory: what reaches no queue comes back.
    constexpr std::uint64_t mandatory = 1;
    publication_ =
        method_frame(1, Method::basic_publish,
                     Writer().number(0, 2).short_text("").short_text(queue_).number(mandatory, 1));
    // Class, weight, size, and of all properties only that it is persistent.
    publication_ += frame(FrameType::header, 1,
                          Writer()
                              .number(60, 2)
                              .number(0, 2)
                              .number(body_bytes, 8)
                              .number(0x1000, 2)
                              .number(2, 1)
                              .bytes());
    publication_ += frame(FrameType::body, 1, std::string(body_bytes, 'x'));
  }

  void send(std::size_t count) override {
    while (publications_.size() < count * publication_.size())
      publications_ += publication_;
    rabbitmq_.write(std::string_view(publications_).substr(0, count * publication_.size()));
    // Each on its own or several together, and not always in order.
    std::vector<bool> confirmed(count);
    for (std::size_t missing = count; missing > 0;) {
      const std::string_view arguments = rabbitmq_.expect(Method::basic_ack);
      const std::uint64_t tag = read_number(arguments.substr(0, 8));
      const bool multiple = (arguments[8] & 1) != 0;
      if (tag <= published_ || tag > published_ + count)
        give_up("rabbitmq confirms what was not published");
      const std::size_t last = tag - published_ - 1;
      for (std::size_t i = multiple ? 0 : last; i <= last; ++i) {
        missing -= confirmed[i] ? 0 : 1;
        confirmed[i] = true;
      }
    }
    published_ += count;
  }

  std::size_t receive(std::size_t count) override {
    if (!consuming_) consume(count);
    constexpr int wait_ms = 1;
    std::size_t got = 0;
    std::uint64_t tag = 0;
    while (got < count && rabbitmq_.readable(got == 0 ? wait_ms : 0)) {
      const std::string_view arguments = rabbitmq_.expect(Method::basic_deliver);
      const auto name_bytes = static_cast<std::uint8_t>(arguments[0]);  // of the consumer
      tag = read_number(arguments.substr(1 + name_bytes, 8));
      if (read_number(rabbitmq_.next(FrameType::header).substr(4, 8)) != body_bytes)
        give_up("rabbitmq returned another body");
      rabbitmq_.next(FrameType::body);
      ++got;
    }
    constexpr std::uint64_t multiple = 1;
    if (got > 0)
      rabbitmq_.write(
          method_frame(1, Method::basic_ack, Writer().number(tag, 8).number(multiple, 1)));
    return got;
  }

 private:
  // Some batches are on their way while one is acknowledged.
  void consume(std::size_t batch) {
    rabbitmq_.call(1, Method::basic_qos, Writer().number(0, 4).number(5 * batch, 2).number(0, 1),
                   Method::basic_qos_ok);
    rabbitmq_.call(
        1, Method::basic_consume,
        Writer().number(0, 2).short_text(queue_).short_text("c").number(0, 1).long_text({}),
        Method::basic_consume_ok);
    consuming_ = true;
  }

  AmqpConnection rabbitmq_;
  std::string queue_;
  std::string publication_;   // one message
  std::string publications_;  // as many of them as were needed so far
  std::uint64_t published_ = 0;
  bool consuming_ = false;
};

// Erlang's register of names, without which the broker does not start. It would start one itself,
// which would outlive it.
class NameServer {
 public:
  explicit NameServer(const std::string& folder)
      : port_(free_port()),
        child_({program_of_package("epmd", "erlang-base"), "-address", "127.0.0.1", "-port",
                std::to_string(port_)},
               folder + "/epmd-log") {
    child_.wait_until([&] { return listens(port_); }, "epmd");
  }
  [[nodiscard]] int port() const { return port_; }

 private:
  int port_;
  Child child_;
};

class Rabbitmq final : public Contender {
 public:
  Rabbitmq()
      : names_(folder_.path()),
        port_(free_port()),
        child_({program_of_package("rabbitmq-server", "rabbitmq-server")}, folder_.path() + "/log",
               environment()) {
    child_.wait_until([&] { return listens(port_); }, "rabbitmq-server");
  }

  [[nodiscard]] std::string name() const override { return "RabbitMQ quorum"; }

  void begin_round() override {
    AmqpConnection rabbitmq(port_);
    if (!queue_.empty()) {
      rabbitmq.call(1, Method::queue_delete, Writer().number(0, 2).short_text(queue_).number(0, 1),
                    Method::queue_delete_ok);
    }
    queue_ = fmt::format("bench-{}", ++rounds_);
    constexpr std::uint64_t durable = 2;
    rabbitmq.call(
        1, Method::queue_declare,
        Writer()
            .number(0, 2)
            .short_text(queue_)
            .number(durable, 1)
            .long_text(Writer().short_text("x-queue-type").raw("S").long_text("quorum").bytes()),
        Method::queue_declare_ok);
  }

  [[nodiscard]] std::unique_ptr<QueueClient> connect() override {
    return std::make_unique<RabbitmqClient>(port_, queue_);
  }

 private:
  // All that it writes lies in the folder, all that it listens at is the loopback's, and nothing
  // comes from the configuration of the machine.
  [[nodiscard]] std::map<std::string, std::string> environment() const {
    const std::string& folder = folder_.path();
    const std::string node_name = fmt::format("strand-bench-{}@localhost", port_);
    std::ofstream(folder + "/plugins") << "[].\n";
    return {
        {"HOME", folder},
        {"RABBITMQ_CONF_ENV_FILE", folder + "/no-such-file"},
        {"RABBITMQ_CONFIG_FILE", folder + "/rabbitmq"},
        {"RABBITMQ_ADVANCED_CONFIG_FILE", folder + "/advanced"},
        {"RABBITMQ_ENABLED_PLUGINS_FILE", folder + "/plugins"},
        {"RABBITMQ_NODENAME", node_name},
        {"RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1"},
        {"RABBITMQ_NODE_PORT", std::to_string(port_)},
        {"RABBITMQ_DIST_PORT", std::to_string(free_port())},
        {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
         "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"},
        {"RABBITMQ_MNESIA_BASE", folder + "/data"},
        {"RABBITMQ_LOG_BASE", folder + "/logs"},
        {"RABBITMQ_LOGS", "-"},
        {"RABBITMQ_PID_FILE", folder + "/pid"},
        {"ERL_EPMD_ADDRESS", "127.0.0.1"},
        {"ERL_EPMD_PORT", std::to_string(names_.port())},
        {"ERL_CRASH_DUMP", "/dev/null"},
        // The script becomes the broker, instead of waiting for it: so a signal reaches it.
        {"detached", "yes"},
    };
  }

  Folder folder_;
  NameServer names_;
  int port_;
  Child child_;
  std::string queue_;
  int rounds_ = 0;
};

}  // namespace

std::unique_ptr<Contender> rabbitmq_quorum() { return std::make_unique<Rabbitmq>(); }

}  // namespace strand::bench
