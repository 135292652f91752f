// Lists of ranks as people write them: "0,3-7,512", or "each".
//
// One notation for every flag that names ranks, so that what a message prints can be
// pasted back into a command.
//
// Thread rule: plain values.

#ifndef VRANK_BASE_RANK_LIST_H_
#define VRANK_BASE_RANK_LIST_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank {

struct RankList {
  bool each = false;           // "each": all of them, one after the other
  std::vector<int32_t> ranks;  // ascending, without repetition; all of them if `each`

  friend bool operator==(const RankList&, const RankList&) = default;
};

// Parses `text` for ranks 0 .. world_size - 1. Order and repetition do not matter.
absl::StatusOr<RankList> ParseRankList(const std::string& text, int32_t world_size);

// "0,3-7,512" for ascending ranks; runs of two are written out ("3,4").
std::string FormatRanks(std::span<const int32_t> ranks);

}  // namespace vrank

#endif  // VRANK_BASE_RANK_LIST_H_
