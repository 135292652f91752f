// Communicators coming and going in EngineImpl. Included by engine_impl.h.
//
// Creating one is a rendezvous of host threads: all go on at the latest member's host
// clock plus the model's cost. A process with several members joins with all of them
// before its host blocks, as a thread does inside ncclGroupStart and ncclGroupEnd.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_CREATION_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_CREATION_INL_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::Create(uint32_t index, RankState& r, const Op& op) {
  LocalCommunicator& local = At(r, r.communicators, op.a, "communicator");
  if (local.state != LocalCommunicator::State::kUnused) {
    Fail(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} creates communicator {} a second time; numbers are "
                    "never reused",
                    r.world_rank, r.cursor, op.a)));
    return false;
  }
  const Creation& call = r.program->details().creations[op.b];
  return call.parent == 0 ? JoinInit(index, r, op, call)
                          : JoinSplit(index, r, op, call);
}

template <class Step>
bool EngineImpl<Step>::JoinInit(uint32_t index, RankState& r, const Op& op,
                                const Creation& call) {
  auto answer = membership_->Init(r.world_rank, call, r.options.follower);
  if (!answer.ok()) {
    Fail(answer.status());
    return false;
  }
  auto known = forming_.find(answer->identity);
  if (known == forming_.end()) {
    const uint32_t opened =
        OpenCommunicator(answer->identity, answer->members, r.world_rank);
    if (failed_)
      return false;
    known = forming_.emplace(answer->identity, opened).first;
  }
  const uint32_t communicator = known->second;
  Comm& c = communicators_[communicator];
  if (answer->members != c.members || answer->index >= c.size() ||
      RankOf(c.members[answer->index]) != index ||
      c.creation.joiners[answer->index].rank != kNone) {
    Fail(absl::InvalidArgumentError(fmt::format(
        "communicator '{}': rank {} joins as member {} of {}, which does not fit the "
        "other members or is taken",
        c.identity, r.world_rank, answer->index, answer->members.size())));
    return false;
  }
  LocalCommunicator& local = r.communicators[op.a];
  local.state = LocalCommunicator::State::kForming;
  local.communicator = communicator;
  local.index = answer->index;
  c.creation.Join(answer->index, {index, op.a, op.b, r.cursor, r.host});
  if (c.creation.joined == c.present) {
    forming_.erase(known);
    CompleteInit(communicator);
    return !failed_;
  }
  return AwaitCreation(r, c, c.creation);
}

template <class Step>
bool EngineImpl<Step>::JoinSplit(uint32_t index, RankState& r, const Op& op,
                                 const Creation& call) {
  LocalCommunicator& parent = At(r, r.communicators, call.parent, "communicator");
  if (parent.state != LocalCommunicator::State::kBound) {
    Fail(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} splits communicator {}, which does not exist",
                    r.world_rank, r.cursor, call.parent)));
    return false;
  }
  const uint32_t sequence = parent.splits++;
  Comm& c = communicators_[parent.communicator];
  CreationMeeting& meeting = c.Split(sequence);
  LocalCommunicator& local = r.communicators[op.a];
  local.state = LocalCommunicator::State::kForming;
  local.communicator = parent.communicator;
  local.splits = sequence;
  meeting.Join(parent.index, {index, op.a, op.b, r.cursor, r.host});
  if (meeting.joined == c.present) {
    CompleteSplit(parent.communicator, sequence);
    return !failed_;
  }
  return AwaitCreation(r, c, meeting);
}

// The host blocks once all members that live in its process have joined.
template <class Step>
bool EngineImpl<Step>::AwaitCreation(RankState& r, const Comm& c,
                                     const CreationMeeting& meeting) {
  if (c.repeats) {
    for (uint32_t i = 0; i < c.size(); ++i) {
      if (c.members[i] == r.world_rank && meeting.joiners[i].rank == kNone)
        return true;
    }
  }
  r.blocked = Blocked::kCreation;
  return false;
}

