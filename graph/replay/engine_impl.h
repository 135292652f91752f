// The engine, for a given step rule: its parts, and what runs next.
//
// A template so that tests can run it with a deliberately wrong rule; production code
// includes engine.h. Each part owns its state and is given the parts that it needs, all
// of which stand before it; none knows this class.
//
// Thread rule: one thread. Observers must not call back. Times: nanoseconds of the run.
// Errors of the job end the run (FirstError).

#ifndef VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "graph/replay/aborts.h"
#include "graph/replay/communication_ops.h"
#include "graph/replay/communicators.h"
#include "graph/replay/creation_members.h"
#include "graph/replay/creation_ops.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/diagnosis.h"
#include "graph/replay/end_reports.h"
#include "graph/replay/engine.h"
#include "graph/replay/first_error.h"
#include "graph/replay/folded_ops.h"
#include "graph/replay/futures.h"
#include "graph/replay/helper_ops.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/host_waits.h"
#include "graph/replay/inits.h"
#include "graph/replay/lane_drain.h"
#include "graph/replay/lane_ops.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/live_folder.h"
#include "graph/replay/live_folding.h"
#include "graph/replay/live_unfolder.h"
#include "graph/replay/meetings.h"
#include "graph/replay/operation_ends.h"
#include "graph/replay/peer_places.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/queries.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_results.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/releases.h"
#include "graph/replay/splits.h"
#include "graph/replay/thread_waits.h"
#include "graph/replay/transfer_check.h"
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
  bool DecideOldestQuery(int64_t not_before_ns = 0) {
    return queries_.DecideOldest(not_before_ns);
  }
  void EndHostFunction(int32_t rank, uint64_t op, int64_t duration_ns);
  std::optional<Engine::OpenQuery> OldestQuery() const { return queries_.Oldest(); }
  bool LetOtherThreadsPass() { return thread_waits_.LetOthersPass(); }
  bool EndAborted(int64_t before_ns) { return thread_waits_.EndAborted(before_ns); }
  bool Finished() const { return results_.Finished(); }
  void LoseRank(int32_t world_rank);
  absl::Status CheckTransfersMatched() { return transfer_check_.Check(); }
  std::vector<std::string> DescribeBlocked(size_t limit);
  RankResult result(int32_t world_rank) const { return results_.Of(world_rank); }
  std::optional<Engine::LeadersCommunicator> CommunicatorOfLeader(
      int32_t follower, const std::string& identity) const;
  uint64_t ops() const { return results_.Ops(); }
  uint64_t Unresolved(int32_t world_rank) const {
    return results_.Unresolved(world_rank);
  }
  uint64_t assumed_arrivals() const { return communicators_.assumed_arrivals(); }
  size_t played_ranks() const { return results_.PlayedRanks(); }

 private:
  void RunRank(uint32_t index);
  // False: the host is blocked at this op.
  bool Execute(RankState& r, const Op& op);

  const uint32_t launch_queue_depth_;
  FirstError error_;
  RankTable ranks_;
  Worklist worklist_;
  ProgramReaders programs_;

  // What is pending, and who learns of its end.
  LaneQueues queues_;
  Futures<Step> futures_;
  Communicators<Step> communicators_;
  CurrentFolding folding_;
  HostAnswers<Step> answers_;
  EndReports<Step> reports_;

  // Work and communication.
  OperationEnds<Step> ends_;
  Meetings<Step> meetings_;
  LaneDrain<Step> drain_;
  LaneOps<Step> lane_ops_;
  PeerPlaces<Step> peers_;
  CommunicationOps<Step> communication_;

  // Hosts that wait or ask.
  HostWaits<Step> host_waits_;
  Queries<Step> queries_;

  // Communicators that are created and released.
  CreationMembers<Step> members_;
  Inits<Step> inits_;
  Splits<Step> splits_;
  CreationOps<Step> creations_;
  FoldedOps<Step> folded_ops_;
  Aborts<Step> aborts_;
  Releases<Step> releases_;
  HelperOps<Step> helpers_;

  // Where nothing moves.
  LiveFolder<Step> folder_;
  LiveUnfolder<Step> unfolder_;
  LiveFolding<Step> live_folding_;
  ThreadWaits<Step> thread_waits_;
  Diagnosis<Step> diagnosis_;
  RankResults results_;
  TransferCheck<Step> transfer_check_;
};

