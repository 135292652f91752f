// Inits from unique ids: which group of the layout a communicator is, and which process
// each of its members lives in. The rules: membership_inference.h.

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/deciding_rank.h"
#include "graph/membership/membership_inference.h"

namespace vrank::graph {
namespace {

bool Contains(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Of what is kept by (who, number of the init): the latest of them.
template <typename Value>
void KeepLatest(uint32_t kept, int32_t who, uint32_t number,
                std::map<std::pair<int32_t, uint32_t>, Value>* known) {
  if (number >= kept)
    known->erase(known->lower_bound({who, 0}),
                 known->upper_bound({who, number - kept}));
}

}  // namespace

const GroupHint* MembershipInference::FindInitHint(int32_t caller,
                                                   uint32_t number) const {
  const int32_t rank_class = layout_.ClassOf(caller);
  for (const GroupHint& hint : hints_) {
    if (hint.is_init && hint.number == number &&
        (hint.classes.empty() ||
         std::binary_search(hint.classes.begin(), hint.classes.end(), rank_class)))
      return &hint;
  }
  return nullptr;
}

void MembershipInference::NoteInit(int32_t rank, uint32_t number,
                                   const Processes& processes, const Creation& call) {
  KeepLatest(kInitsWatched, layout_.ClassOf(rank), number, &inits_of_class_);
  std::vector<SeenInit>& seen = inits_of_class_[{layout_.ClassOf(rank), number}];
  if (std::none_of(seen.begin(), seen.end(),
                   [&](const SeenInit& init) { return init.rank == rank; }))
    seen.push_back({rank, processes.count, processes.place});
  if (!Contains(of_one_run_, rank))
    return;
  const auto [callers, is_new] = callers_.try_emplace(call.unique_id);
  if (!Contains(callers->second, rank))
    callers->second.push_back(rank);
  if (!is_new)
    return;
  called_.push_back(call.unique_id);
  if (called_.size() > kInitsWatched) {
    callers_.erase(called_.front());
    called_.pop_front();
  }
}

// Whether calls of ranks that have some tell `a` and `b` apart: by the place of one of
// the class, or by who passes the same id and who does not.
bool MembershipInference::WillBeTold(int32_t caller, DimensionSet a,
                                     DimensionSet b) const {
  for (const int32_t rank : own_calls_) {
    if (layout_.ClassOf(rank) == layout_.ClassOf(caller) &&
        layout_.PlaceInGroup(rank, a) != layout_.PlaceInGroup(rank, b))
      return true;
  }
  const std::vector<int32_t> by_a = layout_.Group(caller, a);
  const std::vector<int32_t> by_b = layout_.Group(caller, b);
  const auto has_own = [&](const std::vector<int32_t>& group,
                           const std::vector<int32_t>& other) {
    return std::any_of(group.begin(), group.end(), [&](int32_t rank) {
      return Contains(of_one_run_, rank) && !Contains(other, rank);
    });
  };
  return has_own(by_a, by_b) && has_own(by_b, by_a);
}

std::vector<int32_t> MembershipInference::RanksToDecide(
    int32_t caller, const std::vector<DimensionSet>& sets) const {
  const auto open_pairs = [&](int32_t leader, const std::vector<DimensionSet>& of) {
    std::vector<std::pair<DimensionSet, DimensionSet>> open;
    for (size_t a = 0; a < of.size(); ++a) {
      for (size_t b = a + 1; b < of.size(); ++b) {
        if (!WillBeTold(leader, of[a], of[b]))
          open.emplace_back(of[a], of[b]);
      }
    }
    return open;
  };
  const auto open = open_pairs(caller, sets);
  if (open.empty())
    return {};
  DimensionSet pipeline = 0;
  for (size_t i = 0; i < layout_.dimensions().size(); ++i)
    pipeline |= DimensionSet{layout_.dimensions()[i].name == "pp"} << i;
  // What calls of other classes, and the next ones, may leave open as well.
  std::vector<DimensionSet> alike;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if (layout_.GroupSize(set) == layout_.GroupSize(sets.front()))
      alike.push_back(set);
  }
  std::vector<std::vector<std::pair<DimensionSet, DimensionSet>>> all_open;
  for (const auto& [rank_class, leader] : leaders_)
    all_open.push_back(open_pairs(leader, alike));
  const auto told = [&](int32_t rank, const auto& pairs) {
    return std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return layout_.PlaceInGroup(rank, pair.first) !=
             layout_.PlaceInGroup(rank, pair.second);
    });
  };
  // One of the caller's class that has other places in most of them, and its
  // neighbours along the pipeline: whom they send to is real then, too.
  int32_t best = -1;
  std::pair<std::ptrdiff_t, std::ptrdiff_t> most = {0, 0};
  for (int32_t rank = 0; rank < layout_.world_size(); ++rank) {
    if (layout_.ClassOf(rank) != layout_.ClassOf(caller))
      continue;
    std::pair<std::ptrdiff_t, std::ptrdiff_t> score = {told(rank, open), 0};
    if (score.first == 0 || score.first < most.first)
      continue;
    size_t i = 0;
    for (const auto& [rank_class, leader] : leaders_)
      score.second += told(layout_.Combine(rank, pipeline, leader), all_open[i++]);
    if (score > most) {
      best = rank;
      most = score;
    }
  }
  std::vector<int32_t> missing;
  if (best >= 0) {
    for (const auto& [rank_class, leader] : leaders_)
      missing.push_back(layout_.Combine(best, pipeline, leader));
    return missing;
  }
  // All of the class have equal places: neighbours, who pass the id or do not.
  const auto [first, second] = open.front();
  for (const auto& [own, other] :
       {std::pair(first, second), std::pair(second, first)}) {
    std::vector<int32_t> group = layout_.Group(caller, own);
    const std::vector<int32_t> others = layout_.Group(caller, other);
    std::erase_if(group, [&](int32_t rank) { return Contains(others, rank); });
    missing.push_back(group.front());
  }
  return missing;
}

