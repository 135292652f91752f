// Payloads over a TCP connection: the second implementation of PayloadTransport, which
// shows that the interface holds where bytes lie on another machine. The hub runs in a
// thread behind the connection; answers come when they come.
//
// Thread rule: the transport by one thread; the server has its own.

#ifndef VRANK_TESTS_EMULATOR_PAYLOAD_SOCKET_TRANSPORT_H_
#define VRANK_TESTS_EMULATOR_PAYLOAD_SOCKET_TRANSPORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/payload/hub.h"

namespace vrank::emulator {

enum class SocketMessage : uint32_t {
  kAdd,
  kRelease,
  kLose,
  kDeposit,
  kCollective,
  kTransfers,
  kFetch,
  kAnswer,  // to kFetch
  kError,   // of a call that has no answer
};

class MessageWriter {
 public:
  template <typename T>
  MessageWriter& Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return PutBytes(&value, sizeof(value));
  }
  MessageWriter& PutBytes(const void* bytes, size_t size) {
    body_.append(static_cast<const char*>(bytes), size);
    return *this;
  }
  template <typename T>
  MessageWriter& PutAll(std::span<const T> values) {
    Put(uint64_t{values.size()});
    return PutBytes(values.data(), values.size_bytes());
  }
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

class MessageReader {
 public:
  explicit MessageReader(const std::string& body) : body_(body) {}
  template <typename T>
  T Get() {
    T value{};
    memcpy(&value, body_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  template <typename T>
  std::vector<T> GetAll() {
    std::vector<T> values(Get<uint64_t>());
    if (!values.empty())
      memcpy(values.data(), body_.data() + at_, values.size() * sizeof(T));
    at_ += values.size() * sizeof(T);
    return values;
  }
  std::string GetText() {
    const auto text = GetAll<char>();
    return {text.begin(), text.end()};
  }

 private:
  const std::string& body_;
  size_t at_ = 0;
};

struct MessageHead {
  SocketMessage kind;
  uint32_t size;
};

// False: the other side is gone.
inline bool SendMessage(int socket, SocketMessage kind, const MessageWriter& message) {
  const MessageHead head{kind, static_cast<uint32_t>(message.body().size())};
  std::string all(reinterpret_cast<const char*>(&head), sizeof(head));
  all += message.body();
  for (size_t done = 0; done < all.size();) {
    const ssize_t sent =
        send(socket, all.data() + done, all.size() - done, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

// A hub behind a port of this machine, for one connection.
class PayloadServer {
 public:
  PayloadServer(const HubOptions& options, std::set<int32_t> real_ranks)
      : hub_(options, std::move(real_ranks)),
        listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, any, length) == 0 && listen(listener_, 1) == 0 &&
        getsockname(listener_, any, &length) == 0)
      port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~PayloadServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  uint16_t port() const { return port_; }
  // The connection has ended, and with it the work.
  bool ended() const { return ended_; }
  // REQUIRES: ended().
  const PayloadHub& hub() const { return hub_; }

 private:
  void Serve() {
    const int connection = accept(listener_, nullptr, nullptr);
    MessageHead head{};
    while (connection >= 0 &&
           recv(connection, &head, sizeof(head), MSG_WAITALL) == sizeof(head)) {
      std::string body(head.size, '\0');
      if (head.size > 0 && recv(connection, body.data(), body.size(), MSG_WAITALL) !=
                               static_cast<ssize_t>(body.size()))
        break;
      if (!Handle(connection, head.kind, MessageReader(body)))
        break;
    }
    if (connection >= 0)
      close(connection);
    ended_ = true;
  }

  bool Handle(int connection, SocketMessage kind, MessageReader message) {
    const auto rank = message.Get<int32_t>();
    absl::Status status;
    switch (kind) {
      case SocketMessage::kAdd: {
        const auto number = message.Get<uint32_t>();
        const auto index = message.Get<uint32_t>();
        const std::string identity = message.GetText();
        hub_.AddCommunicator(rank, number, identity, message.GetAll<int32_t>(), index);
        break;
      }
      case SocketMessage::kLose:
        hub_.LoseRank(rank);
        break;
      case SocketMessage::kRelease:
        hub_.ReleaseCommunicator(rank, message.Get<uint32_t>());
        break;
      case SocketMessage::kDeposit: {
        const auto payload = message.Get<protocol::Payload>();
        status = hub_.Deposit(rank, payload, message.GetAll<std::byte>());
        break;
      }
      case SocketMessage::kCollective: {
        const auto number = message.Get<uint32_t>();
        status = hub_.Collective(rank, number, message.Get<graph::CollectiveCall>());
        break;
      }
      case SocketMessage::kTransfers: {
        const auto number = message.Get<uint32_t>();
        status = hub_.Transfers(rank, number, message.GetAll<protocol::Transfer>());
        break;
      }
      default: {
        const auto id = message.Get<uint64_t>();
        const auto key = message.Get<protocol::PayloadKey>();
        const auto offset = message.Get<uint64_t>();
        const auto bytes = message.Get<uint64_t>();
        return Answer(connection, id, hub_.Fetch(rank, key, offset, bytes));
      }
    }
    return status.ok() ||
           SendMessage(connection, SocketMessage::kError,
                       MessageWriter().PutAll(std::span(status.message())));
  }

  static bool Answer(int connection, uint64_t id,
                     const absl::StatusOr<PayloadHub::Fetched>& fetched) {
    MessageWriter answer;
    answer.Put(id).PutAll(std::span(fetched.status().message()));
    const PayloadHub::Fetched found = fetched.ok() ? *fetched : PayloadHub::Fetched();
    answer.Put(found.state).Put(found.bytes).Put(found.mirrored_bytes);
    answer.Put(found.recorded).PutAll(std::span<const std::byte>(found.data));
    return SendMessage(connection, SocketMessage::kAnswer, answer);
  }

  PayloadHub hub_;
  const int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

class SocketTransport final : public PayloadTransport {
 public:
  explicit SocketTransport(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      failed_ = absl::UnavailableError("nobody listens");
  }
  ~SocketTransport() override { close(socket_); }

  void AddCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                       std::span<const int32_t> members, uint32_t index) override {
    MessageWriter message;
    message.Put(rank).Put(number).Put(index).PutAll(std::span<const char>(identity));
    Send(SocketMessage::kAdd, message.PutAll(members)).IgnoreError();
  }
  void LoseRank(int32_t rank) override {
    Send(SocketMessage::kLose, MessageWriter().Put(rank)).IgnoreError();
  }
  void ReleaseCommunicator(int32_t rank, uint32_t number) override {
    Send(SocketMessage::kRelease, MessageWriter().Put(rank).Put(number)).IgnoreError();
  }
  absl::Status Deposit(int32_t rank, const protocol::Payload& payload,
                       std::span<const std::byte> bytes) override {
    return Send(SocketMessage::kDeposit,
                MessageWriter().Put(rank).Put(payload).PutAll(bytes));
  }
  absl::Status Collective(int32_t rank, uint32_t number,
                          const graph::CollectiveCall& call) override {
    return Send(SocketMessage::kCollective,
                MessageWriter().Put(rank).Put(number).Put(call));
  }
  absl::Status Transfers(int32_t rank, uint32_t number,
                         std::span<const protocol::Transfer> transfers) override {
    return Send(SocketMessage::kTransfers,
                MessageWriter().Put(rank).Put(number).PutAll(transfers));
  }

  absl::StatusOr<Fetched> Fetch(int32_t rank, const protocol::PayloadKey& key,
                                uint64_t offset, uint64_t bytes) override {
    if (absl::Status status = Receive(); !status.ok())
      return status;
    const Wish wish{
        rank, key.communicator, key.is_transfer, key.peer, key.sequence, offset, bytes};
    const auto asked = asked_.find(wish);
    if (asked != asked_.end()) {
      const auto answer = answers_.find(asked->second.id);
      if (answer == answers_.end())
        return Fetched{FetchState::kUnderWay, 0, 0, false, {}};
      if (!answer->second.error.ok())
        return answer->second.error;
      const bool waits = answer->second.found.state == FetchState::kNotReady;
      // Whoever has not contributed has not done so since.
      if (waits && asked->second.calls_before == calls_)
        return Fetched{};
      Fetched found = std::move(answer->second.found);
      answers_.erase(answer);
      asked_.erase(asked);
      if (!waits)
        return found;
    }
    const uint64_t id = ++ids_;
    asked_[wish] = {id, calls_};
    if (!SendMessage(socket_, SocketMessage::kFetch,
                     MessageWriter().Put(rank).Put(id).Put(key).Put(offset).Put(bytes)))
      return absl::UnavailableError("the connection has ended");
    return Fetched{FetchState::kUnderWay, 0, 0, false, {}};
  }

  uint64_t dropped_bytes() const override { return 0; }
  uint64_t fetches_sent() const { return ids_; }

 private:
  using Wish =
      std::tuple<int32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t>;
  struct Asked {
    uint64_t id = 0;
    uint64_t calls_before = 0;
  };

  struct Reply {
    absl::Status error;
    Fetched found;
  };

  absl::Status Send(SocketMessage kind, const MessageWriter& message) {
    ++calls_;
    if (failed_.ok() && !SendMessage(socket_, kind, message))
      failed_ = absl::UnavailableError("the connection has ended");
    return Receive();
  }

  // Takes what has come.
  absl::Status Receive() {
    char buffer[1 << 16];
    ssize_t got = 0;
    while ((got = recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
      received_.append(buffer, static_cast<size_t>(got));
    MessageHead head{};
    while (received_.size() >= sizeof(head)) {
      memcpy(&head, received_.data(), sizeof(head));
      if (received_.size() < sizeof(head) + head.size)
        break;
      const std::string body = received_.substr(sizeof(head), head.size);
      received_.erase(0, sizeof(head) + head.size);
      MessageReader message(body);
      if (head.kind == SocketMessage::kError) {
        failed_ = absl::InvalidArgumentError(message.GetText());
        continue;
      }
      const auto id = message.Get<uint64_t>();
      const std::string error = message.GetText();
      Fetched found;
      found.state = message.Get<FetchState>();
      found.bytes = message.Get<uint64_t>();
      found.mirrored_bytes = message.Get<uint64_t>();
      found.recorded = message.Get<bool>();
      found.data = message.GetAll<std::byte>();
      answers_[id] = {
          error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error),
          std::move(found)};
    }
    return failed_;
  }

  const int socket_;
  absl::Status failed_;
  std::string received_;
  uint64_t ids_ = 0;
  uint64_t calls_ = 0;  // that a Fetch after them has to see
  std::map<Wish, Asked> asked_;
  std::map<uint64_t, Reply> answers_;
};

}  // namespace vrank::emulator

#endif  // VRANK_TESTS_EMULATOR_PAYLOAD_SOCKET_TRANSPORT_H_
