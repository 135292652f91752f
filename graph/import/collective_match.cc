#include "graph/import/collective_match.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {
namespace {

using GroupKey = std::pair<std::string, std::vector<int32_t>>;

// A member's uses of one group, in order.
struct MemberUses {
  const RankCollectives* rank = nullptr;
  std::vector<const CollectiveUse*> uses;
};

std::string Describe(const CollectiveCall& call) {
  return fmt::format("{} of {} {} elements", Name(call.operation), call.count,
                     Name(call.type));
}

std::string Subject(const RankCollectives& rank) {
  return fmt::format("rank {} ('{}')", rank.rank, rank.recording->file);
}

absl::Status CheckCounts(const std::vector<MemberUses>& members,
                         const std::string& group) {
  const MemberUses& first = members.front();
  for (const MemberUses& other : members)
    if (other.uses.size() != first.uses.size())
      return absl::InvalidArgumentError(fmt::format(
          "group {}: {} collectives on {} and {} on {}; give recordings of the same "
          "steps of one run",
          group, first.uses.size(), Subject(*first.rank), other.uses.size(),
          Subject(*other.rank)));
  return absl::OkStatus();
}

absl::Status CheckCalls(const std::vector<MemberUses>& members, size_t at,
                        const std::string& group) {
  const MemberUses& first = members.front();
  const CollectiveCall& call = first.uses[at]->call;
  for (const MemberUses& other : members) {
    const CollectiveCall& theirs = other.uses[at]->call;
    const bool uneven = call.operation == CollectiveKind::kAllToAll;
    if (theirs.operation == call.operation && theirs.type == call.type &&
        (uneven || theirs.count == call.count))
      continue;
    return absl::InvalidArgumentError(fmt::format(
        "group {}: collective {} is {} on {} and {} on {}; give recordings of the same "
        "steps of one run",
        group, at, Describe(call), Subject(*first.rank), Describe(theirs),
        Subject(*other.rank)));
  }
  return absl::OkStatus();
}

// Whether everybody needs something of everybody. Not all-to-alls: parts may be empty.
bool NeedsAll(CollectiveKind operation) {
  return operation == CollectiveKind::kAllReduce ||
         operation == CollectiveKind::kAllGather ||
         operation == CollectiveKind::kReduceScatter;
}

void CompareClocks(const std::vector<MemberUses>& members, size_t at,
                   ClockDifferences* clocks) {
  std::vector<ClockDifferences::Member> parts;
  for (const MemberUses& member : members)
    parts.push_back(
        {member.rank->rank, member.rank->recording->works[member.uses[at]->work].time});
  clocks->Add(parts);
}

// As all members state it: with the largest part, and the shortest time.
CollectiveCall Joined(const std::vector<MemberUses>& members, size_t at) {
  CollectiveCall call = members.front().uses[at]->call;
  int64_t shortest = -1;
  for (const MemberUses& member : members) {
    const CollectiveUse& use = *member.uses[at];
    call.count = std::max(call.count, use.call.count);
    const WorkStart& start = member.rank->dependencies->works[use.work];
    const int64_t length = start.end_ns - start.begin_ns;
    shortest = shortest < 0 ? length : std::min(shortest, length);
  }
  call.recorded_ns = static_cast<uint64_t>(std::max<int64_t>(1, shortest));
  return call;
}

}  // namespace

absl::StatusOr<CollectiveMatch> MatchCollectives(
    const std::vector<RankCollectives>& ranks,
    std::map<int32_t, ImportLosses>* losses) {
  std::set<int32_t> imported;
  std::map<GroupKey, std::vector<MemberUses>> by_group;
  for (const RankCollectives& rank : ranks) {
    imported.insert(rank.rank);
    for (const CollectiveUse& use : rank.uses) {
      std::vector<MemberUses>& members = by_group[{use.group, use.members}];
      if (members.empty() || members.back().rank != &rank)
        members.push_back({&rank, {}});
      members.back().uses.push_back(&use);
    }
  }
  CollectiveMatch match;
  for (auto& [key, members] : by_group) {
    const auto& [name, group] = key;
    const bool whole = std::all_of(group.begin(), group.end(), [&](int32_t rank) {
      return imported.count(rank) != 0;
    });
    if (!whole || group.size() == 1) {
      for (const MemberUses& member : members)
        if (!whole)
          (*losses)[member.rank->rank][ImportLoss::kAbsentMembers] +=
              member.uses.size();
      continue;
    }
    const std::string subject =
        fmt::format("'{}' (ranks {})", name, fmt::join(group, ","));
    for (const int32_t rank : group)
      if (std::none_of(members.begin(), members.end(), [rank](const MemberUses& one) {
            return one.rank->rank == rank;
          }))
        return absl::InvalidArgumentError(fmt::format(
            "group {}: {} collectives on {} and none on rank {}; give recordings of "
            "the same steps of one run",
            subject, members.front().uses.size(), Subject(*members.front().rank),
            rank));
    if (absl::Status counts = CheckCounts(members, subject); !counts.ok())
      return counts;
    const auto place = static_cast<uint32_t>(match.groups.size());
    match.groups.push_back({name, group});
    for (size_t at = 0; at < members.front().uses.size(); ++at) {
      if (absl::Status calls = CheckCalls(members, at, subject); !calls.ok())
        return calls;
      const CollectiveCall call = Joined(members, at);
      if (NeedsAll(call.operation))
        CompareClocks(members, at, &match.clocks);
      for (const MemberUses& member : members) {
        const CollectiveUse& use = *member.uses[at];
        if (use.call.count != call.count)
          ++(*losses)[member.rank->rank][ImportLoss::kUnevenAllToAll];
        match.collectives[member.rank->rank][use.work] = {place, call};
      }
    }
  }
  return match;
}

}  // namespace vrank::graph
