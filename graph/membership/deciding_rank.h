// Carries, with an error about membership, the rank whose own calls would decide.
//
// Who reads the error can add that rank to the real ones and start again: the answer is
// then seen, not guessed.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_
#define VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_

#include <cstdint>
#include <optional>

#include <absl/status/status.h>

namespace vrank::graph {

// REQUIRES: !status->ok().
void AttachDecidingRank(int32_t rank, absl::Status* status);

// Nothing where no single rank would decide.
std::optional<int32_t> DecidingRankOf(const absl::Status& status);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_DECIDING_RANK_H_
