// What the host was at, by name: every moment of a thread belongs to the innermost
// call, operator or range that holds it.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_HOST_ACCOUNT_H_
#define VRANK_GRAPH_IMPORT_HOST_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/import/recording.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

class HostAccount {
 public:
  explicit HostAccount(const Recording& recording);

  // The host spent [begin, end) on `thread`. REQUIRES: spans come in order.
  void Spend(uint32_t thread, int64_t begin_ns, int64_t end_ns);

  // Of those that hold a moment none of which lies inside the other, as no host makes
  // them: how many began last, roundings of the recording's clock left out.
  uint64_t not_nested() const { return not_nested_; }

  // Longest first; those beyond the first `most` as one row.
  std::vector<RecordedRank::HostTime> Rows(size_t most) const;

 private:
  // From `begin_ns` to the next one's begin.
  struct Segment {
    int64_t begin_ns;
    uint32_t name;  // kNoRow: nothing recorded
  };
  struct Thread {
    std::vector<Segment> segments;
    size_t at = 0;
  };

  const Recording& recording_;
  std::vector<Thread> threads_;
  uint64_t not_nested_ = 0;
  std::unordered_map<uint32_t, int64_t> times_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_HOST_ACCOUNT_H_
