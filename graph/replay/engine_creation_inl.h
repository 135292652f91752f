// Communicators coming and going in EngineImpl. Included by engine_impl.h. Inits from
// unique ids are in engine_init_inl.h.
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
  LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
  if (local.state != LocalCommunicator::State::kUnused) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} creates communicator {} a second time; numbers are "
                    "never reused",
                    r.world_rank, r.cursor, op.a)));
    return false;
  }
  const Creation& call = r.program->details().creations[op.b];
  return call.parent == 0 ? JoinInit(index, r, op) : JoinSplit(index, r, op, call);
}

// The op's rank as a member of a meeting. Where its host does not wait, the op's token
// gets the end of the meeting as its own.
template <class Step>
CreationMeeting::Joiner EngineImpl<Step>::Joining(uint32_t index, RankState& r,
                                                  const Op& op) {
  CreationMeeting::Joiner joiner{index, op.a, op.b, r.cursor, r.host};
  if (op.value == 0)
    return joiner;
  Token& token = TokenAt(r, static_cast<uint32_t>(op.value), error_);
  if (token.future != kNone)
    Unreference(token.future);
  // Referred to by the token and by the joiner.
  joiner.token = static_cast<uint32_t>(op.value);
  joiner.future = NewFuture(2, r.host.ns, kNone);
  futures_[joiner.future].end = Stamp{};
  token.future = joiner.future;
  return joiner;
}

template <class Step>
bool EngineImpl<Step>::JoinSplit(uint32_t index, RankState& r, const Op& op,
                                 const Creation& call) {
  LocalCommunicator& parent = CommunicatorAt(r, call.parent, error_);
  if (AwaitsForming(r, parent))
    return false;
  if (parent.state != LocalCommunicator::State::kBound) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} splits communicator {}, which does not exist",
                    r.world_rank, r.cursor, call.parent)));
    return false;
  }
  Comm& c = communicators_[parent.communicator];
  if (std::binary_search(call.excluded.begin(), call.excluded.end(), parent.index)) {
    // Only a follower gets here: its leader goes on without it.
    r.left = true;
    r.program->ReaderPassed(r.reader, ~uint64_t{0});
    r.blocked = Blocked::kFinished;
    return false;
  }
  parent.aborted = false;  // what ReleaseKind::kStop has stopped is over
  const uint32_t sequence = parent.splits++;
  if (c.IsRetired(sequence)) {
    // A rank that a shrink left out has not counted it.
    error_.Report(absl::UnimplementedError(fmt::format(
        "communicator '{}': rank {} splits it after a shrink that left this rank out, "
        "which is not modelled; split first, or split what the shrink made",
        c.identity, r.world_rank)));
    return false;
  }
  CreationMeeting& meeting = c.Split(sequence);
  if (!AgreesOnExcluded(c, sequence, meeting, parent.index, r, call))
    return false;
  LocalCommunicator& local = r.communicators[op.a];
  local.state = LocalCommunicator::State::kForming;
  local.communicator = parent.communicator;
  local.splits = sequence;
  meeting.Join(parent.index, Joining(index, r, op));
  if (meeting.joined + meeting.excluded == c.present) {
    CompleteSplit(parent.communicator, sequence);
    return !error_.failed();
  }
  return AwaitCreation(r, c, meeting, op);
}

// All members of a meeting must leave out the same others; the first one decides.
template <class Step>
bool EngineImpl<Step>::AgreesOnExcluded(const Comm& c, uint32_t sequence,
                                        CreationMeeting& meeting, uint32_t index,
                                        const RankState& r, const Creation& call) {
  if (meeting.joined == 0) {
    for (const uint32_t member : call.excluded)
      meeting.excluded += member < c.size() && !c.absent[member] ? 1 : 0;
    return true;
  }
  const CreationMeeting::Joiner& first = meeting.joiners[meeting.first];
  const RankState& other = ranks_[first.rank];
  if (other.program->details().creations[first.details].excluded == call.excluded)
    return true;
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "communicator '{}': split or shrink #{} differs between members: rank {} (index "
      "{}) and rank {} exclude different members; all must pass the same list",
      c.identity, sequence, r.world_rank, index, other.world_rank)));
  return false;
}

