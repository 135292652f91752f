// Ranks, programs and the worklist of EngineImpl. Included by engine_impl.h.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_RANKS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_RANKS_INL_H_

#include <algorithm>
#include <utility>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
EngineImpl<Step>::EngineImpl(const EngineOptions& options, const NetworkModel* network,
                             Membership* membership, EngineObserver* observer)
    : latency_ns_(options.launch_latency.nanoseconds()),
      // Places in the launch queue are 16 bits wide; 0xffff means none.
      launch_queue_depth_(std::clamp<uint32_t>(options.launch_queue_depth, 1, 0xffff)),
      network_(network),
      membership_(membership),
      observer_(observer),
      contention_(options.contention),
      worklist_(ranks_, options.shuffle_seed),
      programs_(ranks_, worklist_),
      may_fold_(options.fold && options.contention == nullptr),
      tell_virtual_ends_(options.tell_virtual_ends),
      fold_step_(options.fold_step) {}

template <class Step>
void EngineImpl<Step>::AddRank(int32_t world_rank, Program* program,
                               const RankOptions& options) {
  RankState& r = ranks_.Add(world_rank, launch_queue_depth_);
  r.options = options;
  r.jitter_key = options.jitter.RankKey(world_rank);
  programs_.Add(r, program);
  looked_at_.resize(programs_.size());
  if (may_fold_ && programs_.ranks(r.program_index).size() == 2) {
    ++shared_programs_;
    programs_.SetHorizon(r.program_index, fold_step_);
  }
  worklist_.AddRank(r.index);
}

template <class Step>
uint64_t EngineImpl<Step>::ObserveTimeline(int32_t world_rank,
                                           TimelineObserver* observer) {
  RankState& r = *ranks_.Find(world_rank);
  if (r.blocked == Blocked::kPlayed)
    Unfold();
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
      Drain(worklist_.PopQueue());
    } else if (worklist_.has_ranks() || worklist_.Unpark()) {
      RunRank(worklist_.PopRank());
    } else if (contention_ != nullptr ? !AdvanceContention() : !ChangeFolding()) {
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
      if (!ExecuteForHelper(index, r, op))
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
      if (!TakeLaunchPlace(r))
        return;
      r.stage = RankState::Stage::kLaunchTaken;
    }
    if (!Execute(index, r, op)) {
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
bool EngineImpl<Step>::Finished() const {
  for (const auto& r : ranks_.all()) {
    if (r->blocked == Blocked::kPlayed || r->lost)
      continue;
    if (r->blocked != Blocked::kFinished || r->queued != 0)
      return false;
  }
  return true;
}

template <class Step>
RankResult EngineImpl<Step>::result(int32_t world_rank) const {
  RankResult result;
  const uint32_t index = ranks_.IndexOf(world_rank);
  if (index == kNone || index == RankTable::kAbsent)
    return result;
  const RankState& own = ranks_[index];
  const RankState& r = folding_ == nullptr ? own : ranks_[folding_->played_by[index]];
  result.end = r.host;
  result.memory_bytes = r.memory.bytes;
  result.peak_memory_bytes = r.memory.peak_bytes;
  result.peak_communicator_bytes = r.memory.peak_communicator_bytes;
  result.peak_context_bytes = r.memory.peak_context_bytes;
  result.ops = r.cursor - r.helper_questions;
  result.divergences = r.divergences + own.told_otherwise;
  result.host_waited = Duration::Nanoseconds(r.host_waited_ns);
  return result;
}

template <class Step>
uint64_t EngineImpl<Step>::ops() const {
  uint64_t sum = 0;
  for (const auto& r : ranks_.all()) {
    const uint64_t times =
        folding_ == nullptr ? 1 : folding_->stands_for[r->index].size();
    sum += times * (r->cursor - r->helper_questions);
  }
  return sum;
}

template <class Step>
uint64_t EngineImpl<Step>::Unresolved(int32_t world_rank) const {
  const uint32_t index = ranks_.IndexOf(world_rank);
  if (index == kNone || index == RankTable::kAbsent)
    return 0;
  const RankState& r = ranks_[index];
  return r.program->Unread() + r.queued;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_RANKS_INL_H_
