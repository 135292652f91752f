// Runs a job again with more real ranks where the ones it has do not decide who belongs
// to a communicator, or which ranks send to which.
//
// A colour and a key never state a group's size, nor a unique id its members. Where
// several groupings explain the calls that are seen, the error names ranks whose own
// calls tell them apart (graph/membership/deciding_rank.h): they become real, and their
// calls are seen, not guessed.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_DECIDING_RANKS_H_
#define VRANK_TOOLS_JOB_DECIDING_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <absl/status/status.h>

namespace vrank::tools {

// Calls `attempt` with `real_ranks`, and again with more as long as its error names
// deciding ranks, which is said on stderr unless `quiet`. `real_ranks` ends as
// the last attempt had it, ascending.
// REQUIRES: real_ranks is ascending.
absl::Status RunWithDecidingRanks(
    std::vector<int32_t>* real_ranks,
    const std::function<absl::Status(const std::vector<int32_t>&)>& attempt,
    bool quiet = false);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_DECIDING_RANKS_H_
