// The engine, for a given step rule.
//
// A template so that tests can run it with a deliberately wrong rule; production code
// includes engine.h. The definitions are in files by subject:
//   engine_ranks_inl.h           ranks, programs, the worklist
//   engine_host_inl.h            ops as the host issues them
//   engine_lanes_inl.h           lane queues and futures
//   engine_questions_inl.h       waits, polls and queries of the host
//   engine_threads_inl.h         waits that hold up one thread of several
//   engine_communication_inl.h   collectives and transfers
//   engine_contention_inl.h      their ends, where links are shared
//   engine_creation_inl.h        communicators coming into being
//   engine_release_inl.h         how their members learn of it, and how they go
//   engine_diagnostics_inl.h     why nothing moves
//   engine_folding_inl.h         one rank played for several: when, and which
//   engine_folded_ops_inl.h      ... what it may do, and who is told
//   engine_likeness_inl.h        ... which of them are in one state
//   engine_unfolding_inl.h       ... and each for itself again
//
// Thread rule: one thread. Observers must not call back.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include "graph/program/pool.h"
#include "graph/replay/blocked_ranks.h"
#include "graph/replay/communicator.h"
#include "graph/replay/engine.h"
#include "graph/replay/first_error.h"
#include "graph/replay/folding.h"
#include "graph/replay/lane.h"
#include "graph/replay/live_colours.h"
#include "graph/replay/numbered.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_state.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class EngineImpl {
 public:
  EngineImpl(const EngineOptions& options, const NetworkModel* network,
             Membership* membership, EngineObserver* observer);

  // As in Engine.
  void AddRank(int32_t world_rank, Program* program, const RankOptions& options);
  void AddAbsentRank(int32_t world_rank) { ranks_.AddAbsent(world_rank); }
  void AddAlias(int32_t alias, int32_t world_rank) {
    ranks_.AddAlias(alias, world_rank);
  }
  uint64_t ObserveTimeline(int32_t world_rank, TimelineObserver* observer);
  void ProgramChanged(const Program* program) { programs_.Changed(program); }
  absl::Status Run() { return RunFor(std::numeric_limits<uint64_t>::max()).status(); }
  absl::StatusOr<bool> RunFor(uint64_t turns);
  bool DecideOldestQuery(int64_t not_before_ns = 0);
  void EndHostFunction(int32_t rank, uint64_t op, int64_t duration_ns);
  std::optional<Engine::OpenQuery> OldestQuery() const;
  bool LetOtherThreadsPass();
  bool EndAborted(int64_t before_ns);
  bool Finished() const;
  void LoseRank(int32_t world_rank);
  absl::Status CheckTransfersMatched();
  std::vector<std::string> DescribeBlocked(size_t limit);
  RankResult result(int32_t world_rank) const;
  uint64_t ops() const;
  uint64_t Unresolved(int32_t world_rank) const;
  uint64_t assumed_arrivals() const { return assumed_arrivals_; }
  size_t played_ranks() const;

 private:
  using Comm = Communicator<Step>;
  void RunRank(uint32_t index);

  // Ops as the host issues them. False: the host is blocked at this op.
  bool Execute(uint32_t index, RankState& r, const Op& op);
  bool TakeLaunchPlace(RankState& r);
  void Work(RankState& r, const Op& op);
  void RecordToken(RankState& r, const Op& op);
  void WaitToken(uint32_t index, RankState& r, const Op& op);
  void ReleaseLane(RankState& r, const Op& op);
  void Memory(RankState& r, const Op& op);

  // Lane queues and futures.
  static QueuedOp Queued(const RankState& r, const Op& op);
  uint32_t OpenQueue(uint32_t rank, uint32_t lane);
  void Drain(uint32_t queue);
  bool ExecuteQueued(uint32_t index, LaneQueue& q, QueuedOp& op);
  void CloseQueue(uint32_t index, LaneQueue& q);
  void SetLaunchEnd(uint32_t rank, uint16_t place, const Stamp& end);
  uint32_t NewFuture(uint32_t references, int64_t lower_bound, uint32_t queue);
  void Unreference(uint32_t future);
  void AddWaiter(uint32_t future, const Waiter& waiter);
  void Resolve(uint32_t future, const Stamp& end);

  // Waits, polls and queries of the host.
  bool WaitForToken(uint32_t index, RankState& r, const Op& op);
  bool WaitForLane(uint32_t index, RankState& r, const Op& op);
  void HostReaches(RankState& r, const Op& op, const Stamp& end, bool poll);
  bool Query(uint32_t index, RankState& r, const Op& op);
  uint32_t FindOldestQuery() const;
  bool AskQuery(uint32_t index, RankState& r, const Op& op);
  void CheckAnswer(uint32_t index, RankState& r, const Op& op);
  bool ExecuteForHelper(uint32_t index, RankState& r, const Op& op);
  void TellHelper(const RankState& r, uint64_t op, int64_t asked_ns, const Stamp& end);
  void AnswerQuery(RankState& r, bool complete, const Stamp& end);
  int64_t BoundBesideQueries(uint32_t asker, int64_t not_before_ns) const;
  static void CheckQuery(RankState& r, int64_t host_ns, uint32_t answer,
                         const Stamp& end);
  void AnswerHost(RankState& r, uint64_t op, const Stamp& end, uint64_t value);

  // Waits that hold up one thread of several.
  bool HasIssuedMore(const RankState& r) const;
  bool FollowsPassed(const RankState& r) const;
  bool LetAbortsPass();
  static bool WaitsInCall(const RankState& r);
  bool HasAborted(const RankState& r) const;
  void PassWaits(uint32_t found);
  void PassWait(uint32_t index);

  // Collectives and transfers.
  bool IssueCommunication(uint32_t index, RankState& r, const Op& op);
  bool EndAlone(RankState& r, const Op& op, LocalCommunicator& local);
  bool PeerShift(uint32_t index, RankState& r, uint32_t number, uint32_t* shift);
  bool Meet(uint32_t index, LaneQueue& q, QueuedOp& op);
  void ArriveAtCollective(uint32_t index, LaneQueue& q, const QueuedOp& op);
  void ArriveAtTransfers(uint32_t index, LaneQueue& q, const QueuedOp& op);
  void EndTransfer(const TransferEnded& ended, uint32_t from, uint32_t to);
  void MeetingEnded(uint32_t queue, LaneQueue& q);
  // Ends that sharing links may put off: held here until Contention tells them.
  struct Held {
    bool transfer = false;
    uint32_t queue = kNone;  // of a collective's member; of a transfer: none
    uint32_t communicator = kNone;
    uint32_t sequence = 0;
    uint32_t member = 0;  // a transfer's sender
    uint32_t to = 0;      // ... and receiver
    Stamp end;            // alone
  };
  void EndCollectives(const Comm& c, uint32_t communicator, uint32_t sequence,
                      const CollectiveCall& call,
                      const CollectiveRendezvous<Step>& meeting);
  void EndCollective(uint32_t sequence, uint32_t queue, const Stamp& end);
  void EndTransfers(uint32_t communicator, uint32_t from, uint32_t to,
                    TransferChannel<Step>& channel);
  bool AdvanceContention();
  void FailMismatch(const Comm& c, uint32_t sequence, uint32_t member,
                    const CollectiveCall& call);

  // Tell the observer, of all ranks for which `r` is played.
  void TellCollectiveEnd(const RankState& r, uint32_t number, uint32_t sequence,
                         const CollectiveCall& call, const Stamp& arrival,
                         const Stamp& end);
  void TellTransferEnd(const RankState& r, uint32_t number, uint32_t from, uint32_t to,
                       const TransferEnded& ended);
  void TellRange(const RankState& r, const Op& op);
  template <class Tell>
  void ForEachPlayedBy(const RankState& r, Tell tell) const;

  // Folding. Ranks are folded and unfolded where nothing else moves.
  bool ChangeFolding();
  bool RaiseHorizons();
  bool TimeToFold() const;
  bool SettledForFolding() const;
  bool Fold();
  void PricePending();
  // Queues that hold ops, by rank.
  std::vector<std::vector<uint32_t>> PendingQueues() const;
  std::vector<uint32_t> InitialColours() const;
  std::vector<LiveCommunicator> LiveCommunicators(
      std::vector<uint32_t>* communicators) const;
  void MakeFamilies(const LiveColouring& colouring,
                    const std::vector<LiveCommunicator>& live,
                    const std::vector<uint32_t>& communicators);
  void PlayFamilies(const std::vector<std::vector<uint32_t>>& pending);
  void PutToSleep(uint32_t rank, const std::vector<uint32_t>& queues);
  // The op may be played for all ranks for which `r` is. False: the host is blocked.
  bool HoldsFolded(RankState& r, const Op& op);
  bool CostsTheSame(Folding::Family& family, const CollectiveCall& call);
  bool CostsTheSame(Folding::Family& family, RankState& r, const Op& op,
                    uint32_t place);
  void ReleaseFolded(const LocalCommunicator& local);
  bool AreEqual(const Folding::Family& family, const std::vector<Cost>& costs);
  uint32_t AbsenteesOf(uint32_t communicator) const;
  uint32_t StandingFor(uint32_t communicator) const;
  // Two ranks that read one program are in one state.
  bool AreLike(const RankState& a, const RankState& b) const;
  bool AreLike(const LaneQueue& a, const LaneQueue& b) const;
  bool AreLike(uint32_t a, uint32_t b, bool communicates) const;  // futures
  void Unfold();
  // The rank's own queues by those of the one that is played.
  using Queues = absl::flat_hash_map<uint32_t, uint32_t>;
  void Clone(const RankState& from, RankState& to, const std::vector<uint32_t>& pending,
             Queues* queues);
  uint32_t CloneFuture(uint32_t future, const RankState& from, const RankState& to,
                       const Queues& queues);
  void CloneWork(const Folding& folding, const std::vector<Queues>& queues);
  void RecountOperations(const std::vector<std::vector<uint32_t>>& pending);

  // Communicators coming and going.
  bool Create(uint32_t index, RankState& r, const Op& op);
  // An init of which the membership has not told the others yet.
  struct UndecidedInit {
    CreationMeeting::Joiner joiner;
    uint32_t number = 0;  // of its rank's inits
  };
  bool JoinInit(uint32_t index, RankState& r, const Op& op);
  bool Decide(const UndecidedInit& init, bool* may_go_on);
  void DecideOthers();
  bool JoinAs(const UndecidedInit& init, const Membership::InitAnswer& answer);
  Membership::InitCaller CallerOf(const UndecidedInit& init) const;
  bool JoinSplit(uint32_t index, RankState& r, const Op& op, const Creation& call);
  bool AwaitCreation(RankState& r, const Comm& c, const CreationMeeting& meeting,
                     const Op& op);
  CreationMeeting::Joiner Joining(uint32_t index, RankState& r, const Op& op);
  bool AgreesOnExcluded(const Comm& c, uint32_t sequence, CreationMeeting& meeting,
                        uint32_t index, const RankState& r, const Creation& call);
  uint32_t OpenCommunicator(std::string identity, std::vector<int32_t> members,
                            int32_t joined_by);
  Stamp LatestHost(const CreationMeeting& meeting) const;
  void CompleteInit(uint32_t communicator);
  void CompleteSplit(uint32_t parent, uint32_t sequence);
  absl::StatusOr<std::vector<Membership::SplitGroup>> GroupsOf(
      const Comm& c, uint32_t sequence,
      const std::vector<Membership::SplitMember>& members);
  bool CheckGroups(const Comm& parent, uint32_t sequence,
                   const std::vector<Membership::SplitMember>& members,
                   const std::vector<Membership::SplitGroup>& groups);
  bool AwaitsForming(RankState& r, const LocalCommunicator& local);
  void Bind(const CreationMeeting::Joiner& joiner, uint32_t communicator,
            uint32_t index);
  // What a member is told at the end of a meeting.
  struct Told {
    CreationMeeting::Joiner joiner;
    Stamp host;
    uint64_t value = 0;
  };
  void FinishCreations(const std::vector<Told>& members);
  bool Release(uint32_t index, RankState& r, const Op& op);
  bool Withdraw(uint32_t index, RankState& r, const Op& op, LocalCommunicator& local);
  void Withdraw(RankState& r, CreationMeeting::Joiner& joiner);
  void DropIfUnused(uint32_t communicator);
  // Ends what ranks have begun on communicators that they have aborted. False: nothing.
  void EndAborted(const RankState& r, uint32_t queue, const LocalCommunicator& local);
  // Sends of one member to another that no receive meets any more.
  struct UnmatchedSends {
    std::string communicator;
    int32_t from = 0, to = 0;  // world ranks
    uint32_t from_index = 0, to_index = 0;
    uint64_t sequence = 0, bytes = 0;  // of the first one
    uint64_t sent = 0;
    friend auto operator<=>(const UnmatchedSends&, const UnmatchedSends&) = default;
  };
  static void FindUnmatched(const Comm& c, std::vector<UnmatchedSends>* found);

  // Why nothing moves.
  // These add the world ranks that are waited for to *awaited.
  std::string DescribeHost(const RankState& r, Awaited* awaited) const;
  std::string DescribeQueue(uint32_t queue, Awaited* awaited) const;
  std::string DescribeFuture(uint32_t future, Awaited* awaited) const;
  std::string DescribeCollective(const Comm& c, uint32_t sequence,
                                 Awaited* awaited) const;
  std::string DescribeTransfers(const LaneQueue& q, const QueuedOp& op,
                                Awaited* awaited) const;
  std::string DescribeUndecided(const UndecidedInit& init, Awaited* awaited) const;
  std::string DescribeCreation(const RankState& r, Awaited* awaited) const;
  std::string DescribeMissing(const std::vector<uint32_t>& ranks,
                              Awaited* awaited) const;
  const int64_t latency_ns_;
  const uint32_t launch_queue_depth_;
  const NetworkModel* const network_;
  Membership* const membership_;
  EngineObserver* const observer_;
  Contention* const contention_;

  FirstError error_;
  RankTable ranks_;
  Worklist worklist_;
  ProgramReaders programs_;

  Pool<Future> futures_;
  Pool<Waiter> waiters_;
  Pool<LaneQueue> queues_;
  Pool<Comm> communicators_;
  std::map<std::string, uint32_t> forming_;  // by identity, while members are missing
  std::vector<UndecidedInit> undecided_;     // in the order of arrival

  uint32_t draining_ = kNone;  // the queue that is being drained
  bool some_aborted_ = false;  // a communicator, with operations pending
  uint64_t assumed_arrivals_ = 0;
  std::vector<UnmatchedSends> unmatched_;  // of communicators that are gone

  Pool<Held> held_;  // by ticket

  // Reused from call to call.
  std::vector<Contention::Member> contending_;
  std::vector<Contention::Ended> contention_ends_;
  std::vector<TransferStart> transfer_starts_;
  typename CollectiveRendezvous<Step>::Ends collective_ends_;
  std::vector<TransferEnded> transfer_ends_;

  const bool may_fold_;
  const bool tell_virtual_ends_;
  uint64_t fold_step_;
  size_t shared_programs_ = 0;        // that several ranks read
  std::vector<uint64_t> looked_at_;   // by program: where its first rank was then
  std::unique_ptr<Folding> folding_;  // nullptr: every rank is played
  bool unfold_wanted_ = false;
  absl::flat_hash_map<uint32_t, uint32_t> cloned_futures_;  // reused
};

}  // namespace vrank::graph

#include "graph/replay/engine_communication_inl.h"
#include "graph/replay/engine_contention_inl.h"
#include "graph/replay/engine_creation_inl.h"
#include "graph/replay/engine_diagnostics_inl.h"
#include "graph/replay/engine_folded_ops_inl.h"
#include "graph/replay/engine_folding_inl.h"
#include "graph/replay/engine_host_inl.h"
#include "graph/replay/engine_init_inl.h"
#include "graph/replay/engine_lanes_inl.h"
#include "graph/replay/engine_likeness_inl.h"
#include "graph/replay/engine_questions_inl.h"
#include "graph/replay/engine_ranks_inl.h"
#include "graph/replay/engine_release_inl.h"
#include "graph/replay/engine_threads_inl.h"
#include "graph/replay/engine_unfolding_inl.h"

#endif  // VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_
