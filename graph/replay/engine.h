// Turns programs into times: the only owner of time.
//
// Every rank reads its program in order. Its host blocks at an op whose end is unknown;
// its lanes (streams) queue the ops that were issued behind an unknown end. A resolved
// end wakes its waiters in LIFO order. There is no event queue and no clock to advance:
// an end is a maximum of ends plus a cost, so it does not depend on the order in which
// the engine gets to it. That is why a run with real ranks, whose programs are still
// being written, equals a replay of the finished programs to the nanosecond.
//
//   - What an op does is defined in step.h, the only file with arithmetic on times.
//   - A rank is *real* (a process awaits answers) or *virtual*; both run the same ops.
//   - Several ranks may read one program: the followers of a live leader.
//   - A time once told to an observer is final.
//
// Queries of real ranks ("has x ended?") are answered once a lower bound on x's end
// exceeds the rank's clock. When every real rank is blocked and nothing can advance,
// DecideOldestQuery answers the query with the smallest (clock, rank) "not yet". This
// is exact: all later ops start after that clock.
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
  // For tests: nonzero runs the worklist in random order. Results are the same.
  uint64_t shuffle_seed = 0;
  // Decides the ends of operations that share links; nullptr: nothing is shared.
  // Outlives the engine. REQUIRES: no rank is real
  Contention* contention = nullptr;
  // Replays one of several ranks with equal timelines once communicators exist, and
  // each of them from where they diverge (folding.h). Results are the same. If several
  // ranks fail, the error may name another one of them. REQUIRES: no `contention`.
  bool fold = false;
  // Ops of each program between attempts to fold.
  uint64_t fold_step = 256;
  // Tell the observer of collectives and transfers of virtual ranks, too.
  bool tell_virtual_ends = true;
};

struct RankOptions {
  bool real = false;      // an observer waits for the answers to its questions
  bool follower = false;  // runs a leader's program; see Membership
  // A follower's leader (world rank), or -1. A follower's transfer peer, by index in
  // the communicator, is (leader's peer + own index - leader's index) modulo size.
  // Roots are absolute, also those of gathers made of transfers
  // (graph/program/rooted_transfers.h).
  int32_t leader = -1;
  // Work of this rank takes numerator / denominator as long (a straggler).
  int64_t work_numerator = 1;
  int64_t work_denominator = 1;
  Jitter jitter{};  // of its work, applied after the factor
};

// Called once a value is final; must not call back into the engine. `op`: index in the
// rank's program.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A question of a real rank: kHostWait*, kPoll*, kCreateCommunicator, kAskClock,
  // kReleaseCommunicator.
  virtual void OnHostAnswer(int32_t rank, uint64_t op, Stamp host, Stamp end,
                            uint64_t retired_launches, uint64_t value) = 0;
  // If not `complete`, `end` is a lower bound.
  virtual void OnQueryAnswer(int32_t rank, uint64_t op, Stamp host, bool complete,
                             Stamp end, uint64_t retired_launches) = 0;
  // The op no longer blocks the rank's program; its answer will not advance the host
  // clock.
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
  // Queries whose recorded answer contradicts the final ends.
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

  // Reports the times of each further op of the rank (nullptr: to nobody). Returns the
  // index of the first op reported; the host passed earlier ones by
  // result(world_rank).end. Lane ends of earlier ops may still be reported. REQUIRES:
  // the rank was added; not called from an observer.
  uint64_t ObserveTimeline(int32_t world_rank, TimelineObserver* observer);

  // The program has grown or has been closed: its ranks may go on.
  void ProgramChanged(const Program* program);

  // Runs until nothing moves. Errors are the job's: mismatched calls, unknown members,
  // with ranks, communicator, sequence and both sides.
  absl::Status Run();
  // The same, bounded: returns after `turns` items of the worklist. True: more are
  // runnable.
  absl::StatusOr<bool> RunFor(uint64_t turns);

  // Between runs, when all real ranks wait: decides one query. False if there is none.
  // `not_before_ns`: no other rank issues work before it while this rank only queries;
  // the guest answers such queries itself.
  bool DecideOldestQuery(int64_t not_before_ns = 0);
  // What DecideOldestQuery would decide.
  struct OpenQuery {
    int64_t asked_ns;
    int32_t rank;
    bool meets;  // it asks about a meeting that the rank has joined
  };
  std::optional<OpenQuery> OldestQuery() const;
  // Between runs: a host function of a real rank, whose start was told, has returned.
  // Its lane goes on behind it, and so do those of ranks that follow.
  void EndHostFunction(int32_t rank, uint64_t op, int64_t duration_ns);

  // Between runs, when nothing can advance. Completes operations of communicators that
  // their rank has aborted. Otherwise, if a rank is blocked in one thread's wait and
  // another thread of its process has issued ops behind it, turns the wait into that
  // thread's own (Op::from_helper), and the program goes on. False: neither applied.
  bool LetOtherThreadsPass();

  // Between runs, when nothing can advance: completes operations of ranks that aborted
  // before `before_ns`. Exact if no rank issues anything earlier.
  bool EndAborted(int64_t before_ns);

  // A real rank's process has died, and the job continues. Operations that it has
  // joined complete; others complete only by abort. Its own waits are dropped.
  // REQUIRES: between runs; its program is closed; nobody follows it.
  void LoseRank(int32_t world_rank);

  // All programs closed and read to their ends, nothing pending; but for lost ranks.
  bool Finished() const;
  // REQUIRES: Finished(). An error where a send has no receive, although the job ran to
  // its end since the send fits into its channel's credit: both sides, and how many
  // more there are. Communicators that a member has aborted are not looked at: there,
  // an operation may be given up.
  absl::Status CheckTransfersMatched() const;
  // Why nothing can advance: one line per group of blocked ranks (rank, what it waits
  // for, communicator, sequence, missing members), root causes first: groups that wait
  // for no listed group, or a cycle; then their dependents. After `limit` lines, one
  // more counts the rest. Before all of them, one line for a cycle: which rank waits
  // for which, and at what.
  std::vector<std::string> DescribeBlocked(size_t limit) const;

  RankResult result(int32_t world_rank) const;
  // A communicator as a follower's leader has it: the leader, and its own number of it.
  struct LeadersCommunicator {
    int32_t leader = 0;
    uint32_t number = 0;
  };
  // nullopt: the rank follows none, or is in no such communicator (any more).
  std::optional<LeadersCommunicator> CommunicatorOfLeader(
      int32_t follower, const std::string& identity) const;
  // Ops executed, over all ranks, without the questions of helper threads.
  uint64_t ops() const;
  // Backlog of this rank in ops, for throttling: those that the program's slowest
  // reader has not read (in whole chunks), plus those on lanes without a known end.
  uint64_t Unresolved(int32_t world_rank) const;
  // Arrivals of absent ranks that were assumed, in collectives, transfers and
  // creations.
  uint64_t assumed_arrivals() const;
  // Ranks that are replayed, one per folded set (EngineOptions::fold).
  size_t played_ranks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_H_
