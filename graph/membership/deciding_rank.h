// Carries, with an error about who does what, the ranks whose own calls would decide.
//
// Who reads the error can add them to the real ones and start again: the answer is
// then seen, not guessed.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_
#define VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/status/status.h>

namespace vrank::graph {

// A job is started again with this many more real ranks at most.
inline constexpr size_t kMostDecidingRanks = 16;

// REQUIRES: !status->ok().
void AttachDecidingRank(int32_t rank, absl::Status* status);
void AttachDecidingRanks(const std::vector<int32_t>& ranks, absl::Status* status);

// All that are needed; empty where none are known.
std::vector<int32_t> DecidingRanksOf(const absl::Status& status);
// The first of them.
std::optional<int32_t> DecidingRankOf(const absl::Status& status);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_