template <class Step>
EngineImpl<Step>::EngineImpl(const EngineOptions& options, const NetworkModel* network,
                             Membership* membership, EngineObserver* observer)
    // Places in the launch queue are 16 bits wide; 0xffff means none.
    : launch_queue_depth_(std::clamp<uint32_t>(options.launch_queue_depth, 1, 0xffff)),
      worklist_(ranks_, options.shuffle_seed),
      programs_(ranks_, worklist_),
      queues_(ranks_, worklist_),
      futures_(ranks_, worklist_, HostAnswers<Step>(observer)),
      communicators_(ranks_, error_),
      folding_(ranks_),
      answers_(observer),
      reports_(observer, options.tell_virtual_ends, folding_, communicators_),
      ends_(options.contention, network, ranks_, queues_, communicators_, reports_),
      meetings_(options.launch_latency.nanoseconds(), network, ranks_, queues_,
                futures_, communicators_, folding_, ends_, error_),
      drain_(options.launch_latency.nanoseconds(), observer, ranks_, worklist_, queues_,
             futures_, meetings_, answers_),
      lane_ops_(options.launch_latency.nanoseconds(), observer, queues_, futures_,
                drain_, error_),
      peers_(ranks_, communicators_, error_),
      communication_(options.launch_latency.nanoseconds(), network, !ends_.shared(),
                     worklist_, queues_, futures_, communicators_, peers_, reports_,
                     drain_, error_),
      host_waits_(queues_, futures_, answers_, error_),
      queries_(observer, ranks_, worklist_, programs_, queues_, futures_, error_),
      members_(observer, ranks_, worklist_, futures_, communicators_, answers_, error_),
      inits_(network, membership, ranks_, worklist_, communicators_, members_, error_),
      splits_(network, membership, ranks_, programs_, communicators_, members_, error_),
      creations_(inits_, splits_, error_),
      folded_ops_(network, folding_, communicators_, peers_, error_),
      aborts_(ends_.shared(), observer, ranks_, queues_, communicators_),
      releases_(programs_, futures_, communicators_, members_, inits_, folded_ops_,
                aborts_, answers_, error_),
      helpers_(queues_, futures_, queries_, folded_ops_, releases_, answers_, error_),
      folder_(launch_queue_depth_, network, ranks_, programs_, queues_, futures_,
              communicators_, folding_),
      unfolder_(ranks_, worklist_, programs_, queues_, futures_, communicators_,
                folding_),
      live_folding_(options.fold && !ends_.shared(), options.fold_step, ranks_,
                    worklist_, programs_, inits_, aborts_, folding_, folder_,
                    unfolder_),
      thread_waits_(observer, ranks_, worklist_, queues_, futures_, communicators_,
                    inits_, aborts_, helpers_, live_folding_),
      diagnosis_(launch_queue_depth_, ranks_, queues_, futures_, communicators_,
                 inits_),
      results_(ranks_, folding_),
      transfer_check_(ranks_, communicators_, folding_, live_folding_, results_) {}

template <class Step>
void EngineImpl<Step>::AddRank(int32_t world_rank, Program* program,
                               const RankOptions& options) {
  RankState& r = ranks_.Add(world_rank, launch_queue_depth_);
  r.options = options;
  r.jitter_key = options.jitter.RankKey(world_rank);
  programs_.Add(r, program);
  live_folding_.AddReader(r.program_index);
  worklist_.AddRank(r.index);
}

template <class Step>
uint64_t EngineImpl<Step>::ObserveTimeline(int32_t world_rank,
                                           TimelineObserver* observer) {
  RankState& r = *ranks_.Find(world_rank);
  if (r.blocked == Blocked::kPlayed)
    live_folding_.Unfold();
  r.timeline = observer;
  // An op at which the host is blocked now has spent its host time already.
  r.reached = r.host;
  return r.cursor;
}

template <class Step>
absl::StatusOr<bool> EngineImpl<Step>::RunFor(uint64_t turns) {
  for (uint64_t turn = 0; !error_.failed(); ++turn) {
    if (turn == turns)
      return true;
    if (worklist_.has_queues()) {
      drain_.Drain(worklist_.PopQueue());
    } else if (worklist_.has_ranks() || worklist_.Unpark()) {
      RunRank(worklist_.PopRank());
    } else if (!(ends_.shared() ? ends_.Advance() : live_folding_.Change())) {
      return false;
    }
  }
  return error_.status();
}

