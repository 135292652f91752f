// Everything the engine knows about one rank.
//
// Thread rule: plain data of the engine.

#ifndef VRANK_GRAPH_REPLAY_RANK_STATE_H_
#define VRANK_GRAPH_REPLAY_RANK_STATE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "graph/replay/communicator_table.h"
#include "graph/replay/engine.h"
#include "graph/replay/lane.h"
#include "graph/replay/memory_account.h"

namespace vrank::graph {

// Launches that may still be running. Place i % depth belongs to launch i; a launch
// needs its predecessor's end before it takes the place over.
class LaunchQueue {
 public:
  static constexpr int64_t kPending = std::numeric_limits<int64_t>::min();

  explicit LaunchQueue(uint32_t depth) : depth_(depth) {}

  // The end that the next launch must wait for; nullptr while places are free.
  const Stamp* Oldest() const { return launches_ < depth_ ? nullptr : &ends_[next_]; }
  uint32_t next_place() const { return next_; }
  // REQUIRES: Oldest() is nullptr or known.
  uint16_t Take() {
    const uint32_t place = next_;
    if (ends_.size() <= place)
      ends_.resize(place + 1);
    ends_[place].ns = kPending;
    ++launches_;
    next_ = place + 1 == depth_ ? 0 : place + 1;
    return static_cast<uint16_t>(place);
  }
  // For another op than the host's own, the caller must wake the host where it waits
  // for this (LaneDrain).
  void SetEnd(uint16_t place, const Stamp& end) { ends_[place] = end; }

  // Launches 0 .. n-1 have ended by `now_ns`. REQUIRES: now_ns never decreases.
  uint64_t Retired(int64_t now_ns) {
    if (launches_ > depth_ && retired_ < launches_ - depth_)
      retired_ = launches_ - depth_;
    while (retired_ < launches_) {
      const int64_t end = ends_[retired_ % depth_].ns;
      if (end == kPending || end > now_ns)
        break;
      ++retired_;
    }
    return retired_;
  }

  // Its launches wait for the same ends.
  bool IsLike(const LaunchQueue& other) const {
    return depth_ == other.depth_ && next_ == other.next_ &&
           launches_ == other.launches_ && ends_ == other.ends_;
  }

 private:
  uint32_t depth_;
  uint32_t next_ = 0;
  uint64_t launches_ = 0;
  uint64_t retired_ = 0;
  std::vector<Stamp> ends_;
};

// Why a rank's host thread does not go on.
enum class Blocked : uint8_t {
  kNo,
  kProgram,   // its program is not written further yet
  kFinished,  // its program is closed and done
  kToken,     // waits for or polls a token
  kLane,      // waits for or polls a lane
  kLaunch,    // launch queue full
  kQuery,     // real rank: a question not decided yet
  kCreation,  // a communicator is coming into being
  kForming,   // played: uses a communicator that is coming into being
  kRelease,   // waits for a communicator's work
  kLeader,    // follower: its leader's index is not known yet
  kFolding,   // its next op cannot be played for several ranks (Folding)
  kPlayed,    // another rank is played for it
};

// What a rank has come to: the same for all that are played as one.
struct RankProgress {
  // How much of the op at the cursor has been done before it blocked.
  enum class Stage : uint8_t { kFresh, kHostSpent, kLaunchTaken };

  explicit RankProgress(uint32_t launch_queue_depth) : launches(launch_queue_depth) {}

  // The program: ops [cursor, chunk_end) are at next_op.
  uint64_t cursor = 0;
  uint64_t chunk_end = 0;
  const Op* next_op = nullptr;
  Stage stage = Stage::kFresh;
  Blocked blocked = Blocked::kNo;
  uint32_t inits = 0;  // from unique ids, so far
  uint16_t launch_place = QueuedOp::kNoLaunch;
  bool parked = false;  // could continue, but only by queueing; see Worklist
  bool listed_as_parked = false;
  bool left = false;  // a follower that its leader's shrink excluded

  Stamp host;
  int64_t host_waited_ns = 0;
  std::vector<Lane> lanes;
  std::vector<Token> tokens;
  LaunchQueue launches;
  uint64_t queued = 0;            // ops in lane queues
  uint64_t works = 0;             // issued so far; counted where work has jitter
  uint64_t helper_questions = 0;  // passed so far

  MemoryAccount memory;
  uint64_t divergences = 0;
};

struct RankState : RankProgress {
  using RankProgress::RankProgress;

  uint32_t index = 0;  // in the engine
  bool lost = false;   // see Engine::LoseRank
  int32_t world_rank = 0;
  Program* program = nullptr;
  uint32_t program_index = 0;
  size_t reader = 0;
  RankOptions options;
  uint64_t jitter_key = 0;

  TimelineObserver* timeline = nullptr;  // nullptr: nobody observes this rank
  Stamp reached;  // while observed: the host clock before the op at the cursor waited
  CommunicatorTable communicators;
  // Queries whose answer the guest told otherwise than the engine.
  uint64_t told_otherwise = 0;
  std::vector<uint32_t> followers_waiting;  // Blocked::kLeader on this rank
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_RANK_STATE_H_
