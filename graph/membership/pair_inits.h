// Communicators of two ranks for their sends and receives, whose ends the job's store
// names.
//
// Up to version 2.14 PyTorch makes one for each pair of ranks that exchange data
// outside of a batch, where its groups were not made for a device (init_process_group
// without device_id). No layout has such groups: a stage of a pipeline and the next
// one. The key of their id says which two of a process group they are ("0:1";
// torch 2.11, ProcessGroupNCCL.cpp, getKeySendRecv), and the store server passes them
// on before the ranks join.
//
// In slices and graphs the id itself says it (graph/schema/pair_id.h).
//
// In the group of all ranks, its ranks are those of the job. Else the group is one of
// the layout in which the caller has that place: along the pipeline where it is one of
// several. A rank that follows has its peer as far away as its leader; both must be of
// other classes, since both ends cannot do the same.
//
// Thread rule: one thread. Ranks are world ranks. Errors: no group fits, several do;
// the ends are of one class, with the ranks whose calls would tell.

#ifndef VRANK_GRAPH_MEMBERSHIP_PAIR_INITS_H_
#define VRANK_GRAPH_MEMBERSHIP_PAIR_INITS_H_

#include <cstdint>
#include <map>
#include <optional>

#include <absl/status/statusor.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/group_repeats.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/layout.h"
#include "graph/replay/membership.h"
#include "graph/schema/op.h"

namespace vrank::graph {

class PairInits {
 public:
  // All outlive it.
  PairInits(const Layout& layout, const CallingRanks& calling, GroupRepeats& repeats)
      : layout_(layout), calling_(calling), repeats_(repeats) {}

  void Note(const UniqueId& id, const Membership::PairEnds& ends) { ends_[id] = ends; }

  // nullopt: the id is not of a pair. `leader`: the rank that made the call, `rank`
  // itself or its leader.
  absl::StatusOr<std::optional<Membership::InitAnswer>> Init(int32_t rank,
                                                             int32_t leader,
                                                             const Creation& call);

 private:
  absl::StatusOr<int32_t> PeerOf(int32_t leader, uint32_t own, uint32_t other,
                                 bool of_world) const;
  absl::Status CheckClasses(int32_t leader, int32_t peer) const;

  const Layout& layout_;
  const CallingRanks& calling_;
  GroupRepeats& repeats_;
  std::map<UniqueId, Membership::PairEnds> ends_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_PAIR_INITS_H_
