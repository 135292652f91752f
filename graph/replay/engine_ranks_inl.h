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
      shuffle_(options.shuffle_seed),
      may_fold_(options.fold && options.contention == nullptr),
      tell_virtual_ends_(options.tell_virtual_ends),
      fold_step_(options.fold_step) {}

template <class Step>
void EngineImpl<Step>::AddRank(int32_t world_rank, Program* program,
                               const RankOptions& options) {
  const uint32_t index = static_cast<uint32_t>(ranks_.size());
  const auto [it, added] =
      program_index_.try_emplace(program, static_cast<uint32_t>(programs_.size()));
  if (added)
    programs_.push_back({program, {}, {}, {}});
  ProgramState& shared = programs_[it->second];
  shared.ranks.push_back(index);
  if (shared.ranks.size() == 2 && may_fold_) {
    ++shared_programs_;
    shared.horizon = fold_step_;
  }
  auto r = std::make_unique<RankState>(launch_queue_depth_);
  r->index = index;
  r->world_rank = world_rank;
  r->program = program;
  r->program_index = it->second;
  r->reader = program->AddReader();
  r->options = options;
  r->jitter_key = options.jitter.RankKey(world_rank);
  ranks_.push_back(std::move(r));
  MarkWorldRank(world_rank, index);
  runnable_ranks_.push_back(index);
}

template <class Step>
void EngineImpl<Step>::AddAbsentRank(int32_t world_rank) {
  MarkWorldRank(world_rank, kAbsentRank);
}

template <class Step>
void EngineImpl<Step>::AddAlias(int32_t alias, int32_t world_rank) {
  MarkWorldRank(alias, RankOf(world_rank));
}

template <class Step>
void EngineImpl<Step>::MarkWorldRank(int32_t world_rank, uint32_t index) {
  const size_t place = static_cast<size_t>(world_rank);
  if (rank_of_world_.size() <= place)
    rank_of_world_.resize(place + 1, kNone);
  rank_of_world_[place] = index;
}

template <class Step>
uint32_t EngineImpl<Step>::RankOf(int32_t world_rank) const {
  const size_t place = static_cast<size_t>(world_rank);
  return world_rank < 0 || place >= rank_of_world_.size() ? kNone
                                                          : rank_of_world_[place];
}

template <class Step>
uint64_t EngineImpl<Step>::ObserveTimeline(int32_t world_rank,
                                           TimelineObserver* observer) {
  RankState& r = *ranks_[RankOf(world_rank)];
  if (r.blocked == Blocked::kPlayed)
    Unfold();
  r.timeline = observer;
  // An op at which the host is blocked now has spent its host time already.
  r.reached = r.host;
  return r.cursor;
}

// Queued ops keep half of their index: less than 2^32 ops are ever behind the cursor.
template <class Step>
uint64_t EngineImpl<Step>::OpIndex(const RankState& r, uint32_t op) {
  return r.cursor - (static_cast<uint32_t>(r.cursor) - op);
}

template <class Step>
void EngineImpl<Step>::TellEnded(const RankState& r, uint32_t op, const Stamp& begin,
                                 const Stamp& end) {
  r.timeline->OnOpEnded(r.world_rank, OpIndex(r, op), begin, end);
}

template <class Step>
void EngineImpl<Step>::NoteReached(RankState& r) {
  r.reached = r.host;
}

template <class Step>
void EngineImpl<Step>::TellPassed(const RankState& r) {
  const Stamp& reached = r.next_op->from_helper != 0 ? r.host : r.reached;
  r.timeline->OnOpPassed(r.world_rank, r.cursor, reached, r.host);
}

template <class Step>
void EngineImpl<Step>::ProgramChanged(const Program* program) {
  const auto it = program_index_.find(program);
  if (it != program_index_.end())
    WakeReaders(it->second);
}

template <class Step>
void EngineImpl<Step>::WakeReaders(uint32_t program_index) {
  std::vector<uint32_t>& starved = programs_[program_index].starved;
  for (const uint32_t rank : starved)
    Wake(rank);
  starved.clear();
}

template <class Step>
void EngineImpl<Step>::Wake(uint32_t rank) {
  ranks_[rank]->blocked = Blocked::kNo;
  runnable_ranks_.push_back(rank);
}