// The host blocks once all members that live in its process have joined.
template <class Step>
bool EngineImpl<Step>::AwaitCreation(RankState& r, const Comm& c,
                                     const CreationMeeting& meeting, const Op& op) {
  if (op.value != 0)
    return true;
  if (c.repeats) {
    const Creation& call = r.program->details().creations[op.b];
    for (uint32_t i = 0; i < c.size(); ++i) {
      if (c.members[i] == r.world_rank && meeting.joiners[i].rank == kNone &&
          !std::binary_search(call.excluded.begin(), call.excluded.end(), i))
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
    const uint32_t rank = ranks_.IndexOf(members[i]);
    if (rank == kNone) {
      error_.Report(absl::InvalidArgumentError(
          fmt::format("communicator '{}', created by rank {}: member {} is rank {}, "
                      "which is neither "
                      "real nor played; give its class a real rank or a program, or "
                      "assume it absent",
                      identity, joined_by, i, members[i])));
      return kNone;
    }
    if (rank != RankTable::kAbsent)
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
    const RankState& r = ranks_[joiner.rank];
    members[i].call = &r.program->details().creations[joiner.details];
    members[i].is_follower = r.options.follower;
  }
  auto groups = GroupsOf(c, sequence, members);
  if (!groups.ok()) {
    error_.Report(groups.status());
    return;
  }
  const Stamp latest = LatestHost(meeting);
  std::vector<bool> placed(c.size());
  std::vector<Told> finished;
  std::vector<uint32_t> children;
  for (size_t g = 0; g < groups->size(); ++g) {
    std::vector<int32_t> world_ranks;
    for (const uint32_t member : (*groups)[g].members)
      world_ranks.push_back(c.members[member]);
    if (!(*groups)[g].names.empty())
      world_ranks = (*groups)[g].names;
    const uint32_t child = OpenCommunicator(
        fmt::format("{}/{}.{}", c.identity, sequence, g), world_ranks, world_ranks[0]);
    if (error_.failed())
      return;
    children.push_back(child);
    communicators_[child].creation = CreationMeeting();
    const Stamp host = Step::CreationEnd(latest, network_->Creation(world_ranks));
    for (uint32_t i = 0; i < world_ranks.size(); ++i) {
      const uint32_t member = (*groups)[g].members[i];
      placed[member] = true;
      if (meeting.joiners[member].rank == kNone)
        continue;
      Bind(meeting.joiners[member], child, i);
      finished.push_back(
          {meeting.joiners[member], host, uint64_t{world_ranks.size()} << 32 | i});
    }
  }
  // Members without a colour learn from the same exchange that they are in no child.
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = meeting.joiners[i];
    if (placed[i] || joiner.rank == kNone)
      continue;
    RankState& r = ranks_[joiner.rank];
    r.communicators[joiner.number].state = LocalCommunicator::State::kNoMember;
    programs_.ReleaseNumber(r, joiner.number);
    finished.push_back({joiner, latest, 0});
  }
  FinishCreations(finished);
  for (const uint32_t child : children)
    DropIfUnused(child);
}

// The members of each child: the survivors of a shrink in the parent's order, or what
// the colours say.
template <class Step>
absl::StatusOr<std::vector<Membership::SplitGroup>> EngineImpl<Step>::GroupsOf(
    const Comm& c, uint32_t sequence,
    const std::vector<Membership::SplitMember>& members) {
  const auto first =
      std::find_if(members.begin(), members.end(), [](const auto& member) {
        return member.call != nullptr && !member.call->excluded.empty();
      });
  if (first == members.end()) {
    auto groups = membership_->Split(c.identity, sequence, members);
    if (groups.ok() && !CheckGroups(c, sequence, members, *groups))
      return error_.status();
    return groups;
  }
  const std::vector<uint32_t>& excluded = first->call->excluded;
  std::vector<Membership::SplitGroup> survivors(1);
  for (uint32_t i = 0; i < c.size(); ++i) {
    if (!std::binary_search(excluded.begin(), excluded.end(), i))
      survivors[0].members.push_back(i);
  }
  return survivors;
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
    error_.Report(absl::InternalError(fmt::format(
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
      error_.Report(absl::InternalError(fmt::format(
          "communicator '{}': split #{}: a group is empty or names an unknown member",
          parent.identity, sequence)));
      return false;
    }
  }
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_CREATION_INL_H_
