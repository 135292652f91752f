// See membership_inference.h.

#include "graph/membership/membership_inference.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::graph {
namespace {

std::string SuffixOf(const InitProcesses& processes) {
  return processes.members_each == 1 ? "" : fmt::format("x{}", processes.members_each);
}

}  // namespace

MembershipInference::MembershipInference(Layout layout,
                                         const std::vector<int32_t>& own_calls,
                                         std::vector<GroupHint> hints,
                                         CallSource source)
    : layout_(std::move(layout)),
      calling_(layout_, own_calls, source),
      groups_(layout_, std::move(hints)),
      seen_(layout_, calling_),
      choice_(layout_, groups_, calling_, seen_),
      by_id_(layout_, groups_, calling_, choice_, repeats_),
      pairs_(layout_, calling_, repeats_),
      id_check_(layout_, calling_),
      claims_(layout_, calling_),
      splits_(layout_, groups_, calling_) {}

absl::StatusOr<Membership::InitAnswer> MembershipInference::Init(
    const InitCaller& asking, const Creation& call) {
  const auto [rank, init_number, is_follower] = asking;
  if (call.ranks == 0 || call.rank >= call.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} initialises a communicator of {} ranks as index {}", rank,
                    call.ranks, call.rank));
  }
  // What a follower passes is its leader's; the leader's own place tells which group.
  const int32_t caller = is_follower ? calling_.LeaderOf(rank) : rank;
  if (caller < 0) {
    return absl::InternalError(fmt::format("rank {} follows nobody", rank));
  }
  // Two ranks are a pair in every run: it has one name in runs and graphs.
  if (!calling_.whole_job_calls_in_this_run() || layout_.world_size() == 2) {
    ASSIGN_OR_RETURN(std::optional<InitAnswer> pair, pairs_.Init(rank, caller, call));
    if (pair.has_value())
      return *std::move(pair);
  }
  ASSIGN_OR_RETURN(const InitProcesses processes, by_id_.ProcessesOf(caller, call));
  const uint32_t each = processes.members_each;
  const uint32_t number = init_number / each;
  if (!is_follower && !(calling_.whole_job_calls_in_this_run() && each == 1))
    seen_.Note(rank, number, processes, call.unique_id);
  if (!is_follower && each == 1 && calling_.CallsInThisRun(rank)) {
    ASSIGN_OR_RETURN(std::optional<InitAnswer> by_id,
                     by_id_.Init(asking, processes, call));
    if (by_id.has_value())
      return *std::move(by_id);
  }
  ASSIGN_OR_RETURN(const InitGroup group,
                   FindGroup(rank, caller, processes, number, call));
  inferred_init_ |= group.dimensions != 0 && group.dimensions != layout_.all() &&
                    groups_.FindInitHint(caller, number) == nullptr;

  InitAnswer answer;
  answer.members = MembersOf(group, rank, each);
  answer.index = group.place * each + call.rank % each;
  answer.identity = RepeatedName(group.name, repeats_.Next(rank, group.name) / each);
  if (!is_follower)
    RETURN_IF_ERROR(
        CheckAgainstOthers(rank, processes, number, call, group, answer.identity));
  return answer;
}

// Of a rank with calls of its own: what others passed, or will, may contradict it.
absl::Status MembershipInference::CheckAgainstOthers(
    int32_t rank, const InitProcesses& processes, uint32_t number, const Creation& call,
    const InitGroup& group, const std::string& identity) {
  RETURN_IF_ERROR(id_check_.Check(rank, call, identity));
  const bool is_claim = group.dimensions != layout_.all() && processes.count > 1 &&
                        number < kInitsWatched &&
                        groups_.FindInitHint(rank, number) == nullptr &&
                        calling_.source() != CallSource::kTraced;
  if (!is_claim)
    return absl::OkStatus();
  const LayoutClaims::Key key{number, group.dimensions};
  claims_.Note(key, {rank, processes.count, processes.place, identity});
  return claims_.Check(key, seen_.RanksYetToCall(number));
}

absl::StatusOr<MembershipInference::InitGroup> MembershipInference::FindGroup(
    int32_t rank, int32_t caller, const InitProcesses& processes, uint32_t number,
    const Creation& call) {
  const std::string suffix = SuffixOf(processes);
  if (processes.count == 1 && processes.members_each > 1) {
    return InitGroup{fmt::format("process@{}{}", rank, suffix), 0, 0};
  }
  if (processes.count == static_cast<uint32_t>(layout_.world_size()))
    return FindWorld(rank, caller, processes, call);
  ASSIGN_OR_RETURN(const DimensionSet set,
                   choice_.Choose(caller, processes, call, number));
  return InitGroup{groups_.NameOf(set, rank) + suffix, set,
                   static_cast<uint32_t>(layout_.PlaceInGroup(rank, set))};
}

absl::StatusOr<MembershipInference::InitGroup> MembershipInference::FindWorld(
    int32_t rank, int32_t caller, const InitProcesses& processes,
    const Creation& call) const {
  const uint32_t place = static_cast<uint32_t>(caller);
  if (processes.place != place && processes.members_each > 1)
    return absl::UnimplementedError(fmt::format(
        "rank {} joins a communicator of {} ranks with index {}; the {} members of a "
        "process must be neighbours there, those of this one {} to {}",
        caller, call.ranks, call.rank, processes.members_each,
        place * processes.members_each, (place + 1) * processes.members_each - 1));
  if (processes.place != place) {
    return absl::UnimplementedError(fmt::format(
        "rank {} joins the communicator of all {} ranks as index {}; with ranks that "
        "are played the index must be the rank, since the places of the others would "
        "be unknown",
        caller, processes.count, processes.place));
  }
  return InitGroup{"world" + SuffixOf(processes), layout_.all(),
                   static_cast<uint32_t>(rank)};
}

// One list for all members: a list each would be quadratic in the size.
std::shared_ptr<const std::vector<int32_t>> MembershipInference::MembersOf(
    const InitGroup& group, int32_t rank, uint32_t members_each) {
  std::shared_ptr<const std::vector<int32_t>>& known = members_of_[group.name];
  if (known == nullptr) {
    std::vector<int32_t> members;
    for (const int32_t member : layout_.Group(rank, group.dimensions)) {
      members.insert(members.end(), members_each, member);
    }
    known = std::make_shared<const std::vector<int32_t>>(std::move(members));
  }
  return known;
}

}  // namespace vrank::graph
