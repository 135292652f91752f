// Which parts that two ranks recorded belong to one operation: a collective, or a send
// and its receive.
//
//   1. Where every part of both ranks states a sequence number of its own, parts of
//      equal number.
//   2. Else parts of one step (ProfilerStep#N), in order: as many as possible, and
//      among equals those whose ends are nearest. Where the ranks have no step in
//      common, all parts count as one step.
//
// Parts must make the same call. In (2) one constant difference of the ranks' clocks
// must explain all pairs: no member's part may end before it can. Profilers lose single
// parts. Where more than a quarter of what either rank has in a step, and more than one
// part, lacks a counterpart, the ranks did not do the same in that step, and nothing of
// it is paired.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_IMPORT_PART_ALIGNMENT_H_
#define VRANK_GRAPH_IMPORT_PART_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/import/recording.h"

namespace vrank::graph {

// What two members' parts of one operation say of their times.
enum class Meeting : uint8_t {
  kNone,     // nothing: parts may be empty
  kMutual,   // neither ends before the other has begun
  kForward,  // the second rank's does not end before the first rank's has begun
};

struct RecordedPart {
  Span time;
  int64_t sequence = -1;  // negative: not recorded
  std::string_view step;  // empty: outside of all steps
  // Equal in all parts of one operation.
  uint32_t operation = 0, type = 0;
  uint64_t count = 0;
  Meeting meeting = Meeting::kNone;

  bool SameCall(const RecordedPart& other) const {
    return operation == other.operation && type == other.type && count == other.count;
  }
};

inline constexpr size_t kNoPart = ~size_t{0};

// By part of `a`: the place of its counterpart in `b`, or kNoPart. Both in program
// order; so are the pairs of (2).
std::vector<size_t> AlignParts(const std::vector<RecordedPart>& a,
                               const std::vector<RecordedPart>& b);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_PART_ALIGNMENT_H_
