// Infers the peers of sends and receives of which a recording has no more than the
// group and the size (PyTorch 2.15: batch_isend_irecv).
//
// Both sides of a transfer end together. So the peer of a part is the one member of the
// group that has a part of the same size and type, in the other direction, which ends
// at the same time, as far as clocks allow to tell. Where several members have one
// (stages of a pipeline that work in step), it is the one of them with which the rank
// has such a transfer elsewhere in the recording. What stays open is left out and
// counted.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_TRANSFER_PEERS_H_
#define VRANK_GRAPH_IMPORT_TRANSFER_PEERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "graph/import/communication_match.h"
#include "graph/import/import_losses.h"

namespace vrank::graph {

// Sets all peers that are kUnknownPeer, or leaves the parts out. `losses`: by rank.
void InferPeers(std::vector<RankCommunication>* ranks,
                std::map<int32_t, ImportLosses>* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_TRANSFER_PEERS_H_
