// Random jobs with symmetry: classes of ranks that follow a leader, communicators cut
// in regular and irregular ways, and ranks that break the symmetry.

#ifndef VRANK_TESTS_GRAPH_FOLD_FOLDING_JOB_H_
#define VRANK_TESTS_GRAPH_FOLD_FOLDING_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/fold/job.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

// How the ranks of a job meet: communicator number i + 1 is cut as cuts[i] says.
struct Cut {
  uint32_t parent = 0;  // number of the communicator it is split from; 0: by init
  std::vector<std::vector<int32_t>> groups;
  bool even = false;    // all groups of one size, with their members in one order
  bool column = false;  // one rank of each class, by class
};

class CutMembership : public Membership {
 public:
  explicit CutMembership(const std::vector<Cut>* cuts) : cuts_(cuts) {}
  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override;
  absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent, uint32_t sequence,
      std::span<const SplitMember> members) override;

 private:
  const std::vector<Cut>* cuts_;
};

// Costs that depend on how many nodes the members span, as real ones do.
class NodeNetwork : public NetworkModel {
 public:
  explicit NodeNetwork(int32_t ranks_per_node) : ranks_per_node_(ranks_per_node) {}
  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override;
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override;
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 1000; }
  Cost Creation(std::span<const int32_t> members) const override;

 private:
  int64_t Nodes(std::span<const int32_t> members) const;
  int32_t ranks_per_node_;
};

struct FoldingJobOptions {
  uint32_t classes = 2, replicas = 4;
  int events = 60;
  int stragglers = 0;
  bool irregular = true;     // shuffled groups of the world
  bool even_pieces = false;  // classes are cut into halves (replicas > 1); else anyhow
  uint32_t piece = 0;        // ranks of a piece; 0: as the line above says
  bool roots = true, rings = true;
  bool late = false;     // pieces are cut once more, halfway through
  bool release = false;  // communicators are released in the end
};

struct FoldingJob {
  std::vector<Cut> cuts;
  std::vector<std::unique_ptr<Program>> programs;  // by class
  ReplayJob job;
};

// Replica 0 of a class leads it; rank = class * replicas + replica.
FoldingJob MakeFoldingJob(uint64_t seed, const FoldingJobOptions& options);

// Gives every second rank, leaders but, a program of its own that does what its
// leader's does. REQUIRES: no rings, in which ranks of a class have different peers.
void TraceMore(FoldingJob* made);
// Gives every rank a program of its own, which does what it did before at other costs.
// REQUIRES: likewise.
void TraceEach(FoldingJob* made, uint64_t seed);
// Gives every rank a program of its own, which does some works several times, at other
// costs, of other sources, and some not at all where `leave_out`. REQUIRES: likewise.
void TraceWorks(FoldingJob* made, uint64_t seed, bool leave_out);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_FOLD_FOLDING_JOB_H_