template <class Step>
void EngineImpl<Step>::RunRank(uint32_t index) {
  RankState& r = ranks_[index];
  if (r.left) [[unlikely]] {
    r.blocked = Blocked::kFinished;
    return;
  }
  uint64_t quantum = worklist_.Quantum();
  while (!error_.failed()) {
    if (r.cursor == r.chunk_end && !programs_.NextOps(r))
      return;
    const Op& op = *r.next_op;
    if (op.from_helper != 0) [[unlikely]] {
      // Only a wait that became a thread's own carries host time.
      Step::SpendOnHost(r.host, op.host_ns, op.host_source);
      if (!helpers_.Execute(r, op))
        return;
      Advance(r);
      continue;
    }
    if (r.stage == RankState::Stage::kFresh) {
      Step::SpendOnHost(r.host, op.host_ns, op.host_source);
      if (r.timeline != nullptr) [[unlikely]]
        NoteReached(r);
    }
    if (op.launch != 0 && r.stage != RankState::Stage::kLaunchTaken) {
      r.stage = RankState::Stage::kHostSpent;
      if (!host_waits_.WaitForLaunchPlace(r))
        return;
      r.stage = RankState::Stage::kLaunchTaken;
    }
    if (!Execute(r, op)) {
      if (r.stage == RankState::Stage::kFresh)
        r.stage = RankState::Stage::kHostSpent;
      return;
    }
    Advance(r);
    if (r.parked) {
      worklist_.Park(r);
      return;
    }
    if (--quantum == 0) {
      worklist_.AddRank(index);
      return;
    }
  }
}

template <class Step>
bool EngineImpl<Step>::Execute(RankState& r, const Op& op) {
  if (folding_.on() && !folded_ops_.Allow(r, op))
    return false;
  switch (op.kind) {
    case OpKind::kHost:
      return true;
    case OpKind::kWork:
    case OpKind::kHostFunc:
      lane_ops_.Work(r, op);
      return true;
    case OpKind::kRecordToken:
      lane_ops_.RecordToken(r, op);
      return true;
    case OpKind::kWaitToken:
      lane_ops_.WaitToken(r, op);
      return true;
    case OpKind::kReleaseLane:
      lane_ops_.ReleaseLane(r, op);
      return true;
    case OpKind::kHostWaitToken:
    case OpKind::kPollToken:
      return host_waits_.WaitForToken(r, op);
    case OpKind::kHostWaitLane:
    case OpKind::kPollLane:
      return host_waits_.WaitForLane(r, op);
    case OpKind::kQueryToken:
    case OpKind::kQueryLane:
      return queries_.Query(r, op);
    case OpKind::kCreateCommunicator:
      return creations_.Create(r, op);
    case OpKind::kReleaseCommunicator:
      return releases_.Release(r, op);
    case OpKind::kCollective:
    case OpKind::kTransfers:
      return communication_.Issue(r, op);
    case OpKind::kMemory:
      r.memory.Apply(op);
      answers_.ReportMemory(r, op);
      return true;
    case OpKind::kRangeBegin:
    case OpKind::kRangeEnd:
      reports_.Range(r, op);
      return true;
    case OpKind::kAskClock:
      answers_.Answer(r, r.cursor, r.host, 0);
      return true;
  }
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "rank {}: op {} has unknown kind {}; the program was written by another "
      "version",
      r.world_rank, r.cursor, static_cast<int>(op.kind))));
  return false;
}

template <class Step>
void EngineImpl<Step>::EndHostFunction(int32_t world_rank, uint64_t op,
                                       int64_t duration_ns) {
  const RankState& ended = *ranks_.Find(world_rank);
  if (op >= ended.program->Released())
    ended.program->SetDuration(op, duration_ns);
  queues_.EndHostFunction(ended.program_index, op, duration_ns);
}

// Its process is gone. What it had joined by then still ends; nothing more comes, and
// nothing waits for what it waits for.
template <class Step>
void EngineImpl<Step>::LoseRank(int32_t world_rank) {
  if (RankState* const r = ranks_.Find(world_rank))
    r->lost = true;
}

template <class Step>
std::optional<Engine::LeadersCommunicator> EngineImpl<Step>::CommunicatorOfLeader(
    int32_t follower, const std::string& identity) const {
  const RankState* const r = ranks_.Find(follower);
  std::optional<Engine::LeadersCommunicator> found;
  if (r == nullptr || !r->options.follower || r->options.leader < 0)
    return found;
  // A follower's numbers are its leader's: both read one program.
  r->communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
    if (local.communicator != kNone &&
        communicators_[local.communicator].identity == identity)
      found = {r->options.leader, number};
  });
  return found;
}

template <class Step>
std::vector<std::string> EngineImpl<Step>::DescribeBlocked(size_t limit) {
  if (folding_.on() && !error_.failed())
    live_folding_.Unfold();
  return diagnosis_.DescribeBlocked(limit);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_IMPL_H_
