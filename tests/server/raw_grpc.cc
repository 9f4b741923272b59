#include "server/raw_grpc.h"

#include <limits>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>

#include "proto/strand/v1/store.pb.h"

namespace strand::server {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string text_of(grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return {};
  std::string text;
  for (const grpc::Slice& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

// --- Extremes ---

// One value for a field: sets it in a message.
using Setter = std::function<void(Message&)>;

std::vector<std::string> extreme_texts(bool must_be_utf8) {
  std::vector<std::string> texts = {"",
                                    "../../etc/passwd",
                                    std::string("a\0b", 3),
                                    "a\nb\x1b[2J",
                                    std::string(10'000, 'n'),
                                    "#",
                                    "*.*",
                                    "strand://",
                                    "0",
                                    std::string(48, 'f')};
  if (!must_be_utf8) texts.emplace_back("\xff\xfe\x80");
  return texts;
}

std::vector<Setter> number_setters(const FieldDescriptor& field) {
  using Signed = std::numeric_limits<std::int64_t>;
  std::vector<Setter> setters;
  const auto add = [&](auto value) {
    setters.emplace_back([&field, value](Message& message) {
      const Reflection& at = *message.GetReflection();
      switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT64:
          if (field.is_repeated()) {
            at.AddInt64(&message, &field, static_cast<std::int64_t>(value));
          } else {
            at.SetInt64(&message, &field, static_cast<std::int64_t>(value));
          }
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          if (field.is_repeated()) {
            at.AddUInt64(&message, &field, static_cast<std::uint64_t>(value));
          } else {
            at.SetUInt64(&message, &field, static_cast<std::uint64_t>(value));
          }
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          at.SetUInt32(&message, &field, static_cast<std::uint32_t>(value));
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          at.SetEnumValue(&message, &field, static_cast<int>(value));
          break;
        default:
          at.SetBool(&message, &field, value > 0);
      }
    });
  };
  for (const std::int64_t value :
       {Signed::max(), Signed::min(), std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
        std::int64_t{99}, Signed::max() / 2, std::int64_t{0xffffffff}, Signed::max() / 1'000'000})
    add(value);
  return setters;
}

std::vector<Setter> text_setters(const FieldDescriptor& field) {
  std::vector<Setter> setters;
  for (std::string& text : extreme_texts(field.type() == FieldDescriptor::TYPE_STRING)) {
    setters.emplace_back([&field, text = std::move(text)](Message& message) {
      const Reflection& at = *message.GetReflection();
      if (field.is_repeated()) {
        at.AddString(&message, &field, text);
      } else {
        at.SetString(&message, &field, text);
      }
    });
  }
  return setters;
}

void fill_good(Message& message, const GoodTexts& good) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto text = good.find(field.name());
    if (text == good.end() || field.is_repeated() || field.has_presence()) continue;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
    message.GetReflection()->SetString(&message, &field, text->second);
  }
}

class Extremes {
 public:
  using Use = std::function<void(const Message&, const std::string&)>;
  Extremes(const Message& request, const GoodTexts& good, const Use& use)
      : good_(good), use_(use), root_(request.New()) {}

  void go() {
    fill_good(*root_, good_);
    descend(*root_, root_->GetDescriptor()->name());
  }

 private:
  // `part` is inside of `root_`.
  void descend(Message& part, const std::string& path) {
    const Descriptor& type = *part.GetDescriptor();
    const Reflection& at = *part.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const std::string where = path + "." + field.name();
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Message* const inner =
            field.is_repeated() ? at.AddMessage(&part, &field) : at.MutableMessage(&part, &field);
        fill_good(*inner, good_);
        use_(*root_, where);
        descend(*inner, where);
        at.ClearField(&part, &field);
        continue;
      }
      const std::unique_ptr<Message> before(part.New());
      before->CopyFrom(part);
      const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      for (const Setter& set : text ? text_setters(field) : number_setters(field)) {
        set(part);
        use_(*root_, where);
        part.CopyFrom(*before);
      }
    }
  }

  const GoodTexts& good_;
  const Use& use_;
  std::unique_ptr<Message> root_;
};

}  // namespace

std::shared_ptr<grpc::Channel> channel_to(std::uint16_t port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

RawGrpcClient::RawGrpcClient(std::uint16_t port) : channel_(channel_to(port)), stub_(channel_) {}

RawAnswer RawGrpcClient::call(const std::string& method, const std::string& bytes,
                              const RawCall& options) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options.patience);
  for (const auto& [name, value] : options.metadata)
    context.AddMetadata(name, value);
  if (options.compress) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool good = false;
  // One step at a time; its end is waited for.
  const auto step = [&] { return queue.Next(&tag, &good) && good; };
  const auto stream = stub_.PrepareCall(
      &context, method.starts_with('/') ? method : "/strand.v1.Store/" + method, &queue);
  RawAnswer answer;
  grpc::ByteBuffer read;
  stream->StartCall(nullptr);
  if (step()) {
    stream->WriteLast(buffer_of(bytes), {}, nullptr);
    if (step()) {
      do {
        answer.bytes = read.Valid() ? text_of(read) : answer.bytes;
        read.Clear();
        stream->Read(&read, nullptr);
      } while (step());
    }
  }
  stream->Finish(&answer.status, nullptr);
  step();
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find("strand-error"); found != trailers.end())
    answer.error.assign(found->second.data(), found->second.size());
  queue.Shutdown();
  while (queue.Next(&tag, &good)) {
  }
  return answer;
}

std::vector<RawMethod> all_methods() {
  std::vector<RawMethod> methods;
  const auto* const service = v1::ApplyRequest::descriptor()->file()->FindServiceByName("Store");
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* const method = service->method(i);
    const Message* const prototype =
        MessageFactory::generated_factory()->GetPrototype(method->input_type());
    methods.push_back(
        {.name = method->name(), .request = std::unique_ptr<Message>(prototype->New())});
  }
  return methods;
}

void with_extremes(const Message& request, const GoodTexts& good,
                   const std::function<void(const Message&, const std::string&)>& use) {
  Extremes(request, good, use).go();
}

}  // namespace strand::server
