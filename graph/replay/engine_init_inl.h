// Inits from unique ids in EngineImpl. Included by engine_impl.h.
//
// Who belongs to a communicator is the membership's word, and it may need the calls of
// others for it. Until then a call is kept with its host's time, as one that has joined
// a meeting is, and is asked about again whenever another rank has called.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_INIT_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_INIT_INL_H_

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::JoinInit(uint32_t index, RankState& r, const Op& op) {
  LocalCommunicator& local = r.communicators[op.a];
  local.state = LocalCommunicator::State::kForming;
  local.communicator = kNone;
  const UndecidedInit init{Joining(index, r, op), r.inits++};
  bool may_go_on = false;
  if (!Decide(init, &may_go_on))
    undecided_.push_back(init);
  // What this call states may decide others, and what these state this one.
  DecideOthers();
  if (error_.failed())
    return false;
  // Numbers are kept while their communicators form.
  const LocalCommunicator& joined = r.communicators[op.a];
  if (joined.state != LocalCommunicator::State::kForming)
    return true;
  if (joined.communicator != kNone) {
    const Comm& c = communicators_[joined.communicator];
    return AwaitCreation(r, c, c.creation, op);
  }
  if (op.value != 0 && may_go_on)
    return true;
  r.blocked = Blocked::kCreation;
  return false;
}

template <class Step>
void EngineImpl<Step>::DecideOthers() {
  for (size_t i = 0; i < undecided_.size() && !error_.failed();) {
    const UndecidedInit init = undecided_[i];
    bool may_go_on = false;
    if (!Decide(init, &may_go_on)) {
      ++i;
      continue;
    }
    undecided_.erase(undecided_.begin() + static_cast<std::ptrdiff_t>(i));
    // Its host may have waited to know its members only.
    RankState& r = ranks_[init.joiner.rank];
    if (r.blocked == Blocked::kCreation && r.cursor == init.joiner.op) {
      const LocalCommunicator& local = r.communicators[init.joiner.number];
      if (local.state != LocalCommunicator::State::kForming ||
          AwaitCreation(r, communicators_[local.communicator],
                        communicators_[local.communicator].creation, *r.next_op)) {
        Advance(r);
        worklist_.Wake(ranks_[init.joiner.rank]);
      }
    }
    i = 0;
  }
}

// False: not told yet, or failed.
template <class Step>
bool EngineImpl<Step>::Decide(const UndecidedInit& init, bool* may_go_on) {
  const RankState& r = ranks_[init.joiner.rank];
  const Creation& call = r.program->details().creations[init.joiner.details];
  const auto answer = membership_->Init(CallerOf(init), call);
  if (absl::IsUnavailable(answer.status()))
    return false;
  if (!answer.ok()) {
    error_.Report(answer.status());
    return false;
  }
  *may_go_on = true;
  if (answer->members == nullptr)
    return false;
  return JoinAs(init, *answer);
}

template <class Step>
Membership::InitCaller EngineImpl<Step>::CallerOf(const UndecidedInit& init) const {
  const RankState& r = ranks_[init.joiner.rank];
  return {r.world_rank, init.number, r.options.follower};
}

template <class Step>
bool EngineImpl<Step>::JoinAs(const UndecidedInit& init,
                              const Membership::InitAnswer& answer) {
  RankState& r = ranks_[init.joiner.rank];
  auto known = forming_.find(answer.identity);
  if (known == forming_.end()) {
    const uint32_t opened =
        OpenCommunicator(answer.identity, *answer.members, r.world_rank);
    if (error_.failed())
      return false;
    communicators_[opened].stated = answer.members;
    known = forming_.emplace(answer.identity, opened).first;
  }
  const uint32_t communicator = known->second;
  Comm& c = communicators_[communicator];
  if ((answer.members != c.stated && *answer.members != c.members) ||
      answer.index >= c.size() ||
      ranks_.IndexOf(c.members[answer.index]) != init.joiner.rank ||
      c.creation.joiners[answer.index].rank != kNone) {
    error_.Report(absl::InvalidArgumentError(fmt::format(
        "communicator '{}': rank {} joins as member {} of {}, which does not fit the "
        "other members or is taken",
        c.identity, r.world_rank, answer.index, answer.members->size())));
    return false;
  }
  LocalCommunicator& local = r.communicators[init.joiner.number];
  if (!init.joiner.withdrawn) {
    local.communicator = communicator;
    local.index = answer.index;
  }
  c.creation.Join(answer.index, init.joiner);
  if (c.creation.joined == c.present) {
    forming_.erase(known);
    CompleteInit(communicator);
  }
  return !error_.failed();
}

template <class Step>
void EngineImpl<Step>::CompleteInit(uint32_t communicator) {
  Comm& c = communicators_[communicator];
  const Stamp host =
      Step::CreationEnd(LatestHost(c.creation), network_->Creation(c.members));
  std::vector<Told> finished;
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = c.creation.joiners[i];
    if (joiner.rank == kNone)
      continue;
    Bind(joiner, communicator, i);
    finished.push_back({joiner, host, uint64_t{c.size()} << 32 | i});
  }
  c.creation = CreationMeeting();
  FinishCreations(finished);
  DropIfUnused(communicator);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_INIT_INL_H_
