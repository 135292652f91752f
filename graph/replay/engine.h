// Turns programs into times: the only owner of time.
//
// Every rank reads its program in order. Its host thread stops where the program waits
// for something not yet known; its lanes (streams) are queues that hold what was issued
// behind an unknown end. What becomes known wakes what waits for it, last in, first
// out. There is no event queue and no clock to advance: an end is a maximum of ends
// plus a cost, so it does not depend on the order in which the engine gets to it. That
// is why a run with real ranks, whose programs are still being written, equals a replay
// of the finished programs to the nanosecond.
//
//   - What an op does is defined in step.h, the only file with arithmetic on times.
//   - A rank is *real* (somebody waits for answers) or *virtual*; both run the same
//   ops.
//   - Several ranks may read one program: the followers of a live leader.
//   - A time once told to an observer is final.
//
// Questions of real ranks ("has x ended by now?") are answered as soon as a lower bound
// of x passes the asking time. Where nothing moves and every real rank waits,
// DecideOldestQuery answers the one with the smallest (now, rank) with "not yet", which
// is exact: whatever happens from here on starts after that now.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_H_
#define VRANK_GRAPH_REPLAY_ENGINE_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/units.h"
#include "graph/program/program.h"
#include "graph/replay/contention.h"
#include "graph/replay/jitter.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"
#include "graph/replay/timeline_observer.h"
#include "graph/schema/op.h"

namespace vrank::graph {

struct EngineOptions {
  uint32_t launch_queue_depth = 1024;  // launches outstanding before the host waits
  // Host call to device; > 0. A magnitude chosen by the authors, without a source.
  Duration launch_latency = Duration::Nanoseconds(2000);
  // For tests: nonzero takes what can move in a random order. Results are the same.
  uint64_t shuffle_seed = 0;
  // Decides the ends of operations that share links; nullptr: nothing is shared.
  // Outlives the engine. REQUIRES: no rank is real
  Contention* contention = nullptr;
  // Plays one rank for all that have one timeline, as soon as communicators exist, and
  // each for itself where their ways part (folding.h). Results are the same. Where
  // several ranks have an error, it may name others of them. Not with `contention`.
  bool fold = false;
  // Ops of each program between looks at whether there are such.
  uint64_t fold_step = 256;
  // Tell the observer of collectives and transfers of virtual ranks, too.
  bool tell_virtual_ends = true;
};

struct RankOptions {
  bool real = false;      // an observer waits for the answers to its questions
  bool follower = false;  // runs a leader's program; see Membership
  // A follower's leader (world rank), or -1. A follower's peers in transfers are its
  // leader's where both have the same index in the communicator; else the leader's peer
  // plus (own index - leader's index), modulo the size. Roots are taken as they
  // are, also those of gathers made of transfers (graph/program/rooted_transfers.h).
  int32_t leader = -1;
  // Work of this rank takes numerator / denominator as long (a straggler).
  int64_t work_numerator = 1;
  int64_t work_denominator = 1;
  Jitter jitter{};  // of its work, after that
};

// Told as soon as it is known. `op`: index in the rank's program.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A question of a real rank: kHostWait*, kPoll*, kCreateCommunicator, kAskClock,
  // kReleaseCommunicator.
  virtual void OnHostAnswer(int32_t rank, uint64_t op, Stamp host, Stamp end,
                            uint64_t retired_launches, uint64_t value) = 0;
  // Not `complete`: the target does not end before `end`.
  virtual void OnQueryAnswer(int32_t rank, uint64_t op, Stamp host, bool complete,
                             Stamp end, uint64_t retired_launches) = 0;
  // A question of a real rank does not hold its program up any more: the answer will
  // not have moved the rank's host clock.
  virtual void OnHostPassed(int32_t rank, uint64_t op) = 0;
  virtual void OnHostFuncStart(int32_t rank, uint64_t op, Stamp start) = 0;
  // Tokens of real ranks only.
  virtual void OnTokenEnd(int32_t rank, uint32_t token, uint32_t generation,
                          Stamp end) = 0;
  // Every rank (EngineOptions::tell_virtual_ends). Calls come in the order of
  // evaluation, which is no order of times.
  virtual void OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) = 0;
  virtual void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                               uint32_t member, int32_t rank,
                               const CollectiveCall& call, Stamp arrival,
                               Stamp end) = 0;
  virtual void OnTransferEnd(const std::string& communicator, uint32_t from,
                             uint32_t to, uint32_t sequence, uint64_t bytes,
                             bool is_send, int32_t rank, Stamp arrival, Stamp end) = 0;
  // The communicator `number` of a rank exists: its identity and members. `number` is
  // the rank's own. Not told for kNoColor.
  virtual void OnCommunicator(int32_t rank, uint32_t number,
                              const std::string& identity,
                              std::span<const int32_t> members, uint32_t index) = 0;
  // A real rank took or gave back device memory (kMemory), at that time of its clock.
  virtual void OnMemory(int32_t /*rank*/, const Op&, int64_t /*host_ns*/) {}
};

