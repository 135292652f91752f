// See inferred_splits.h.

#include "graph/membership/inferred_splits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/deciding_rank.h"
#include "graph/membership/split_inference.h"

namespace vrank::graph {
namespace {

// Where the calls that are seen explain nothing yet, the first rank without calls of
// its own is the one to add: one without a leader before one that follows.
void NameRankToAdd(std::span<const Membership::SplitMember> members,
                   absl::Status* status) {
  if (!absl::IsFailedPrecondition(*status) || DecidingRankOf(*status).has_value())
    return;
  for (const bool followers : {false, true}) {
    for (const Membership::SplitMember& member : members) {
      if (followers ? member.is_follower : member.call == nullptr) {
        AttachDecidingRank(member.world_rank, status);
        return;
      }
    }
  }
}

using SplitGroup = Membership::SplitGroup;
using SplitMember = Membership::SplitMember;

bool HasOwnCall(const SplitMember& member) {
  return member.call != nullptr && !member.is_follower;
}

bool Joins(const Creation& call) {
  return call.color != protocol::kNoColor;
}

// ncclCommSplit's rule. Groups come by their first member in the parent's order, as
// they do when they are inferred, so that a name made of the group's place is the same.
std::vector<SplitGroup> SplitByCalls(std::span<const SplitMember> members) {
  std::map<int32_t, size_t> group_of_color;
  std::vector<SplitGroup> groups;
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (!Joins(*members[i].call)) {
      continue;
    }
    const auto [entry, is_new] =
        group_of_color.emplace(members[i].call->color, groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[entry->second].members.push_back(i);
  }
  for (SplitGroup& group : groups) {
    std::stable_sort(group.members.begin(), group.members.end(),
                     [&](uint32_t a, uint32_t b) {
                       return members[a].call->key < members[b].call->key;
                     });
  }
  return groups;
}

constexpr size_t kMostAnswered = 16;

// All that the groups of a split are inferred from, as numbers.
std::vector<int64_t> CallsOf(std::span<const SplitMember> members,
                             const std::vector<bool>& joins) {
  std::vector<int64_t> calls;
  for (size_t i = 0; i < members.size(); ++i) {
    const SplitMember& member = members[i];
    calls.push_back(int64_t{member.world_rank} * 8 + (member.is_follower ? 4 : 0) +
                    (member.call != nullptr ? 2 : 0) + (joins[i] ? 1 : 0));
    if (member.call != nullptr)
      calls.push_back(int64_t{member.call->color} << 32 ^ member.call->key);
  }
  return calls;
}

std::vector<SplitGroup> GroupsOf(const std::vector<std::vector<uint32_t>>& inferred) {
  std::vector<SplitGroup> groups;
  for (const std::vector<uint32_t>& members : inferred)
    groups.emplace_back().members = members;
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<bool>> InferredSplits::FindJoining(
    std::span<const SplitMember> members, const GroupHint* hint,
    const std::string& subject) {
  std::vector<bool> joins(members.size());
  std::map<int32_t, int32_t> taking_part;  // class -> a rank with its own call
  std::map<int32_t, int32_t> staying_out;
  std::map<int32_t, std::vector<int32_t>> followers;  // by class
  bool some_join = false;
  bool some_stay_out = false;
  for (size_t i = 0; i < members.size(); ++i) {
    const SplitMember& member = members[i];
    if (member.call == nullptr) {
      continue;
    }
    joins[i] = Joins(*member.call);
    (joins[i] ? some_join : some_stay_out) = true;
    const int32_t rank_class = layout_.ClassOf(member.world_rank);
    if (member.is_follower) {
      followers[rank_class].push_back(member.world_rank);
    } else {
      (joins[i] ? taking_part : staying_out).emplace(rank_class, member.world_rank);
    }
  }
  for (const auto& [rank_class, unsure] : followers) {
    const auto in = taking_part.find(rank_class);
    const auto out = staying_out.find(rank_class);
    if (in != taking_part.end() && out != staying_out.end()) {
      const std::string ranks =
          fmt::format("rank{} {}", unsure.size() == 1 ? "" : "s", FormatRanks(unsure));
      absl::Status status = absl::FailedPreconditionError(
          fmt::format("{}: of one class, rank {} passes a colour and rank {} passes "
                      "NCCL_SPLIT_NOCOLOR, so it is unknown what {} would do; {}; or, "
                      "where ranks make the groups of others, too (dist.new_group in "
                      "a loop), name each of them like --group world:0=tp",
                      subject, in->second, out->second, ranks,
                      AdviceToAdd(calling_.source(), ranks)));
      AttachDecidingRanks(unsure, &status);
      return status;
    }
  }
  std::set<int32_t> absent_outside;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].call != nullptr) {
      continue;
    }
    const int32_t rank_class = layout_.ClassOf(members[i].world_rank);
    if (hint != nullptr && !hint->classes.empty()) {
      joins[i] =
          std::binary_search(hint->classes.begin(), hint->classes.end(), rank_class);
    } else if (some_join && some_stay_out) {
      // Absent by the person's own word, so what it would pass is assumed, and said.
      joins[i] = false;
      absent_outside.insert(rank_class);
    } else {
      joins[i] = some_join;
    }
  }
  if (!absent_outside.empty()) {
    assumptions_.push_back(fmt::format(
        "{}: some stages take part and some do not; absent stages {} are taken to stay "
        "out (list those that take part in --group ...@STAGES)",
        subject, fmt::join(absent_outside, ",")));
  }
  return joins;
}

