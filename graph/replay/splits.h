// Splits and shrinks of communicators, while their members are still joining.
//
// All members of the parent meet, also those that will be in no child.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: calls of members that
// contradict each other, and those of the membership (FirstError).

#ifndef VRANK_GRAPH_REPLAY_SPLITS_H_
#define VRANK_GRAPH_REPLAY_SPLITS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "graph/replay/communicators.h"
#include "graph/replay/creation_members.h"
#include "graph/replay/first_error.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"
#include "graph/replay/numbered.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

template <class Step>
class Splits {
 public:
  using Comm = Communicator<Step>;

  Splits(const NetworkModel* network, Membership* membership, RankTable& ranks,
         ProgramReaders& programs, Communicators<Step>& communicators,
         CreationMembers<Step>& members, FirstError& error)
      : network_(network),
        membership_(membership),
        ranks_(ranks),
        programs_(programs),
        communicators_(communicators),
        members_(members),
        error_(error) {}

  // `call`: the op's. False: the host is blocked at this op.
  bool Join(RankState& r, const Op& op, const Creation& call);

 private:
  using Groups = std::vector<Membership::SplitGroup>;
  using Members = std::vector<Membership::SplitMember>;

  bool AgreesOnExcluded(const Comm& c, uint32_t sequence, CreationMeeting& meeting,
                        uint32_t index, const RankState& r, const Creation& call);
  void Complete(uint32_t parent, uint32_t sequence);
  Members MembersOf(const Comm& c, const CreationMeeting& meeting) const;
  absl::StatusOr<Groups> GroupsOf(const Comm& c, uint32_t sequence,
                                  const Members& members);
  bool CheckGroups(const Comm& parent, uint32_t sequence, const Members& members,
                   const Groups& groups);

  const NetworkModel* const network_;
  Membership* const membership_;
  RankTable& ranks_;
  ProgramReaders& programs_;
  Communicators<Step>& communicators_;
  CreationMembers<Step>& members_;
  FirstError& error_;
};

template <class Step>
bool Splits<Step>::Join(RankState& r, const Op& op, const Creation& call) {
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
  meeting.Join(parent.index, members_.Joining(r, op));
  if (meeting.joined + meeting.excluded == c.present) {
    Complete(parent.communicator, sequence);
    return !error_.failed();
  }
  return members_.GoesOn(r, c, meeting, op);
}

// All members of a meeting must leave out the same others; the first one decides.
template <class Step>
bool Splits<Step>::AgreesOnExcluded(const Comm& c, uint32_t sequence,
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

template <class Step>
void Splits<Step>::Complete(uint32_t parent, uint32_t sequence) {
  Comm& c = communicators_[parent];
  const CreationMeeting meeting = std::move(c.Split(sequence));
  c.Split(sequence).complete = true;
  c.RetireSplits();
  auto groups = GroupsOf(c, sequence, MembersOf(c, meeting));
  if (!groups.ok()) {
    error_.Report(groups.status());
    return;
  }
  const Stamp latest = members_.LatestHost(meeting);
  std::vector<bool> placed(c.size());
  std::vector<CreationResult> finished;
  std::vector<uint32_t> children;
  for (size_t g = 0; g < groups->size(); ++g) {
    std::vector<int32_t> world_ranks;
    for (const uint32_t member : (*groups)[g].members)
      world_ranks.push_back(c.members[member]);
    if (!(*groups)[g].names.empty())
      world_ranks = (*groups)[g].names;
    const uint32_t child = communicators_.Open(
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
      members_.Bind(meeting.joiners[member], child, i);
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
  members_.Finish(finished);
  for (const uint32_t child : children)
    communicators_.DropIfUnused(child);
}

template <class Step>
typename Splits<Step>::Members Splits<Step>::MembersOf(
    const Comm& c, const CreationMeeting& meeting) const {
  Members members(c.size());
  for (uint32_t i = 0; i < c.size(); ++i) {
    const CreationMeeting::Joiner& joiner = meeting.joiners[i];
    members[i].world_rank = c.members[i];
    if (joiner.rank == kNone)
      continue;
    const RankState& r = ranks_[joiner.rank];
    members[i].call = &r.program->details().creations[joiner.details];
    members[i].is_follower = r.options.follower;
  }
  return members;
}

// The members of each child: the survivors of a shrink in the parent's order, or what
// the colours say.
template <class Step>
absl::StatusOr<typename Splits<Step>::Groups> Splits<Step>::GroupsOf(
    const Comm& c, uint32_t sequence, const Members& members) {
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
  Groups survivors(1);
  for (uint32_t i = 0; i < c.size(); ++i) {
    if (!std::binary_search(excluded.begin(), excluded.end(), i))
      survivors[0].members.push_back(i);
  }
  return survivors;
}

template <class Step>
bool Splits<Step>::CheckGroups(const Comm& parent, uint32_t sequence,
                               const Members& members, const Groups& groups) {
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

#endif  // VRANK_GRAPH_REPLAY_SPLITS_H_
