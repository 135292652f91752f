// Communicators from unique ids, while their members are still joining.
//
// Which ranks belong to a communicator is the membership's answer, which may need the
// calls of others. Until then a call is kept with its host's time, as one that has
// joined a meeting is, and is asked about again whenever another rank has called.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: members that do not
// fit, and those of the membership (FirstError).

#ifndef VRANK_GRAPH_REPLAY_INITS_H_
#define VRANK_GRAPH_REPLAY_INITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/communicators.h"
#include "graph/replay/creation_members.h"
#include "graph/replay/first_error.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class Inits {
 public:
  using Comm = Communicator<Step>;
  using Joiner = CreationMeeting::Joiner;

  // An init whose other members the membership has not stated yet.
  struct Undecided {
    Joiner joiner;
    uint32_t number = 0;  // of its rank's inits
  };

  Inits(const NetworkModel* network, Membership* membership, RankTable& ranks,
        Worklist& worklist, Communicators<Step>& communicators,
        CreationMembers<Step>& members, FirstError& error)
      : network_(network),
        membership_(membership),
        ranks_(ranks),
        worklist_(worklist),
        communicators_(communicators),
        members_(members),
        error_(error) {}

  // False: the host is blocked at this op.
  bool Join(RankState& r, const Op& op);

  // No member of any of them is missing.
  bool settled() const { return forming_.empty() && undecided_.empty(); }

  // In the order of arrival.
  const std::vector<Undecided>& undecided() const { return undecided_; }
  template <class Visit>
  void ForEachUndecided(Visit visit) {
    for (Undecided& init : undecided_)
      visit(init.joiner);
  }
  // What the membership says of one; adds world ranks that may be missing to *missing.
  std::string Describe(const Undecided& init, std::vector<int32_t>* missing) const {
    return membership_->DescribeInit(CallerOf(init), CallOf(init), missing);
  }
  const Creation& CallOf(const Undecided& init) const {
    return ranks_[init.joiner.rank].program->details().creations[init.joiner.details];
  }

 private:
  bool Decide(const Undecided& init, bool* may_go_on);
  void DecideOthers();
  bool JoinAs(const Undecided& init, const Membership::InitAnswer& answer);
  void Complete(uint32_t communicator);
  Membership::InitCaller CallerOf(const Undecided& init) const {
    const RankState& r = ranks_[init.joiner.rank];
    return {r.world_rank, init.number, r.options.follower};
  }

  const NetworkModel* const network_;
  Membership* const membership_;
  RankTable& ranks_;
  Worklist& worklist_;
  Communicators<Step>& communicators_;
  CreationMembers<Step>& members_;
  FirstError& error_;
  std::map<std::string, uint32_t> forming_;  // by identity, while members are missing
  std::vector<Undecided> undecided_;
};

template <class Step>
bool Inits<Step>::Join(RankState& r, const Op& op) {
  LocalCommunicator& local = r.communicators[op.a];
  local.state = LocalCommunicator::State::kForming;
  local.communicator = kNone;
  const Undecided init{members_.Joining(r, op), r.inits++};
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
    return members_.GoesOn(r, c, c.creation, op);
  }
  if (op.value != 0 && may_go_on)
    return true;
  r.blocked = Blocked::kCreation;
  return false;
}

template <class Step>
void Inits<Step>::DecideOthers() {
  for (size_t i = 0; i < undecided_.size() && !error_.failed();) {
    const Undecided init = undecided_[i];
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
          members_.GoesOn(r, communicators_[local.communicator],
                          communicators_[local.communicator].creation, *r.next_op)) {
        Advance(r);
        worklist_.Wake(r);
      }
    }
    i = 0;
  }
}

// False: not stated yet, or failed.
template <class Step>
bool Inits<Step>::Decide(const Undecided& init, bool* may_go_on) {
  const auto answer = membership_->Init(CallerOf(init), CallOf(init));
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
bool Inits<Step>::JoinAs(const Undecided& init, const Membership::InitAnswer& answer) {
  RankState& r = ranks_[init.joiner.rank];
  auto known = forming_.find(answer.identity);
  if (known == forming_.end()) {
    const uint32_t opened =
        communicators_.Open(answer.identity, *answer.members, r.world_rank);
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
    Complete(communicator);
  }
  return !error_.failed();
}

template <class Step>
void Inits<Step>::Complete(uint32_t communicator) {
  Comm& c = communicators_[communicator];
  const Stamp host =
      Step::CreationEnd(members_.LatestHost(c.creation), network_->Creation(c.members));
  std::vector<CreationResult> finished;
  for (uint32_t i = 0; i < c.size(); ++i) {
    const Joiner& joiner = c.creation.joiners[i];
    if (joiner.rank == kNone)
      continue;
    members_.Bind(joiner, communicator, i);
    finished.push_back({joiner, host, uint64_t{c.size()} << 32 | i});
  }
  c.creation = CreationMeeting();
  members_.Finish(finished);
  communicators_.DropIfUnused(communicator);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_INITS_H_