template <class Step>
uint64_t EngineImpl<Step>::Random() {
  // xorshift64 (Marsaglia 2003): the order of evaluation needs no better one.
  shuffle_ ^= shuffle_ << 13;
  shuffle_ ^= shuffle_ >> 7;
  shuffle_ ^= shuffle_ << 17;
  return shuffle_;
}

template <class Step>
uint32_t EngineImpl<Step>::Pop(std::vector<uint32_t>& stack) {
  if (shuffle_ != 0)
    std::swap(stack[Random() % stack.size()], stack.back());
  const uint32_t top = stack.back();
  stack.pop_back();
  return top;
}

template <class Step>
void EngineImpl<Step>::Fail(absl::Status status) {
  if (!failed_)
    error_ = std::move(status);
  failed_ = true;
}

template <class Step>
absl::StatusOr<bool> EngineImpl<Step>::RunFor(uint64_t turns) {
  for (uint64_t turn = 0; !failed_; ++turn) {
    if (turn == turns)
      return true;
    if (!ready_queues_.empty()) {
      Drain(Pop(ready_queues_));
    } else if (!runnable_ranks_.empty() || Unpark()) {
      RunRank(Pop(runnable_ranks_));
    } else if (contention_ != nullptr ? !AdvanceContention() : !ChangeFolding()) {
      return false;
    }
  }
  return error_;
}

// Nothing else moves: one parked rank goes on by queueing.
template <class Step>
bool EngineImpl<Step>::Unpark() {
  while (!parked_ranks_.empty()) {
    const uint32_t rank = Pop(parked_ranks_);
    ranks_[rank]->listed_as_parked = false;
    if (!ranks_[rank]->parked)
      continue;
    ranks_[rank]->parked = false;
    runnable_ranks_.push_back(rank);
    return true;
  }
  return false;
}

// Makes the ops from the cursor on readable; false if there are none yet.
template <class Step>
bool EngineImpl<Step>::NextOps(uint32_t index, RankState& r) {
  if (r.cursor % Program::kChunkOps == 0)
    r.program->ReaderPassed(r.reader, r.cursor);
  const uint64_t horizon = programs_[r.program_index].horizon;
  if (r.cursor == r.program->size() || r.cursor >= horizon) {
    if (r.cursor == r.program->size() && r.program->closed()) {
      r.blocked = Blocked::kFinished;
    } else {
      r.blocked = Blocked::kProgram;
      programs_[r.program_index].starved.push_back(index);
    }
    return false;
  }
  r.next_op = &r.program->op(r.cursor);
  r.chunk_end = std::min(r.program->ChunkEnd(r.cursor), horizon);
  return true;
}

template <class Step>
void EngineImpl<Step>::Advance(RankState& r) {
  if (r.timeline != nullptr) [[unlikely]]
    TellPassed(r);
  ++r.cursor;
  ++r.next_op;
  r.stage = RankState::Stage::kFresh;
}

template <class Step>
void EngineImpl<Step>::RunRank(uint32_t index) {
  RankState& r = *ranks_[index];
  if (r.left) [[unlikely]] {
    r.blocked = Blocked::kFinished;
    return;
  }
  // A shuffled run also stops ranks at random ops.
  uint64_t quantum = shuffle_ == 0 ? ~uint64_t{0} : 1 + Random() % 16;
  while (!failed_) {
    if (r.cursor == r.chunk_end && !NextOps(index, r))
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
      if (!r.listed_as_parked)
        parked_ranks_.push_back(index);
      r.listed_as_parked = true;
      return;
    }
    if (--quantum == 0) {
      runnable_ranks_.push_back(index);
      return;
    }
  }
}

template <class Step>
bool EngineImpl<Step>::Finished() const {
  for (const auto& r : ranks_) {
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
  const uint32_t index = RankOf(world_rank);
  if (index == kNone || index == kAbsentRank)
    return result;
  const RankState& own = *ranks_[index];
  const RankState& r = folding_ == nullptr ? own : *ranks_[folding_->played_by[index]];
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
  for (const auto& r : ranks_) {
    const uint64_t times =
        folding_ == nullptr ? 1 : folding_->stands_for[r->index].size();
    sum += times * (r->cursor - r->helper_questions);
  }
  return sum;
}

template <class Step>
uint64_t EngineImpl<Step>::Unresolved(int32_t world_rank) const {
  const uint32_t index = RankOf(world_rank);
  if (index == kNone || index == kAbsentRank)
    return 0;
  const RankState& r = *ranks_[index];
  return r.program->Unread() + r.queued;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_RANKS_INL_H_
