#include "graph/import/collective_match.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/import/part_alignment.h"

namespace vrank::graph {
namespace {

using GroupKey = std::pair<std::string, std::vector<int32_t>>;

// A member's uses of one group, in order.
struct MemberUses {
  const RankCommunication* rank = nullptr;
  std::vector<const CollectiveUse*> uses;
};

std::string Describe(const CollectiveCall& call) {
  return fmt::format("{} of {} {} elements", Name(call.operation), call.count,
                     Name(call.type));
}

// Whether every member needs something of every other one. Not all-to-alls: parts may
// be empty.
bool NeedsAll(CollectiveKind operation) {
  return operation == CollectiveKind::kAllReduce ||
         operation == CollectiveKind::kAllGather ||
         operation == CollectiveKind::kReduceScatter;
}

// Parts of an all-to-all differ in size.
RecordedPart PartOf(const RankCommunication& rank, const CollectiveUse& use) {
  const CollectiveCall& call = use.call;
  RecordedPart part;
  part.time = rank.recording->works[use.work].time;
  part.sequence = use.sequence;
  part.step = use.step;
  part.operation = static_cast<uint32_t>(call.operation);
  part.type = static_cast<uint32_t>(call.type);
  part.count = call.operation == CollectiveKind::kAllToAll ? 0 : call.count;
  part.meeting = NeedsAll(call.operation) ? Meeting::kMutual : Meeting::kNone;
  return part;
}

std::vector<RecordedPart> PartsOf(const MemberUses& member) {
  std::vector<RecordedPart> parts;
  for (const CollectiveUse* use : member.uses)
    parts.push_back(PartOf(*member.rank, *use));
  return parts;
}

// Collectives recorded on every member: the position of each member's part, in an order
// consistent with that of every member. A collective that would violate it is omitted.
std::vector<std::vector<size_t>> Pair(const std::vector<MemberUses>& members) {
  const std::vector<RecordedPart> first = PartsOf(members.front());
  std::vector<std::vector<size_t>> partners;
  for (const MemberUses& other : members)
    partners.push_back(AlignParts(first, PartsOf(other)));
  std::vector<std::vector<size_t>> pairs;
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<size_t> places;
    for (const std::vector<size_t>& partner : partners)
      places.push_back(partner[i]);
    bool usable = true;
    for (size_t member = 0; member < places.size(); ++member)
      usable = usable && places[member] != kNoPart &&
               (pairs.empty() || places[member] > pairs.back()[member]);
    if (usable)
      pairs.push_back(std::move(places));
  }
  return pairs;
}

// Why no collective of a group has a part on all members.
absl::Status NothingPaired(const std::vector<MemberUses>& members,
                           const std::vector<int32_t>& ranks,
                           const std::string& group) {
  const MemberUses& first = members.front();
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format(
        "group {}: {}; give recordings of the same steps of one run", group, what));
  };
  for (const int32_t rank : ranks)
    if (std::none_of(members.begin(), members.end(),
                     [&](const MemberUses& one) { return one.rank->rank == rank; }))
      return error(fmt::format("{} collectives on {} and none on rank {}",
                               first.uses.size(), first.rank->Subject(), rank));
  for (const MemberUses& other : members)
    if (other.uses.size() != first.uses.size())
      return error(
          fmt::format("{} collectives on {} and {} on {}, which are not the same",
                      first.uses.size(), first.rank->Subject(), other.uses.size(),
                      other.rank->Subject()));
  for (const MemberUses& other : members)
    for (size_t at = 0; at < first.uses.size(); ++at) {
      const CollectiveUse &ours = *first.uses[at], &theirs = *other.uses[at];
      if (!PartOf(*first.rank, ours).SameCall(PartOf(*other.rank, theirs)))
        return error(fmt::format("collective {} is {} on {} and {} on {}", at,
                                 Describe(ours.call), first.rank->Subject(),
                                 Describe(theirs.call), other.rank->Subject()));
    }
  return error(
      fmt::format("{} collectives on each member, and none of them is of one step or "
                  "sequence number on all",
                  first.uses.size()));
}

void CompareClocks(const std::vector<MemberUses>& members,
                   const std::vector<size_t>& places, ClockDifferences* clocks) {
  std::vector<ClockDifferences::Member> parts;
  for (size_t i = 0; i < members.size(); ++i)
    parts.push_back(
        {members[i].rank->rank,
         members[i].rank->recording->works[members[i].uses[places[i]]->work].time});
  clocks->Add(parts);
}

// As all members state it: with the largest part, and the shortest time.
CollectiveCall Joined(const std::vector<MemberUses>& members,
                      const std::vector<size_t>& places) {
  CollectiveCall call = members.front().uses[places.front()]->call;
  int64_t shortest = -1;
  for (size_t i = 0; i < members.size(); ++i) {
    const MemberUses& member = members[i];
    const CollectiveUse& use = *member.uses[places[i]];
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
    const std::vector<RankCommunication>& ranks, const GroupMark& group) {
  std::vector<std::pair<Span, int32_t>> windows;
  for (const RankCommunication& rank : ranks) {
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

void InferMembers(int32_t world_size, std::vector<RankCommunication>* ranks,
                  std::map<int32_t, ImportLosses>* losses) {
  std::set<GroupMark> marks;
  for (const RankCommunication& rank : *ranks)
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
  for (RankCommunication& rank : *ranks) {
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

void MatchCollectives(const std::vector<RankCommunication>& ranks,
                      std::map<int32_t, ImportLosses>* losses,
                      CommunicationMatch* match) {
  std::set<int32_t> imported;
  std::map<GroupKey, std::vector<MemberUses>> by_group;
  for (const RankCommunication& rank : ranks) {
    imported.insert(rank.rank);
    for (const CollectiveUse& use : rank.uses) {
      std::vector<MemberUses>& members = by_group[{use.group, use.members}];
      if (members.empty() || members.back().rank != &rank)
        members.push_back({&rank, {}});
      members.back().uses.push_back(&use);
    }
  }
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
    std::vector<std::vector<size_t>> pairs;
    if (members.size() == group.size())
      pairs = Pair(members);
    for (const MemberUses& member : members)
      if (const uint64_t left = member.uses.size() - pairs.size(); left != 0)
        (*losses)[member.rank->rank][ImportLoss::kUnpaired] += left;
    if (pairs.empty()) {
      const absl::Status why = NothingPaired(
          members, group, fmt::format("'{}' (ranks {})", name, fmt::join(group, ",")));
      for (const MemberUses& member : members)
        match->unpaired.try_emplace(member.rank->rank, why);
      continue;
    }
    const auto place = static_cast<uint32_t>(match->groups.size());
    match->groups.push_back({name, group, false});
    for (const std::vector<size_t>& places : pairs) {
      const CollectiveCall call = Joined(members, places);
      if (NeedsAll(call.operation))
        CompareClocks(members, places, &match->clocks);
      for (size_t i = 0; i < members.size(); ++i) {
        const MemberUses& member = members[i];
        const CollectiveUse& use = *member.uses[places[i]];
        if (use.call.count != call.count)
          ++(*losses)[member.rank->rank][ImportLoss::kUnevenAllToAll];
        match->collectives[member.rank->rank][use.work] = {place, call};
      }
    }
  }
}

}  // namespace vrank::graph
