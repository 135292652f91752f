// A whole job to be replayed, and who belongs to which of its communicators.
//
// Folding (colours.h) needs every communicator before the first op is timed, but
// communicators come into being through ops. So the creations alone are played first:
// each rank's program without everything else, on the engine itself, at no cost. What
// the engine then tells is who belongs to what, by the same rules as in the replay.
//
// Thread rule: plain values; one thread.

#ifndef VRANK_GRAPH_FOLD_JOB_H_
#define VRANK_GRAPH_FOLD_JOB_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"
#include "graph/program/pool.h"
#include "graph/replay/engine.h"

namespace vrank::graph {

// A job whose programs are all closed. Its ranks are virtual: nobody waits for answers.
struct ReplayJob {
  struct Rank {
    int32_t world_rank = 0;
    Program* program = nullptr;
    RankOptions options;  // REQUIRES: !real; a leader is a rank of this job
  };
  std::vector<Rank> ranks;  // ascending world ranks, each once
  EngineOptions options;
};

// The job of a graph: followers read their leader's program.
ReplayJob JobOf(const ExecutionGraph& graph);

// What a program does with one of its communicators.
struct CommunicatorUse {
  // In order of first use, each once.
  std::vector<CollectiveCall> calls;
  std::vector<Transfer> transfers;
  // Every collective in program order, as an index into ResolvedJob::sequences; equal
  // sequences have equal numbers.
  uint32_t sequence = 0;
};

struct ProgramUse {
  std::map<uint32_t, CommunicatorUse> communicators;  // by the program's number
  std::vector<uint32_t> inits;  // numbers of communicators made by init, in order
  std::map<uint32_t, std::vector<uint32_t>> splits;  // by number of the parent
};

// One communicator of the job.
struct CommunicatorInstance {
  std::string identity;
  std::vector<uint32_t> members;  // places in ReplayJob::ranks, in communicator order
  std::vector<uint32_t> numbers;  // each member's own number of it
  uint32_t sequence = 0;          // of its members, all the same
};

// A rank's view of one.
struct CommunicatorBinding {
  uint32_t instance = kNone;
  uint32_t index = 0;
};

struct ResolvedJob {
  ReplayJob job;
  std::vector<CommunicatorInstance> instances;  // in order of creation
  // By rank, by the rank's own number. A number that is missing was made by a split
  // that left the rank out.
  std::vector<absl::btree_map<uint32_t, CommunicatorBinding>> bindings;
  std::map<const Program*, ProgramUse> uses;
  std::vector<std::vector<CollectiveCall>> sequences;
  absl::flat_hash_map<int32_t, uint32_t> place_of;  // world rank -> place in job.ranks

  const ProgramUse& UseOf(uint32_t rank) const {
    return uses.at(job.ranks[rank].program);
  }
  const CommunicatorInstance& InstanceOf(uint32_t rank, uint32_t number) const {
    return instances[bindings[rank].at(number).instance];
  }
  // What to add, modulo the size, to the peers that rank's program states for
  // communicator `number` (RankOptions::leader).
  uint32_t PeerShift(uint32_t rank, uint32_t number) const;
  // False: members of some communicator call different collectives, a process has
  // several members of one, or two communicators go by one identity. Such a job is
  // replayed rank by rank, and its errors are found there.
  bool foldable = true;
};

// Errors: those of the membership, and communicators that not all members create. The
// membership must be fresh and is used up.
absl::StatusOr<ResolvedJob> ResolveCommunicators(ReplayJob job, Membership* membership);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_JOB_H_
