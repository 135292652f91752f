#include "emulator/store/gloo_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include <fmt/format.h>

#include "emulator/store/store_request.h"

namespace vrank::emulator {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kSocketBytes = sizeof(sockaddr_storage) + kNumberBytes;
constexpr size_t kHeadBytes = 6 * kNumberBytes;

std::optional<uint64_t> TakeNumber(std::string_view* from) {
  if (from->size() < kNumberBytes)
    return std::nullopt;
  uint64_t number;
  std::memcpy(&number, from->data(), kNumberBytes);
  from->remove_prefix(kNumberBytes);
  return number;
}

std::optional<std::string> TakeText(std::string_view* from) {
  const auto length = TakeNumber(from);
  if (!length || *length > from->size())
    return std::nullopt;
  std::string text(from->substr(0, *length));
  from->remove_prefix(*length);
  return text;
}

}  // namespace

std::optional<GlooAddress> ReadGlooAddress(std::string_view value) {
  const auto host = TakeText(&value);
  const auto socket = host ? TakeText(&value) : std::nullopt;
  if (!socket || socket->size() != kSocketBytes || value.size() % kNumberBytes != 0)
    return std::nullopt;
  GlooAddress address{*host, *socket, {}};
  while (const auto greeting = TakeNumber(&value))
    address.greetings.push_back(static_cast<int64_t>(*greeting));
  return address;
}

std::string WriteGlooAddress(const GlooAddress& address) {
  std::string value;
  AppendText(&value, address.host);
  AppendText(&value, address.socket);
  for (const int64_t greeting : address.greetings)
    AppendNumber(&value, static_cast<uint64_t>(greeting), kNumberBytes);
  return value;
}

std::optional<std::string> LoopbackSocket(std::string_view like, uint16_t port) {
  sockaddr_in address{};
  if (like.size() != kSocketBytes)
    return std::nullopt;
  std::memcpy(&address, like.data(), sizeof address);
  if (address.sin_family != AF_INET)
    return std::nullopt;
  address.sin_addr.s_addr = htonl(INADDR_ANY);  // Linux connects it to the loopback
  address.sin_port = htons(port);
  std::string socket(kSocketBytes, '\0');
  std::memcpy(socket.data(), &address, sizeof address);
  std::memset(socket.data() + sizeof(sockaddr_storage), 0xff, kNumberBytes);
  return socket;
}

absl::StatusOr<std::optional<GlooMessage>> ReadGlooMessage(std::string_view* bytes,
                                                           uint64_t most_bytes) {
  if (bytes->size() < kHeadBytes)
    return std::nullopt;
  std::string_view rest = *bytes;
  const uint64_t all = *TakeNumber(&rest), kind = *TakeNumber(&rest);
  GlooMessage message;
  message.slot = *TakeNumber(&rest);
  TakeNumber(&rest);
  message.length = *TakeNumber(&rest);
  TakeNumber(&rest);
  message.kind = static_cast<GlooMessage::Kind>(kind);
  const uint64_t data = message.kind == GlooMessage::Kind::kData ? message.length : 0;
  if (kind < static_cast<uint64_t>(GlooMessage::Kind::kData) ||
      kind > static_cast<uint64_t>(GlooMessage::Kind::kWillReceive) ||
      all < kHeadBytes || all - kHeadBytes != data)
    return absl::InvalidArgumentError(fmt::format(
        "a Gloo group sent a message of kind {} with {} bytes that vrank does not know",
        kind, all));
  if (message.length > most_bytes)
    return absl::InvalidArgumentError(fmt::format(
        "a Gloo message of {} bytes, and this machine has {} bytes of memory",
        message.length, most_bytes));
  if (rest.size() < data)
    return std::nullopt;
  message.data = rest.substr(0, data);
  rest.remove_prefix(data);
  *bytes = rest;
  return message;
}

void AppendGlooMessage(std::string* out, const GlooMessage& message) {
  AppendNumber(out, kHeadBytes + message.data.size(), kNumberBytes);
  AppendNumber(out, static_cast<uint64_t>(message.kind), kNumberBytes);
  AppendNumber(out, message.slot, kNumberBytes);
  AppendNumber(out, 0, kNumberBytes);
  AppendNumber(out, message.length, kNumberBytes);
  AppendNumber(out, 0, kNumberBytes);
  out->append(message.data);
}

std::string_view GlooOperation(uint64_t slot) {
  constexpr std::string_view kNames[] = {"send",      "gather",     "all_gather",
                                         "reduce",    "all_reduce", "scatter",
                                         "broadcast", "barrier",    "all_to_all"};
  const uint64_t kind = slot >> kGlooKindShift;
  return kNames[kind < std::size(kNames) ? kind : 0];
}

}  // namespace vrank::emulator
