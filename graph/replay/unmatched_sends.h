// Sends of one member of a communicator to another that no receive meets any more.
//
// Thread rule: plain values; functions of their arguments.

#ifndef VRANK_GRAPH_REPLAY_UNMATCHED_SENDS_H_
#define VRANK_GRAPH_REPLAY_UNMATCHED_SENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/replay/communicator.h"

namespace vrank::graph {

struct UnmatchedSends {
  std::string communicator;
  int32_t from = 0, to = 0;  // world ranks
  uint32_t from_index = 0, to_index = 0;
  uint64_t sequence = 0, bytes = 0;  // of the first one
  uint64_t sent = 0;
  friend auto operator<=>(const UnmatchedSends&, const UnmatchedSends&) = default;
};

// Appends those of a communicator. Of one that a member has aborted: none, since there
// an operation may be given up.
template <class Step>
void FindUnmatched(const Communicator<Step>& c, std::vector<UnmatchedSends>* found) {
  if (c.aborted)
    return;
  c.ForEachChannel(
      [&](uint32_t from, uint32_t to, const TransferChannel<Step>& channel) {
        if (const auto first = channel.FirstUnmatchedSend())
          found->push_back({c.identity, c.members[from], c.members[to], from, to,
                            first->sequence, first->bytes, channel.sent()});
      });
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_UNMATCHED_SENDS_H_
