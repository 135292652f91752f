// One communicator as seen under a colouring: labels of members, and on whose arrivals
// an end depends in terms of labels.
//
// Used to refine colours and, with the members of the quotient as labels, to check that
// a quotient says the same as what it stands for.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_FOLD_VIEW_H_
#define VRANK_GRAPH_FOLD_VIEW_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/fold/colours.h"
#include "graph/fold/job.h"

namespace vrank::graph {

// A member's colour and its own number of the communicator.
using Label = uint64_t;

Label LabelOf(const CommunicatorInstance& instance, size_t member,
              const Colouring& colouring);
// By member index.
std::vector<Label> LabelsOf(const CommunicatorInstance& instance,
                            const Colouring& colouring);

// Each label once, in the order of first appearance from `start` on, cyclically.
std::vector<Label> FirstAppearances(const std::vector<Label>& labels,
                                    uint32_t start = 0);

// On which arrivals the ends of a collective with a root depend. Two members with equal
// `views`, under equal `order`s, have ends that are the same maximum, ties included.
struct RootedView {
  std::vector<Label> order;  // labels in the order of the chain or of the hub
  std::vector<std::pair<uint32_t, Label>> views;  // by member
};

// REQUIRES: HasRoot(call.operation), call.root < labels.size()
RootedView ViewOf(const CollectiveCall& call, const std::vector<Label>& labels);

// The member that `rank` exchanges `transfer` with on communicator `number`.
uint32_t PeerOf(const ResolvedJob& job, uint32_t rank, uint32_t number,
                const Transfer& transfer);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_VIEW_H_
