// What every rank of the job does: the execution graph in memory, as built from slices
// or opened from a .vgraph file.
//
// Each rank plays a program. A traced rank plays its own; every other one follows a
// traced rank of its class (its leader), as a virtual rank follows a real one in live
// emulation, so that a graph predicts what live emulation predicts.
//
// Thread rule: plain values; programs are closed and not written any more.

#ifndef VRANK_GRAPH_PROGRAM_EXECUTION_GRAPH_H_
#define VRANK_GRAPH_PROGRAM_EXECUTION_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/program/program.h"
#include "graph/schema/job_description.h"

namespace vrank::graph {

// What somebody else's profiler saw of a rank, in a graph that was imported. A replay
// does not look at it; it is what one compares a replay with. Times are since the job's
// start, that of the first recorded rank.
struct RecordedRank {
  struct Iteration {
    std::string name;
    int64_t begin_ns = 0, end_ns = 0;
  };
  // Host time of the rank's program by what the host was at, waits left out.
  struct HostTime {
    std::string name;
    int64_t time_ns = 0;
  };
  static constexpr int64_t kNoEnd = -(int64_t{1} << 62);  // an end nobody recorded
  int32_t rank = 0;
  std::string file;
  std::vector<int64_t> ends_ns;  // of its kWork and kCollective ops, in program order
  std::vector<Iteration> iterations;
  std::vector<HostTime> host;         // longest first
  int64_t unexplained_host_ns = 0;    // of long calls that wait for nothing known
  int64_t unexplained_device_ns = 0;  // of starts later than all they are known to need
};

// The job as described by its first slice, but for the layout and hints that `vrank
// build` is given; `cost_options`: of all slices.
struct ExecutionGraph : JobDescription {
  struct Class {
    std::string name;  // "pp 3"; "all"
    std::vector<int32_t> ranks;
  };
  struct Rank {
    uint32_t rank_class = 0;
    uint32_t program = 0;
    int32_t leader = 0;  // whose program it is; own rank: traced
  };
  struct Loss {
    std::string name, subject, meaning;
    uint64_t count = 0;
  };
  // A communicator as inferred from the layout and verified against the slices.
  struct Communicator {
    std::string identity, name;
    std::vector<int32_t> members;
  };

  std::vector<Class> classes;
  std::vector<Rank> ranks;  // by world rank
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<Communicator> communicators;
  std::vector<Loss> losses;
  std::vector<RecordedRank> recorded_ranks;  // by rank; empty: not imported
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_PROGRAM_EXECUTION_GRAPH_H_
