// The store that the real ranks of a PyTorch job meet at, in place of the one that rank
// 0 or torchrun would host: a TCP server on the loopback interface.
//
// Ranks that are not real never come. What they would have set is set by SetForAbsent,
// which the session calls when no real rank can do anything any more: then no real rank
// is going to.
//
// Thread rule: one thread, the session's.

#ifndef VRANK_EMULATOR_STORE_STORE_SERVER_H_
#define VRANK_EMULATOR_STORE_STORE_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "emulator/store/key_store.h"

namespace vrank::emulator {

class StoreServer {
 public:
  // Listens at `wanted_port` of 127.0.0.1 where it is free, else at any other.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Create(uint16_t wanted_port);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const { return port_; }
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Accepts, answers and notices ends; never blocks. True where a request came. An
  // error says what a rank asked that this store cannot do.
  absl::StatusOr<bool> HandleEvents();

  // A client has introduced itself.
  bool in_use() const { return in_use_; }
  // Some client waits for a key that nobody has set.
  bool HasMissing() const { return !keys_.Missing().empty(); }
  // Sets all of them. An error where the value is not known.
  absl::Status SetForAbsent();
  // How many keys were set for ranks that are not real.
  uint64_t set_for_absent() const { return set_for_absent_; }

 private:
  struct Connection {
    bool validated = false;
    std::string in, out;
  };
  StoreServer(int listener, int epoll, uint16_t port);
  void AcceptAll();
  // False where the connection is to be closed.
  absl::StatusOr<bool> Read(int fd);
  absl::Status HandleRequests(int fd, Connection* connection);
  void Send(const KeyStore::Replies& replies);
  void Flush(int fd, Connection* connection);
  void Close(int fd);

  const int listener_;
  const int epoll_;
  const uint16_t port_;
  bool in_use_ = false;
  uint64_t set_for_absent_ = 0;
  KeyStore keys_;
  std::map<int, Connection> connections_;  // by descriptor
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_STORE_SERVER_H_
