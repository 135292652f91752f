// Learns what the communicators of a job group, from a run of some of its ranks.
//
// The run ends when all its real ranks have ended their first iteration: programs make
// their communicators before, and what happens to be made later is told by
// graph::MembershipInference::inferred_without_hint. Only what comes before a rank's
// own end of the first iteration is looked at, so that the result does not depend on
// when the ranks were ended. A program without iterations runs to its end.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_COMMUNICATOR_LEARNING_H_
#define VRANK_TOOLS_JOB_COMMUNICATOR_LEARNING_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/group_hint.h"
#include "tools/job/job.h"
#include "tools/job/rank_output.h"

namespace vrank::tools {

enum class LearnUpTo { kFirstIteration, kEnd };

struct LearnedGroups {
  std::vector<graph::GroupHint> hints;
  bool whole = true;  // the run went to the program's end
};
// From one rank of each class, and those that decide where these leave it open. The
// others of a class follow it, but those to be traced themselves, which are absent.
absl::StatusOr<LearnedGroups> LearnGroups(const Job& job, LearnUpTo end,
                                          const std::vector<int32_t>& traced,
                                          RankOutput* output);

// Ranks that may be started together to learn a layout.
inline constexpr int32_t kMostForLayout = 64;
// The job itself where it states its layout; else with the layout that all its ranks
// show, run at once up to that end.
absl::StatusOr<Job> WithLayout(Job job, LearnUpTo end, RankOutput* output);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_COMMUNICATOR_LEARNING_H_
