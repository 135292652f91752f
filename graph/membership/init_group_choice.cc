// See init_group_choice.h.

#include "graph/membership/init_group_choice.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::graph {
namespace {

bool Contains(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

absl::StatusOr<DimensionSet> InitGroupChoice::Choose(int32_t caller,
                                                     const InitProcesses& processes,
                                                     const Creation& call,
                                                     uint32_t number) {
  const auto decided = decided_.find({caller, number});
  if (decided != decided_.end())
    return decided->second;
  std::vector<DimensionSet> fitting = groups_.Fitting(caller, processes, number);
  const std::vector<int32_t>* const passed = seen_.CallersWith(call.unique_id);
  if (fitting.size() == 1 && (passed == nullptr || passed->size() == 1))
    return fitting.front();
  const std::string subject =
      fmt::format("communicator init {} of rank {} (size {}, index {})", number, caller,
                  call.ranks, call.rank);
  if (fitting.empty()) {
    const std::string advice = AdviceToAdd(calling_.source(), "all its members");
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} has no group of that size in which rank {} ({}) has that place; {}{}",
        subject, layout_.Claim(), caller, layout_.Describe(caller), layout_.Remedy(),
        calling_.source() == CallSource::kSlice ? "" : ", or " + advice));
  }
  KeepThoseOfClass(caller, processes, number, &fitting);
  // One id, one group: a rank that passed this id is in it.
  if (passed != nullptr) {
    KeepThoseWith(*passed, caller, &fitting);
    if (fitting.empty())
      return absl::InvalidArgumentError(fmt::format(
          "{}: ranks {} pass its unique id, which are in no group of {} that "
          "has this size and place; {}",
          subject, FormatRanks(*passed), layout_.Claim(), layout_.Remedy()));
  }
  if (fitting.size() > 1)
    return Undecided(subject, caller, number, fitting);
  // Other calls may not leave it open another time.
  KeepLatestInits(caller, number, &decided_);
  decided_[{caller, number}] = fitting.front();
  return fitting.front();
}

// Ranks of a class do the same, each at its place.
void InitGroupChoice::KeepThoseOfClass(int32_t caller, const InitProcesses& processes,
                                       uint32_t number,
                                       std::vector<DimensionSet>* fitting) const {
  const std::vector<SeenInits::Init>* const of_class = seen_.OfClass(caller, number);
  if (of_class == nullptr)
    return;
  std::vector<DimensionSet> told = *fitting;
  std::erase_if(told, [&](DimensionSet set) {
    return std::any_of(of_class->begin(), of_class->end(),
                       [&](const SeenInits::Init& init) {
                         return init.size == processes.count &&
                                layout_.PlaceInGroup(init.rank, set) != init.place;
                       });
  });
  // Where they do not, each is decided by itself.
  if (!told.empty())
    *fitting = std::move(told);
}

void InitGroupChoice::KeepThoseWith(const std::vector<int32_t>& callers, int32_t caller,
                                    std::vector<DimensionSet>* fitting) const {
  std::erase_if(*fitting, [&](DimensionSet set) {
    const std::vector<int32_t> group = layout_.Group(caller, set);
    return !std::all_of(callers.begin(), callers.end(),
                        [&](int32_t rank) { return Contains(group, rank); });
  });
}

// Whether calls of ranks that have some tell `a` and `b` apart: by the place of one of
// the class, or by which ranks pass the same id.
bool InitGroupChoice::WillBeTold(int32_t caller, DimensionSet a, DimensionSet b) const {
  for (const int32_t rank : calling_.own_calls()) {
    if (layout_.ClassOf(rank) == layout_.ClassOf(caller) &&
        layout_.PlaceInGroup(rank, a) != layout_.PlaceInGroup(rank, b))
      return true;
  }
  const std::vector<int32_t> by_a = layout_.Group(caller, a);
  const std::vector<int32_t> by_b = layout_.Group(caller, b);
  const auto has_own = [&](const std::vector<int32_t>& group,
                           const std::vector<int32_t>& other) {
    return std::any_of(group.begin(), group.end(), [&](int32_t rank) {
      return calling_.CallsInThisRun(rank) && !Contains(other, rank);
    });
  };
  return has_own(by_a, by_b) && has_own(by_b, by_a);
}

InitGroupChoice::Pairs InitGroupChoice::OpenPairs(
    int32_t caller, const std::vector<DimensionSet>& sets) const {
  Pairs open;
  for (size_t a = 0; a < sets.size(); ++a) {
    for (size_t b = a + 1; b < sets.size(); ++b) {
      if (!WillBeTold(caller, sets[a], sets[b]))
        open.emplace_back(sets[a], sets[b]);
    }
  }
  return open;
}

std::vector<int32_t> InitGroupChoice::RanksToDecide(
    int32_t caller, const std::vector<DimensionSet>& sets) const {
  const Pairs open = OpenPairs(caller, sets);
  if (open.empty())
    return {};
  DimensionSet pipeline = 0;
  for (size_t i = 0; i < layout_.dimensions().size(); ++i)
    pipeline |= DimensionSet{layout_.dimensions()[i].name == "pp"} << i;
  const int32_t best = RankThatTellsMost(caller, open, sets.front(), pipeline);
  std::vector<int32_t> missing;
  if (best >= 0) {
    for (const auto& [rank_class, leader] : calling_.leaders())
      missing.push_back(layout_.Combine(best, pipeline, leader));
    return missing;
  }
  // All of the class have equal places: neighbours, which pass the id or do not.
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

// One of the caller's class that has other places in most of them, and its neighbours
// along the pipeline: the ranks that they send to are real then, too. -1: none has.
// `alike`: a set of the size in question.
int32_t InitGroupChoice::RankThatTellsMost(int32_t caller, const Pairs& open,
                                           DimensionSet alike,
                                           DimensionSet pipeline) const {
  // What calls of other classes, and the next ones, may leave open as well.
  std::vector<DimensionSet> same_size;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if (layout_.GroupSize(set) == layout_.GroupSize(alike))
      same_size.push_back(set);
  }
  std::vector<Pairs> all_open;
  for (const auto& [rank_class, leader] : calling_.leaders())
    all_open.push_back(OpenPairs(leader, same_size));
  const auto told = [&](int32_t rank, const Pairs& pairs) {
    return std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return layout_.PlaceInGroup(rank, pair.first) !=
             layout_.PlaceInGroup(rank, pair.second);
    });
  };
  int32_t best = -1;
  std::pair<std::ptrdiff_t, std::ptrdiff_t> most = {0, 0};
  for (int32_t rank = 0; rank < layout_.world_size(); ++rank) {
    if (layout_.ClassOf(rank) != layout_.ClassOf(caller))
      continue;
    std::pair<std::ptrdiff_t, std::ptrdiff_t> score = {told(rank, open), 0};
    if (score.first == 0 || score.first < most.first)
      continue;
    size_t i = 0;
    for (const auto& [rank_class, leader] : calling_.leaders())
      score.second += told(layout_.Combine(rank, pipeline, leader), all_open[i++]);
    if (score > most) {
      best = rank;
      most = score;
    }
  }
  return best;
}

// Where the ranks that would tell have calls of their own, they are waited for.
absl::Status InitGroupChoice::Undecided(const std::string& subject, int32_t caller,
                                        uint32_t number,
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

}  // namespace vrank::graph