template <class Step>
uint32_t EngineImpl<Step>::OpenCommunicator(std::string identity,
                                            std::vector<int32_t> members,
                                            int32_t joined_by) {
  std::vector<uint32_t> ranks(members.size(), kNone);
  for (size_t i = 0; i < members.size(); ++i) {
    const uint32_t rank = RankOf(members[i]);
    if (rank == kNone) {
      Fail(absl::InvalidArgumentError(
          fmt::format("communicator '{}', created by rank {}: member {} is rank {}, "
                      "which is neither "
                      "real nor played; give its class a real rank or a program, or "
                      "assume it absent",
                      identity, joined_by, i, members[i])));
      return kNone;
    }
    if (rank != kAbsentRank)
      ranks[i] = rank;
  }
  const uint32_t index = communicators_.Take();
  Comm& c = communicators_[index];
  c.Open(std::move(identity), std::move(members), std::move(ranks));
  c.creation.joiners.resize(c.size());
  assumed_arrivals_ += c.absentees();
  return index;
}

template <class Step>
Stamp EngineImpl<Step>::LatestHost(const CreationMeeting& meeting) const {
  Stamp latest;
  for (const CreationMeeting::Joiner& joiner : meeting.joiners) {
    if (joiner.rank != kNone)
      Step::Raise(latest, joiner.host);
  }
  return latest;
}

template <class Step>
void EngineImpl<Step>::CompleteInit(uint32_t communicator) {
  Comm& c = communicators_[communicator];
  const Stamp host =
      Step::CreationEnd(LatestHost(c.creation), network_->Creation(c.members));
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = c.creation.joiners[i];
    if (joiner.rank == kNone)
      continue;
    Bind(joiner, communicator, i);
    FinishCreation(joiner, host, uint64_t{c.size()} << 32 | i);
  }
  c.creation = CreationMeeting();
}

template <class Step>
void EngineImpl<Step>::CompleteSplit(uint32_t parent, uint32_t sequence) {
  Comm& c = communicators_[parent];
  const CreationMeeting meeting = std::move(c.Split(sequence));
  c.Split(sequence).complete = true;
  c.RetireSplits();
  std::vector<Membership::SplitMember> members(c.size());
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = meeting.joiners[i];
    members[i].world_rank = c.members[i];
    if (joiner.rank == kNone)
      continue;
    const RankState& r = *ranks_[joiner.rank];
    members[i].call = &r.program->details().creations[joiner.details];
    members[i].is_follower = r.options.follower;
  }
  auto groups = membership_->Split(c.identity, sequence, members);
  if (!groups.ok()) {
    Fail(groups.status());
    return;
  }
  if (!CheckGroups(c, sequence, members, *groups))
    return;
  const Stamp latest = LatestHost(meeting);
  std::vector<bool> placed(c.size());
  for (size_t g = 0; g < groups->size(); ++g) {
    std::vector<int32_t> world_ranks;
    for (const uint32_t member : (*groups)[g].members)
      world_ranks.push_back(c.members[member]);
    if (!(*groups)[g].names.empty())
      world_ranks = (*groups)[g].names;
    const uint32_t child = OpenCommunicator(
        fmt::format("{}/{}.{}", c.identity, sequence, g), world_ranks, world_ranks[0]);
    if (failed_)
      return;
    communicators_[child].creation = CreationMeeting();
    const Stamp host = Step::CreationEnd(latest, network_->Creation(world_ranks));
    for (uint32_t i = 0; i < world_ranks.size(); ++i) {
      const uint32_t member = (*groups)[g].members[i];
      placed[member] = true;
      if (meeting.joiners[member].rank == kNone)
        continue;
      Bind(meeting.joiners[member], child, i);
      FinishCreation(meeting.joiners[member], host,
                     uint64_t{world_ranks.size()} << 32 | i);
    }
  }
  // Members without a colour learn from the same exchange that they are in no child.
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = meeting.joiners[i];
    if (placed[i] || joiner.rank == kNone)
      continue;
    ranks_[joiner.rank]->communicators[joiner.number].state =
        LocalCommunicator::State::kNoMember;
    FinishCreation(joiner, latest, 0);
  }
}

