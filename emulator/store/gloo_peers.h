// The ranks that are not real, for the Gloo groups of those that are: one listener for
// all of them.
//
// A group is known by the store's prefix of its keys; the rank within the group is the
// key's last part.
//
// Thread rule: one thread, the session's.

#ifndef VRANK_EMULATOR_STORE_GLOO_PEERS_H_
#define VRANK_EMULATOR_STORE_GLOO_PEERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "emulator/store/gloo_group.h"
#include "emulator/store/gloo_wire.h"
#include "emulator/store/loopback_server.h"

namespace vrank::emulator {

class GlooPeers : private LoopbackServer::Owner {
 public:
  static absl::StatusOr<std::unique_ptr<GlooPeers>> Create();

  // Readable when HandleEvents has something to do.
  int poll_fd() const { return server_->poll_fd(); }
  absl::StatusOr<bool> HandleEvents() { return server_->HandleEvents(); }

  // From now on the ranks of the group that are not `real`, by rank in the group, are
  // played; returns what they put into the store, by rank. `real` is not empty, and its
  // addresses name all ranks of the group.
  absl::StatusOr<std::map<uint32_t, std::string>> Play(
      const std::map<uint32_t, GlooAddress>& real);

  bool HasPending() const;
  void AnswerPending();
  Strangers& strangers() { return server_->strangers(); }

  uint64_t mirrored_bytes() const;
  uint64_t copied_objects() const;
  // By operation.
  std::map<std::string, uint64_t> zero_bytes() const;
  // In words, once for each operation in which a real rank got zeros. Not of transfers:
  // a monitored barrier looks at none of the bytes.
  std::vector<std::string> TakeNotes();

 private:
  // Whom a connection is between.
  struct Place {
    size_t group = 0;
    GlooGroup::Pair pair;
  };

  absl::Status Received(LoopbackServer::Client client, std::string* in) override;
  void Gone(LoopbackServer::Client client) override;
  absl::StatusOr<Place> Greeted(int64_t greeting) const;
  void Send(size_t group, const GlooGroup::Replies& replies);
  // A real rank leaves its group, and the absent ones do as well.
  void Leave(size_t group, uint32_t real);

  std::unique_ptr<LoopbackServer> server_;
  uint64_t most_bytes_ = UINT64_MAX;  // of one message
  std::vector<GlooGroup> groups_;
  std::set<std::string_view> noted_;               // operations
  std::set<std::pair<size_t, uint32_t>> leavers_;  // real ranks of groups
  std::map<LoopbackServer::Client, Place> places_;
  std::map<std::pair<size_t, GlooGroup::Pair>, LoopbackServer::Client> clients_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_GLOO_PEERS_H_
