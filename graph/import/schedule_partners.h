// Who meets whom in a schedule, and what that costs once all are there.
//
// The n-th use of a group is one collective on all its members; the n-th send from one
// rank to another is received by that rank's n-th receive from it. Uses that do not
// pair up are one error with both sides.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_SCHEDULE_PARTNERS_H_
#define VRANK_GRAPH_IMPORT_SCHEDULE_PARTNERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/schema/op.h"

namespace vrank::graph {

class Schedule;

struct SchedulePartners {
  struct Group {
    std::vector<int32_t> members;       // ascending
    std::vector<CollectiveCall> calls;  // the n-th use
  };
  // By name; each pair of ranks that sends has one of its own (PairName), since a
  // communicator takes one thing after the other.
  std::map<std::string, Group> groups;
  // Lengths of the n-th transfer from one rank to another.
  std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> transfers_ns;
};

std::string PairName(int32_t from, int32_t to);

// REQUIRES: the ranks of the schedule are those of its world.
absl::StatusOr<SchedulePartners> FindPartners(const Schedule& schedule);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_SCHEDULE_PARTNERS_H_
