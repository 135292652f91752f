// Plays a job to see whether it fits together; how long it takes does not matter.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_BUILD_TRIAL_H_
#define VRANK_GRAPH_BUILD_TRIAL_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/fold/rooted_programs.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

// What a rank was told when it made a communicator, by its own number of it.
struct Told {
  uint32_t size = 0, index = 0;
  friend bool operator==(const Told&, const Told&) = default;
};
using ToldByRank = std::map<std::pair<int32_t, uint32_t>, Told>;

// A traced rank and its program.
struct TracedProgram {
  int32_t rank = 0;
  std::string file;  // of its slice
  Program* program = nullptr;
};

struct TrialResult {
  std::vector<ExecutionGraph::Communicator> communicators;  // in order of identity
  // By rank and the rank's own number: index into `communicators`.
  std::map<std::pair<int32_t, uint32_t>, size_t> by_number;
  RootedPrograms rooted;
};

// The traced rank of each class that leads it (leader.h); classes without one are
// missing.
std::map<int32_t, int32_t> LeadersByClass(const Layout& layout,
                                          const std::vector<TracedProgram>& traced);

// Plays all ranks under the layout: traced ones their own programs, the others their
// leaders', or what goes with that (graph/fold/rooted_programs.h). Errors: the
// engine's, with ranks, communicator and both sides; a job that comes to a halt; a
// communicator whose size or index is not what a slice was told. REQUIRES: every class
// has a leader; every program is closed.
absl::StatusOr<TrialResult> PlayTrial(const Layout& layout,
                                      const std::vector<GroupHint>& hints,
                                      const std::vector<TracedProgram>& traced,
                                      const ToldByRank& told);

// The communicators that a program makes and releases, and nothing else.
std::unique_ptr<Program> CreationsOf(const Program& program);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRIAL_H_
