#include "graph/import/collective_match.h"

#include <algorithm>
#include <limits>
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

// Ranks that use a group of which nothing says who belongs to it.
using GroupMark = std::pair<std::string, int64_t>;  // with its size

bool IsUnknown(const CollectiveUse& use) {
  return use.members.empty();
}

// The ranks whose uses of the group overlap in time, directly or by others between
// them.
std::vector<std::vector<int32_t>> AtTheSameTime(
    const std::vector<RankCollectives>& ranks, const GroupMark& group) {
  std::vector<std::pair<Span, int32_t>> windows;
  for (const RankCollectives& rank : ranks) {
    Span window{std::numeric_limits<int64_t>::max(),
                std::numeric_limits<int64_t>::min()};
    for (const CollectiveUse& use : rank.uses) {
      if (!IsUnknown(use) || GroupMark(use.group, use.group_size) != group)
        continue;
      const Span& time = rank.recording->works[use.work].time;
      window.begin_ns = std::min(window.begin_ns, time.begin_ns);
      window.end_ns = std::max(window.end_ns, time.end_ns);
    }
    if (window.begin_ns <= window.end_ns)
      windows.emplace_back(window, rank.rank);
  }
  std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) {
    return a.first.begin_ns < b.first.begin_ns;
  });
  std::vector<std::vector<int32_t>> parts;
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  for (const auto& [window, rank] : windows) {
    if (window.begin_ns > end_ns)
      parts.emplace_back();
    parts.back().push_back(rank);
    end_ns = std::max(end_ns, window.end_ns);
  }
  for (std::vector<int32_t>& part : parts)
    std::sort(part.begin(), part.end());
  return parts;
}

// Whether such parts may be all instances of one group.
bool AreGroups(const std::vector<std::vector<int32_t>>& parts, const GroupMark& group,
               size_t world_size) {
  size_t ranks = 0;
  for (const std::vector<int32_t>& part : parts) {
    ranks += part.size();
    if (part.size() != parts.front().size() ||
        (group.second > 0 && part.size() != static_cast<size_t>(group.second)))
      return false;
  }
  return ranks == world_size && (parts.size() == 1 || parts.front().size() > 1);
}

}  // namespace

void InferMembers(int32_t world_size, std::vector<RankCollectives>* ranks,
                  std::map<int32_t, ImportLosses>* losses) {
  std::set<GroupMark> marks;
  for (const RankCollectives& rank : *ranks)
    for (const CollectiveUse& use : rank.uses)
      if (IsUnknown(use))
        marks.emplace(use.group, use.group_size);
  std::map<std::pair<GroupMark, int32_t>, std::vector<int32_t>> members;  // by rank
  for (const GroupMark& mark : marks) {
    const auto parts = AtTheSameTime(*ranks, mark);
    if (!AreGroups(parts, mark, static_cast<size_t>(world_size)))
      continue;
    for (const std::vector<int32_t>& part : parts)
      for (const int32_t rank : part)
        members[{mark, rank}] = part;
  }
  for (RankCollectives& rank : *ranks) {
    std::vector<CollectiveUse> known;
    for (CollectiveUse& use : rank.uses) {
      if (IsUnknown(use)) {
        const auto found = members.find({{use.group, use.group_size}, rank.rank});
        const bool inferred = found != members.end();
        ++(*losses)[rank.rank][inferred ? ImportLoss::kInferredMembers
                                        : ImportLoss::kUnknownMembers];
        if (!inferred)
          continue;
        SetMembers(found->second, &use);
      }
      known.push_back(std::move(use));
    }
    rank.uses = std::move(known);
  }
}

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