template <class Step>
bool EngineImpl<Step>::CheckGroups(const Comm& parent, uint32_t sequence,
                                   const std::vector<Membership::SplitMember>& members,
                                   const std::vector<Membership::SplitGroup>& groups) {
  std::vector<uint32_t> times(parent.size());
  for (const Membership::SplitGroup& group : groups) {
    for (const uint32_t member : group.members) {
      if (member < parent.size())
        ++times[member];
    }
  }
  for (uint32_t i = 0; i < parent.size(); ++i) {
    const Creation* call = members[i].call;
    // An absent member may be anywhere; a follower's colour is not its leader's.
    const bool at_most = call == nullptr || members[i].is_follower;
    const uint32_t expected =
        call == nullptr || call->color == protocol::kNoColor ? 0 : 1;
    if (times[i] == expected || (at_most && times[i] <= 1))
      continue;
    Fail(absl::InternalError(fmt::format(
        "communicator '{}': split #{}: rank {} (member {}) was put into {} groups "
        "instead "
        "of {}",
        parent.identity, sequence, parent.members[i], i, times[i], expected)));
    return false;
  }
  for (const Membership::SplitGroup& group : groups) {
    if (group.members.empty() ||
        (!group.names.empty() && group.names.size() != group.members.size()) ||
        *std::max_element(group.members.begin(), group.members.end()) >=
            parent.size()) {
      Fail(absl::InternalError(fmt::format(
          "communicator '{}': split #{}: a group is empty or names an unknown member",
          parent.identity, sequence)));
      return false;
    }
  }
  return true;
}

template <class Step>
void EngineImpl<Step>::Bind(const CreationMeeting::Joiner& joiner,
                            uint32_t communicator, uint32_t index) {
  RankState& r = *ranks_[joiner.rank];
  LocalCommunicator local;
  local.state = LocalCommunicator::State::kBound;
  local.communicator = communicator;
  local.index = index;
  r.communicators[joiner.number] = local;
  const Comm& c = communicators_[communicator];
  observer_->OnCommunicator(r.world_rank, joiner.number, c.identity, c.members, index);
  for (const uint32_t follower : r.followers_waiting)
    Wake(follower);
  r.followers_waiting.clear();
}

template <class Step>
void EngineImpl<Step>::FinishCreation(const CreationMeeting::Joiner& joiner,
                                      const Stamp& host, uint64_t value) {
  RankState& r = *ranks_[joiner.rank];
  Step::HostWait(r.host, host);
  AnswerHost(r, joiner.op, r.host, value);
  if (r.blocked == Blocked::kCreation) {
    Advance(r);
    Wake(joiner.rank);
  }
}

template <class Step>
bool EngineImpl<Step>::Release(uint32_t index, RankState& r, const Op& op) {
  LocalCommunicator& local = At(r, r.communicators, op.a, "communicator");
  if (local.state != LocalCommunicator::State::kBound) {
    Fail(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} releases communicator {}, which does not exist",
                    r.world_rank, r.cursor, op.a)));
    return false;
  }
  const auto kind = static_cast<ReleaseKind>(op.b);
  if (op.from_helper != 0) {
    // A helper waits by itself, not the host; what it releases goes at once.
    if (kind != ReleaseKind::kAbort && local.last_future != kNone)
      AddWaiter(local.last_future,
                {Waiter::Kind::kHelper, index, kNone, 0, r.host.ns, r.cursor});
    else
      TellHelper(r, r.cursor, r.host.ns, local.last_end);
  } else if (kind != ReleaseKind::kAbort) {
    if (local.last_future != kNone) {
      AddWaiter(local.last_future, {Waiter::Kind::kHost, index, kNone, 0, 0});
      r.blocked = Blocked::kRelease;
      return false;
    }
    const int64_t before = r.host.ns;
    Step::HostWait(r.host, local.last_end);
    r.host_waited_ns += r.host.ns - before;
  }
  if (op.from_helper == 0)
    AnswerHost(r, r.cursor, local.last_end, 0);
  if (kind == ReleaseKind::kFinalize)
    return true;
  if (local.last_future != kNone) {
    Unreference(local.last_future);
    local.last_future = kNone;
  }
  local.state = LocalCommunicator::State::kReleased;
  ++communicators_[local.communicator].released;
  DropIfUnused(local.communicator);
  return true;
}

// Gives a communicator back that all present members have released.
template <class Step>
void EngineImpl<Step>::DropIfUnused(uint32_t communicator) {
  Comm& c = communicators_[communicator];
  if (c.released == c.present && c.operations == 0) {
    c = Comm();
    communicators_.Drop(communicator);
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_CREATION_INL_H_