// Where the ranks that would tell have calls of their own, they are waited for.
absl::Status MembershipInference::Undecided(
    const std::string& subject, int32_t caller, uint32_t number,
    const std::vector<DimensionSet>& sets) const {
  std::vector<std::string> names;
  for (const DimensionSet set : sets)
    names.push_back(layout_.SetName(set));
  const std::string open = fmt::format("{}: it may be the group by {}", subject,
                                       fmt::join(names, " or by "));
  const std::vector<int32_t> deciding = RanksToDecide(caller, sets);
  if (deciding.empty())
    return absl::UnavailableError(open);
  GroupHint flag;
  flag.is_init = true;
  flag.number = number;
  flag.dimensions = sets.front();
  if (layout_.classes() > 1)
    flag.classes = {layout_.ClassOf(caller)};
  absl::Status status = absl::FailedPreconditionError(
      fmt::format("{}; say which with --group {}", open, flag.ToString(layout_)));
  AttachDecidingRanks(deciding, &status);
  return status;
}

std::vector<DimensionSet> MembershipInference::FittingGroups(int32_t caller,
                                                             const Processes& processes,
                                                             uint32_t number) const {
  const GroupHint* hint = FindInitHint(caller, number);
  std::vector<DimensionSet> fitting;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if (layout_.GroupSize(set) == processes.count &&
        (hint == nullptr || hint->dimensions == set) &&
        layout_.PlaceInGroup(caller, set) == processes.place)
      fitting.push_back(set);
  }
  return fitting;
}

absl::StatusOr<DimensionSet> MembershipInference::FindInitGroup(
    int32_t caller, const Processes& processes, const Creation& call, uint32_t number) {
  const auto decided = decided_.find({caller, number});
  if (decided != decided_.end())
    return decided->second;
  std::vector<DimensionSet> fitting = FittingGroups(caller, processes, number);
  const auto passed = callers_.find(call.unique_id);
  if (fitting.size() == 1 && (passed == callers_.end() || passed->second.size() == 1))
    return fitting.front();
  const std::string subject =
      fmt::format("communicator init {} of rank {} (size {}, index {})", number, caller,
                  call.ranks, call.rank);
  if (fitting.empty()) {
    const std::string advice = AdviceToAdd(source_, "all its members");
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} has no group of that size in which rank {} ({}) has that place; {}{}",
        subject, layout_.Claim(), caller, layout_.Describe(caller), layout_.Remedy(),
        source_ == CallSource::kSlice ? "" : ", or " + advice));
  }
  // Ranks of a class do the same, each at its place.
  const auto of_class = inits_of_class_.find({layout_.ClassOf(caller), number});
  if (of_class != inits_of_class_.end()) {
    std::vector<DimensionSet> told = fitting;
    std::erase_if(told, [&](DimensionSet set) {
      return std::any_of(of_class->second.begin(), of_class->second.end(),
                         [&](const SeenInit& init) {
                           return init.size == processes.count &&
                                  layout_.PlaceInGroup(init.rank, set) != init.place;
                         });
    });
    // Where they do not, each is told by itself.
    if (!told.empty())
      fitting = std::move(told);
  }
  // One id, one group: who passed this id is in it.
  if (passed != callers_.end()) {
    std::erase_if(fitting, [&](DimensionSet set) {
      const std::vector<int32_t> group = layout_.Group(caller, set);
      return !std::all_of(passed->second.begin(), passed->second.end(),
                          [&](int32_t rank) { return Contains(group, rank); });
    });
    if (fitting.empty())
      return absl::InvalidArgumentError(fmt::format(
          "{}: ranks {} pass its unique id, which are in no group of {} that "
          "has this size and place; {}",
          subject, FormatRanks(passed->second), layout_.Claim(), layout_.Remedy()));
  }
  if (fitting.size() > 1)
    return Undecided(subject, caller, number, fitting);
  // Other calls may not leave it open another time.
  KeepLatest(kInitsWatched, caller, number, &decided_);
  decided_[{caller, number}] = fitting.front();
  return fitting.front();
}

