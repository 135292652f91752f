// Who plays which rank: every rank of the job is real, or follows a real rank of its
// class, or plays a recorded program, or is assumed absent.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_WORLD_CAST_H_
#define VRANK_EMULATOR_WORLD_CAST_H_

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/layout.h"
#include "graph/program/program.h"

namespace vrank::emulator {

struct VirtualRank {
  enum class Part { kFollower, kRecorded, kAbsent };
  int32_t rank = 0;
  Part part = Part::kFollower;
  // kFollower: a real rank. kRecorded: whose program it is, itself a recorded rank; -1
  // for its own.
  int32_t leader = -1;
  graph::Program* program = nullptr;  // kRecorded
};

// All ranks that are not real, ascending. graph/membership/leader.h says which real
// rank of a class leads the others of it. A class without a real rank is absent where
// that is allowed, else an error that lists the classes and names ranks that would do.
// `on_their_own`: ranks that follow nobody and are absent where they are not real,
// since what they do may differ from what their class does; in any order.
absl::StatusOr<std::vector<VirtualRank>> CastByClass(
    const graph::Layout& layout, std::span<const int32_t> real, bool assume_absent,
    std::span<const int32_t> on_their_own = {});

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_CAST_H_
