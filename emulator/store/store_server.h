// The store that the real ranks of a PyTorch job meet at, in place of the one that rank
// 0 or torchrun would host: a TCP server on the loopback interface.
//
// Ranks that are not real never come. What they would have set is set by SetForAbsent,
// which the session calls when no real rank can do anything any more: then no real rank
// is going to. In Gloo groups, which meet here and talk among themselves, they are
// played from then on (gloo_peers.h).
//
// Thread rule: one thread, the session's.

#ifndef VRANK_EMULATOR_STORE_STORE_SERVER_H_
#define VRANK_EMULATOR_STORE_STORE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "emulator/store/absent_ranks.h"
#include "emulator/store/gloo_peers.h"
#include "emulator/store/key_store.h"
#include "emulator/store/loopback_server.h"

namespace vrank::emulator {

class StoreServer : private LoopbackServer::Owner {
 public:
  // The rank with a process that has a socket at this port.
  using RankOfPort = std::function<std::optional<int32_t>(uint16_t port)>;

  // Told of the id of a communicator for two ranks, when it is set.
  using OnPair = std::function<void(const std::string& id, const PairOfKey& pair)>;

  // Listens at `wanted_port` of 127.0.0.1 where it is free, else at any other.
  // `peer_of` and `limits` are for tests: see acceptor.h.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Create(
      uint16_t wanted_port, RankOfPort rank_of_port, Acceptor::PeerOf peer_of = nullptr,
      Acceptor::Limits limits = {});
  ~StoreServer() override;

  uint16_t port() const { return server_->port(); }
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // What came: nothing, questions whether a key is there, or more. A heartbeat thread
  // asks such questions for ever, also in a job that is stuck.
  enum class Heard { kNothing, kLooks, kMore };
  // Accepts, answers and notices ends; never blocks. An error says what a rank asked
  // that this store cannot do; a client that speaks another protocol, or is another
  // user's, is disconnected and counted.
  absl::StatusOr<Heard> HandleEvents();

  // A client has introduced itself.
  bool in_use() const { return in_use_; }
  // Some client waits for what nobody has set or sent.
  bool HasMissing() const { return !keys_.Missing().empty() || gloo_->HasPending(); }
  struct Wait {
    std::optional<int32_t> rank;  // where its process is known
    std::string key;
  };
  // What processes of ranks wait for and no rank has set.
  std::vector<Wait> Waits() const;
  // Sets and sends it: the ids of communicators for two ranks where some are waited
  // for, else all of it. An error where the value is not known.
  absl::Status SetForAbsent();
  // How many keys were set for ranks that are not real.
  uint64_t set_for_absent() const { return set_for_absent_; }
  GlooPeers& gloo() { return *gloo_; }
  void TellOfPairs(OnPair on_pair) { on_pair_ = std::move(on_pair); }
  // Of replies that clients have not taken, for tests.
  size_t bytes_waiting() const { return server_->bytes_waiting(); }
  // What the user should know, each once.
  std::vector<std::string> TakeNotes();
  // Connections that were closed since they were no rank's, by server and kind.
  std::map<std::string, uint64_t> foreign_connections() const;

 private:
  explicit StoreServer(RankOfPort rank_of_port)
      : rank_of_port_(std::move(rank_of_port)) {}
  absl::Status Received(LoopbackServer::Client client, std::string* in) override;
  void Gone(LoopbackServer::Client client) override;
  static absl::Status CheckIntroduction(std::string_view bytes);
  absl::Status Handle(LoopbackServer::Client client, const StoreRequest& request,
                      KeyStore::Replies* replies);
  void Send(const KeyStore::Replies& replies);
  std::optional<int32_t> RankOf(LoopbackServer::Client client) const;
  void TellOfPair(const std::string& key, const std::string& id) const;
  // Two ranks that set the id of one communicator each call another group by its name.
  absl::Status CheckSetsOnce(LoopbackServer::Client client,
                             const StoreRequest& request);
  // Those of a Gloo group whose key some rank waits for.
  absl::Status PlayAbsent(const std::string& gloo_prefix, KeyStore::Replies* replies);

  int epoll_ = -1;
  bool in_use_ = false;
  bool more_than_looks_ = false;  // in this call of HandleEvents
  uint64_t set_for_absent_ = 0;
  KeyStore keys_;
  std::set<LoopbackServer::Client> validated_;
  std::set<std::string> played_;  // keys of ranks of Gloo groups
  std::unique_ptr<LoopbackServer> server_;
  std::unique_ptr<GlooPeers> gloo_;
  const RankOfPort rank_of_port_;
  OnPair on_pair_;
  // Clients that have set the id of a communicator, by its key.
  std::map<std::string, LoopbackServer::Client> set_by_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_STORE_SERVER_H_
