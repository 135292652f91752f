// Programs, the ranks that read each of them, and how far they may.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_PROGRAM_READERS_H_
#define VRANK_GRAPH_REPLAY_PROGRAM_READERS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "graph/program/program.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

class ProgramReaders {
 public:
  static constexpr uint64_t kNoHorizon = std::numeric_limits<uint64_t>::max();

  ProgramReaders(RankTable& ranks, Worklist& worklist)
      : ranks_(ranks), worklist_(worklist) {}

  // The rank reads `program` from its first op.
  void Add(RankState& r, Program* program);
  // The program has grown or has been closed.
  void Changed(const Program* program);
  // Makes the ops from the cursor on readable. False: there are none yet.
  bool NextOps(RankState& r);
  // The rank has no op to execute until the program changes.
  void Starve(RankState& r);
  void WakeStarved(uint32_t program);

  // The rank does not use this number of its communicators any more. Once all readers
  // of its program have released it, they forget it: the place of a leader's member
  // says where followers' peers are (FollowerTransfers).
  void ReleaseNumber(const RankState& r, uint32_t number);

  // By program: the ranks that read it, in the order of their indices.
  size_t size() const { return programs_.size(); }
  const std::vector<uint32_t>& ranks(uint32_t program) const {
    return programs_[program].ranks;
  }
  // Ranks stop at that op, until it is decided whether they can be folded.
  uint64_t horizon(uint32_t program) const { return programs_[program].horizon; }
  void SetHorizon(uint32_t program, uint64_t op) { programs_[program].horizon = op; }
  // A rank has stopped there, although the program continues.
  bool IsStoppedAtHorizon(uint32_t program) const;
  // Ranks for which another one is played read nothing.
  void DropPlayed();

 private:
  struct Shared {
    Program* program = nullptr;
    std::vector<uint32_t> starved;
    std::vector<uint32_t> ranks;
    // Communicators by number that some of the ranks have released, and how many.
    std::unordered_map<uint32_t, size_t> released;
    uint64_t horizon = kNoHorizon;
  };

  RankTable& ranks_;
  Worklist& worklist_;
  std::vector<Shared> programs_;
  std::unordered_map<const Program*, uint32_t> index_of_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_PROGRAM_READERS_H_
