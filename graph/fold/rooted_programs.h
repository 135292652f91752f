// Programs for ranks that follow one that gathers or scatters by sends and receives.
//
// What such a rank does is not what its leader does (graph/program/rooted_transfers.h),
// so it gets a copy of the leader's program with its own part, and stays a follower.
// There are as many copies as kinds of parts: mostly one, of all that are no root.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_FOLD_ROOTED_PROGRAMS_H_
#define VRANK_GRAPH_FOLD_ROOTED_PROGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graph/fold/job.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

struct RootedPrograms {
  std::vector<std::unique_ptr<Program>> programs;
  std::map<int32_t, size_t> of_rank;  // world rank: index into `programs`
};

// Quick and on the safe side: false where no rank of the job needs one.
bool MayNeedRootedPrograms(const ReplayJob& job);

// `classes`: by world rank. REQUIRES: no program has FollowersGroups.
RootedPrograms RootedProgramsOf(const ResolvedJob& job,
                                std::span<const int32_t> classes);

// The graph's ranks play them from now on.
void AddPrograms(RootedPrograms rooted, ExecutionGraph* graph);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_ROOTED_PROGRAMS_H_
