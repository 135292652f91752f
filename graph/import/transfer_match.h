// Puts the sends of each rank together with the receives of their peers, as
// part_alignment.h decides for each pair of ranks, group and direction.
//
// Both sides meet, and then the transfer takes as long as it took on the side that
// came last. A send of a few bytes may end before its receive begins: it goes to a
// buffer of NCCL's, and does not wait.
//
// A kernel of batch_isend_irecv holds several transfers, which begin together; it ends
// with the last of them. Batches and single transfers use communicators of their own
// (PyTorch's ProcessGroupNCCL), so that neither waits for the other.
//
// A kernel of which a transfer has no counterpart is counted; for that one it lasts as
// recorded.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_TRANSFER_MATCH_H_
#define VRANK_GRAPH_IMPORT_TRANSFER_MATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "graph/import/communication_match.h"
#include "graph/import/import_losses.h"

namespace vrank::graph {

// `losses`: by rank.
void MatchTransfers(const std::vector<RankCommunication>& ranks,
                    std::map<int32_t, ImportLosses>* losses, CommunicationMatch* match);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_TRANSFER_MATCH_H_