// What a rank has come to.
struct RankResult {
  Stamp end;  // host clock after its last op, or so far
  int64_t memory_bytes = 0, peak_memory_bytes = 0;
  int64_t peak_communicator_bytes = 0;  // NCCL's part at the peak
  int64_t peak_context_bytes = 0;       // the context's part at the peak
  uint64_t ops = 0;                     // without the questions of helper threads
  // Queries whose answer, by the ends as they came out, is not the one in the program.
  // For a real rank: answers given too early, which a later arrival contradicts.
  uint64_t divergences = 0;
  Duration host_waited;  // host blocked in waits, polls and full launch queues
};

class Engine {
 public:
  Engine(const EngineOptions& options, const NetworkModel* network,
         Membership* membership, EngineObserver* observer);
  ~Engine();

  // Ranks and programs. Programs belong to the caller and outlive the engine.
  // A rank that is neither added nor marked absent is an error when someone waits for
  // it.
  void AddRank(int32_t world_rank, Program* program, const RankOptions& options);
  // Assumed absent: arrives whenever the first known member does; counted as assumed.
  void AddAbsentRank(int32_t world_rank);
  // Another number by which a communicator's members may name a rank that was added;
  // a folded replay tells communicators apart by it (graph/fold/quotient.h).
  void AddAlias(int32_t alias, int32_t world_rank);

  // From here on tells `observer` (nullptr: nobody) when each op of the rank happened.
  // Returns the first op that will be told: those before it have passed by
  // result(world_rank).end. Ends of what an earlier op left on a lane may still be
  // told. REQUIRES: the rank was added; not called from an observer.
  uint64_t ObserveTimeline(int32_t world_rank, TimelineObserver* observer);

  // The program has grown or has been closed: its ranks may go on.
  void ProgramChanged(const Program* program);

  // Runs until nothing moves. Errors are the job's: mismatched calls, unknown members,
  // with ranks, communicator, sequence and both sides.
  absl::Status Run();
  // The same, in pieces: returns after so many turns of ranks and lanes. True: there is
  // more to do.
  absl::StatusOr<bool> RunFor(uint64_t turns);

  // Between runs, when all real ranks wait: decides one query. False if there is none.
  // `not_before_ns`: as long as the rank does nothing but ask, no other one issues
  // anything before that; its guest answers such questions by itself.
  bool DecideOldestQuery(int64_t not_before_ns = 0);
  // Between runs: a host function of a real rank, whose start was told, has returned.
  // Its lane goes on behind it, and so do those of ranks that follow.
  void EndHostFunction(int32_t rank, uint64_t op, int64_t duration_ns);
  // The query that it would decide.
  struct OpenQuery {
    int64_t asked_ns;
    int32_t rank;
    bool meets;  // it is about a meeting that the rank has joined
  };
  std::optional<OpenQuery> OldestQuery() const;

  // Between runs, when nothing moves. Operations of communicators that their rank has
  // aborted end; else, where a host waits and another thread of its process has issued
  // more by then, that thread alone waits from here on (Op::from_helper), and the
  // rank's program goes on. False: neither (programs in which one thread issues).
  bool LetOtherThreadsPass();

  // Between runs, when nothing moves: the first part of it, for ranks that aborted
  // before `before_ns`. Exact where nothing happens before that any more.
  bool EndAborted(int64_t before_ns);

  // The process of a real rank is gone in the middle of the job, which goes on. What it
  // has joined ends as it would; what it has not ends where somebody aborts it. The
  // rank's own waits count no more. REQUIRES: between runs; its program is closed;
  // nobody follows it.
  void LoseRank(int32_t world_rank);

  // All programs closed and read to their ends, nothing pending; but for lost ranks.
  bool Finished() const;
  // REQUIRES: Finished(). An error where a send has no receive, although the job ran to
  // its end since the send fits into its channel's credit: both sides, and how many
  // more there are. Communicators that a member has aborted are not looked at: there,
  // an operation may be given up.
  absl::Status CheckTransfersMatched() const;
  // Why nothing moves: one line per blocked rank group (rank, what it waits for,
  // communicator, sequence, who has not arrived), from the cause on: who waits for
  // nobody that has a line, or a circle of waits, then who waits for them. Behind
  // `limit` lines one more says how many were left out.
  std::vector<std::string> DescribeBlocked(size_t limit) const;

  RankResult result(int32_t world_rank) const;
  // Ops executed, over all ranks, without the questions of helper threads.
  uint64_t ops() const;
  // How far this rank's program is ahead of the times that are known, for throttling:
  // ops that the slowest reader of the program has not got to (in whole chunks of the
  // program), and ops that the rank has issued to lanes and that have not ended.
  uint64_t Unresolved(int32_t world_rank) const;
  // Arrivals of absent ranks that were assumed, in collectives, transfers and
  // creations.
  uint64_t assumed_arrivals() const;
  // Ranks that are played, for all of them (EngineOptions::fold).
  size_t played_ranks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_H_