absl::StatusOr<SplitQuestion> InferredSplits::MakeQuestion(
    std::span<const SplitMember> members, const std::vector<bool>& joins,
    const std::string& subject) const {
  SplitQuestion question;
  std::vector<int32_t> ranks;
  for (const SplitMember& member : members) {
    ranks.push_back(member.world_rank);
  }
  question.views.emplace_back(&layout_, ranks, joins);
  const DimensionSet fixed = layout_.all() & ~question.views.front().varying();

  std::map<int32_t, size_t> view_of_origin;  // a sister, by its rank with coordinates 0
  std::map<int32_t, bool> seen;              // ranks whose call is taken in
  for (size_t i = 0; i < members.size(); ++i) {
    const SplitMember& member = members[i];
    if (member.call == nullptr || !joins[i]) {
      continue;
    }
    const int32_t caller =
        member.is_follower ? calling_.LeaderOf(member.world_rank) : member.world_rank;
    if (caller < 0) {
      return absl::InternalError(
          fmt::format("{}: rank {} follows nobody", subject, member.world_rank));
    }
    if (!seen.emplace(caller, true).second) {
      continue;
    }
    size_t view = 0;
    if (!question.views.front().Find(caller)) {
      // The leader is elsewhere: in the parent that has its fixed coordinates.
      const int32_t origin = layout_.Combine(0, fixed, caller);
      const auto [entry, is_new] =
          view_of_origin.emplace(origin, question.views.size());
      if (is_new) {
        std::vector<int32_t> sister = ranks;
        for (int32_t& rank : sister) {
          rank = layout_.Combine(rank, fixed, caller);
        }
        question.views.emplace_back(&layout_, std::move(sister), joins);
      }
      view = entry->second;
    }
    const auto place = question.views[view].Find(caller);
    if (!place) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: rank {} follows rank {}, which is in no such communicator; {}", subject,
          member.world_rank, caller,
          AdviceToAdd(calling_.source(), fmt::format("rank {}", member.world_rank))));
    }
    question.observations.push_back(
        {view, *place, member.call->color, member.call->key});
  }
  return question;
}

// No member here is told what comes of it, so the parent's order will do.
std::vector<InferredSplits::SplitGroup> InferredSplits::GroupsByHint(
    std::span<const SplitMember> members, const std::vector<bool>& joins,
    const GroupHint& hint) const {
  std::map<int32_t, SplitGroup> by_first;
  for (size_t i = 0; i < members.size(); ++i) {
    if (joins[i])
      by_first[layout_.Group(members[i].world_rank, hint.dimensions).front()]
          .members.push_back(static_cast<uint32_t>(i));
  }
  std::vector<SplitGroup> groups;
  for (auto& [first, group] : by_first)
    groups.push_back(std::move(group));
  return groups;
}

absl::StatusOr<std::vector<SplitGroup>> InferredSplits::Split(
    std::string_view parent_identity, uint32_t split_sequence,
    std::span<const SplitMember> members) {
  if (std::all_of(members.begin(), members.end(), HasOwnCall)) {
    return SplitByCalls(members);
  }
  std::vector<int32_t> ranks;
  for (const SplitMember& member : members) {
    ranks.push_back(member.world_rank);
  }
  const std::string subject =
      fmt::format("split {} of communicator '{}'", split_sequence, parent_identity);
  const GroupHint* hint = groups_.FindSplitHint(layout_.Varying(ranks), split_sequence);
  inferred_without_hint_ |= hint == nullptr;
  ASSIGN_OR_RETURN(const std::vector<bool> joins, FindJoining(members, hint, subject));
  if (std::find(joins.begin(), joins.end(), true) == joins.end()) {
    ++nobody_joined_;
    return std::vector<SplitGroup>();
  }
  std::vector<int64_t> calls = CallsOf(members, joins);
  calls.push_back(hint == nullptr ? -1 : static_cast<int64_t>(hint->dimensions));
  const auto known =
      std::find_if(answered_.begin(), answered_.end(),
                   [&](const Answered& answered) { return answered.calls == calls; });
  if (known != answered_.end())
    return GroupsOf(known->groups);
  ASSIGN_OR_RETURN(SplitQuestion question, MakeQuestion(members, joins, subject));
  if (question.observations.empty() && hint != nullptr)
    return GroupsByHint(members, joins, *hint);
  if (question.observations.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: no member has a call of its own or follows one that has; {}", subject,
        AdviceToAdd(calling_.source(),
                    fmt::format("one of ranks {}", FormatRanks(ranks)))));
  }
  question.number = split_sequence;
  question.source = calling_.source();
  if (hint != nullptr) {
    question.hint = *hint;
  }
  absl::StatusOr<std::vector<std::vector<uint32_t>>> answer = InferSplit(question);
  if (!answer.ok()) {
    absl::Status status = answer.status();
    NameRankToAdd(members, &status);
    return status;
  }
  answered_.push_front({std::move(calls), *std::move(answer)});
  if (answered_.size() > kMostAnswered)
    answered_.pop_back();
  return GroupsOf(answered_.front().groups);
}

}  // namespace vrank::graph
