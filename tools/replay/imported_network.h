// A cluster's network under an imported graph: an operation whose size is not known
// lasts as recorded.
//
// Thread rule: const methods, from any thread.

#ifndef VRANK_TOOLS_REPLAY_IMPORTED_NETWORK_H_
#define VRANK_TOOLS_REPLAY_IMPORTED_NETWORK_H_

#include <cstdint>
#include <span>

#include "graph/models/alpha_beta_network.h"

namespace vrank::tools {

class ImportedNetwork : public graph::AlphaBetaNetwork {
 public:
  using AlphaBetaNetwork::AlphaBetaNetwork;

  static bool IsPriced(const graph::CollectiveCall& call) { return call.count != 0; }
  // Transfers of unknown size are of one byte. The recorded time of transfers is work
  // behind them.
  static bool IsPriced(uint64_t transfer_bytes) { return transfer_bytes > 1; }

  graph::Cost Collective(const graph::CollectiveCall& call,
                         std::span<const int32_t> members) const override {
    if (IsPriced(call))
      return AlphaBetaNetwork::Collective(call, members);
    return {Duration::Nanoseconds(static_cast<int64_t>(call.recorded_ns)),
            graph::Source::kRecorded};
  }
  graph::Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override {
    if (IsPriced(bytes))
      return AlphaBetaNetwork::Transfer(bytes, from, to);
    return {Duration::Nanoseconds(0), graph::Source::kRecorded};
  }
  // As RecordedNetwork: both sides meet.
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 0; }
  // Communicators existed before the recording.
  graph::Cost Creation(std::span<const int32_t>) const override {
    return {Duration::Nanoseconds(0), graph::Source::kRecorded};
  }
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_IMPORTED_NETWORK_H_
