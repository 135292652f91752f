// What the engine asks of a network model: how long, never when.
//
// Thread rule: const methods, safe to call from several threads.

#ifndef VRANK_GRAPH_REPLAY_NETWORK_MODEL_H_
#define VRANK_GRAPH_REPLAY_NETWORK_MODEL_H_

#include <span>

#include "base/guest/units.h"
#include "graph/schema/op.h"

namespace vrank::graph {

struct Cost {
  Duration duration;
  Source source = Source::kModelled;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;

  // Time of a collective from the last arrival that it depends on to its end.
  // `members`: world rank of each member, in communicator order.
  virtual Cost Collective(const CollectiveCall& call,
                          std::span<const int32_t> members) const = 0;
  // Time of one transfer from the arrival of both sides to its end.
  virtual Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const = 0;
  // Bytes that a sender may put on the way to one peer of one communicator before the
  // peer has posted the receive.
  virtual uint64_t TransferCreditBytes(int32_t from, int32_t to) const = 0;
  // Host time of creating a communicator, from the last member's arrival.
  virtual Cost Creation(std::span<const int32_t> members) const = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_NETWORK_MODEL_H_
