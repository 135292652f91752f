// By how much the clocks of two ranks' recordings differ at least, from what cannot be.
//
// Every member of an all-reduce, an all-gather or a reduce-scatter needs something of
// all others, so that nobody's part ends before everybody's has begun. Where recordings
// say otherwise, their clocks differ by the time between, or by more. Smaller
// differences do not show.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_CLOCK_DIFFERENCE_H_
#define VRANK_GRAPH_IMPORT_CLOCK_DIFFERENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/import/recording.h"

namespace vrank::graph {

// What the clocks of ranks of one node differ by: each profiler converts the time
// stamps of its device to those of the host, to within some microseconds.
inline constexpr int64_t kClockNoiseNs = 20'000;

// The largest of one rank.
struct ClockDifference {
  int64_t at_least_ns = 0;   // its clock is ahead by so much; negative: behind
  int32_t against = -1;      // the rank with the other clock
  uint64_t collectives = 0;  // and transfers of this rank that cannot be
};

// "rank 3, at least 1.250 ms ahead of rank 0".
std::string DescribeClock(int32_t rank, const ClockDifference& difference);

class ClockDifferences {
 public:
  struct Member {
    int32_t rank = 0;
    Span time;  // of its part, as recorded
  };
  // One collective of an operation that needs all members.
  void Add(const std::vector<Member>& members);
  // A receive does not end before its send begins.
  void AddTransfer(const Member& send, const Member& receive);
  // By rank; those whose collectives can all be are left out.
  const std::map<int32_t, ClockDifference>& found() const { return found_; }

 private:
  void Note(const Member& ahead, const Member& behind, int32_t of);

  std::map<int32_t, ClockDifference> found_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_CLOCK_DIFFERENCE_H_