absl::StatusOr<MembershipInference::Processes> MembershipInference::ProcessesOf(
    int32_t caller, const Creation& call) const {
  const auto world = static_cast<uint32_t>(layout_.world_size());
  Processes processes;
  processes.members_each = call.local_members;
  // Threads of one process that join one by one do not say how many they are.
  if (call.ranks / call.local_members > world && call.ranks % world == 0) {
    processes.members_each = call.ranks / world;
  }
  processes.count = call.ranks / processes.members_each;
  processes.place = call.rank / processes.members_each;
  if (call.ranks % processes.members_each != 0 || processes.count > world) {
    return absl::InvalidArgumentError(fmt::format(
        "rank {} initialises a communicator of {} ranks, as index {} of them and with "
        "{} in its process, but the job has {} processes, which cannot have equally "
        "many each{}; do all ranks pass the same size to ncclCommInitRank?",
        caller, call.ranks, call.rank, call.local_members, world,
        DescribeOtherSizes(caller, call, {}, "the same unique id")));
  }
  return processes;
}

absl::StatusOr<MembershipInference::InitGroup> MembershipInference::FindGroup(
    int32_t rank, int32_t caller, const Processes& processes, uint32_t number,
    const Creation& call) {
  const std::string suffix =
      processes.members_each == 1 ? "" : fmt::format("x{}", processes.members_each);
  if (processes.count == 1 && processes.members_each > 1) {
    return InitGroup{fmt::format("process@{}{}", rank, suffix), 0, 0};
  }
  if (processes.count == static_cast<uint32_t>(layout_.world_size())) {
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
    return InitGroup{"world" + suffix, layout_.all(), static_cast<uint32_t>(rank)};
  }
  ASSIGN_OR_RETURN(const DimensionSet set,
                   FindInitGroup(caller, processes, call, number));
  return InitGroup{NameOf(set, rank) + suffix, set,
                   static_cast<uint32_t>(layout_.PlaceInGroup(rank, set))};
}

std::string MembershipInference::NameOf(DimensionSet dimensions, int32_t rank) const {
  if (dimensions == layout_.all())
    return "world";
  return fmt::format("{}@{}", layout_.SetName(dimensions),
                     layout_.Combine(rank, dimensions, 0));
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

absl::StatusOr<Membership::InitAnswer> MembershipInference::Init(
    const InitCaller& asking, const Creation& call) {
  const auto [rank, init_number, is_follower] = asking;
  if (call.ranks == 0 || call.rank >= call.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} initialises a communicator of {} ranks as index {}", rank,
                    call.ranks, call.rank));
  }
  // What a follower passes is its leader's; the leader's own place tells which group.
  const int32_t caller = is_follower ? LeaderOf(rank) : rank;
  if (caller < 0) {
    return absl::InternalError(fmt::format("rank {} follows nobody", rank));
  }
  ASSIGN_OR_RETURN(const Processes processes, ProcessesOf(caller, call));
  const uint32_t each = processes.members_each;
  const uint32_t number = init_number / each;
  if (!is_follower && !(all_of_one_run_ && each == 1))
    NoteInit(rank, number, processes, call);
  if (!is_follower && each == 1 && Contains(of_one_run_, rank)) {
    ASSIGN_OR_RETURN(std::optional<InitAnswer> by_id,
                     InitById(asking, processes, call));
    if (by_id.has_value())
      return *std::move(by_id);
  }
  ASSIGN_OR_RETURN(const InitGroup group,
                   FindGroup(rank, caller, processes, number, call));
  const bool hinted = FindInitHint(caller, number) != nullptr;
  inferred_without_hint_ |=
      group.dimensions != 0 && group.dimensions != layout_.all() && !hinted;

  InitAnswer answer;
  answer.members = MembersOf(group, rank, each);
  answer.index = group.place * each + call.rank % each;
  const uint32_t repeat = group_inits_[{rank, group.name}]++ / each;
  answer.identity = repeat == 0 ? group.name : fmt::format("{}#{}", group.name, repeat);
  if (!is_follower) {
    RETURN_IF_ERROR(CheckUniqueId(rank, call, answer.identity));
    const bool is_claim = group.dimensions != layout_.all() && processes.count > 1 &&
                          number < kInitsWatched && !hinted &&
                          source_ != CallSource::kTraced;
    if (is_claim) {
      const ClaimKey key{number, group.dimensions};
      NoteClaimed(key, {rank, processes.count, processes.place, answer.identity});
      RETURN_IF_ERROR(CheckClaim(key, RanksYetToCall(number)));
    }
  }
  return answer;
}

}  // namespace vrank::graph
