#include "graph/build/layout_inference.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/build/slice_agreement.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::graph {
namespace {

struct Candidate {
  Layout layout;
  TrialResult result;
};

bool HasEveryClass(const Layout& layout, const std::vector<TracedProgram>& traced) {
  return static_cast<int32_t>(LeadersByClass(layout, traced).size()) ==
         layout.classes();
}

// Ranks of one class do the same, so a layout that puts ranks into one class which
// communicate differently is not the job's.
bool ClassesAreAlike(const Layout& layout, const std::vector<TracedProgram>& traced) {
  std::map<int32_t, const Program*> first;
  for (const TracedProgram& t : traced) {
    const auto [other, is_new] = first.emplace(layout.ClassOf(t.rank), t.program);
    if (!is_new && !CommunicationDifference(*other->second, *t.program).empty())
      return false;
  }
  return true;
}

// The communicators that a rank is in, by its own numbers.
std::vector<std::vector<int32_t>> CommunicatorsOf(const TrialResult& result,
                                                  int32_t rank) {
  std::vector<std::vector<int32_t>> all;
  auto at = result.by_number.lower_bound({rank, 0});
  for (; at != result.by_number.end() && at->first.first == rank; ++at)
    all.push_back(result.communicators[at->second].members);
  return all;
}

// The first rank that is in different communicators under the two, one that was not
// traced if there is one; -1 where there is none. (Whom a rank follows makes no
// difference then: with fewer classes the traced ranks of each are alike.)
int32_t FirstDifferent(const Candidate& a, const Candidate& b,
                       const std::vector<TracedProgram>& traced) {
  int32_t traced_one = -1;
  for (int32_t rank = 0; rank < a.layout.world_size(); ++rank) {
    if (CommunicatorsOf(a.result, rank) == CommunicatorsOf(b.result, rank))
      continue;
    const bool is_traced =
        std::any_of(traced.begin(), traced.end(),
                    [rank](const TracedProgram& t) { return t.rank == rank; });
    if (!is_traced)
      return rank;
    traced_one = traced_one < 0 ? rank : traced_one;
  }
  return traced_one;
}

absl::Status Undecided(const Candidate& a, const Candidate& b, int32_t rank) {
  absl::Status status = absl::FailedPreconditionError(
      fmt::format("the layouts {} and {} both explain all slices; trace rank {}, too, "
                  "which they give different parts, or state --layout",
                  a.layout.ToString(), b.layout.ToString(), rank));
  AttachDecidingRank(rank, &status);
  return status;
}

}  // namespace

std::vector<Layout> LayoutsOf(int32_t world_size, size_t dimensions) {
  // The fastest first. Megatron numbers tp-cp-dp-pp; DeepSpeed tp-pp-dp.
  static const std::vector<std::vector<std::vector<std::string>>> kOrders = {
      {{"dp"}, {"pp"}},
      {{"tp", "dp"}, {"dp", "pp"}, {"tp", "pp"}, {"pp", "dp"}},
      {{"tp", "dp", "pp"}, {"tp", "pp", "dp"}, {"tp", "cp", "dp"}},
      {{"tp", "cp", "dp", "pp"}, {"tp", "cp", "pp", "dp"}}};
  const std::vector<std::vector<int32_t>> sizes =
      Factorizations(world_size, dimensions);
  std::vector<Layout> layouts;
  for (const std::vector<std::string>& order : kOrders[dimensions - 1]) {
    for (const std::vector<int32_t>& of_order : sizes) {
      std::string text, names;
      for (size_t i = 0; i < order.size(); ++i) {
        text += fmt::format("{}={},", order[i], of_order[i]);
        names += (i == 0 ? "" : "-") + order[i];
      }
      absl::StatusOr<Layout> layout =
          Layout::Parse(text + "order=" + names, world_size);
      if (layout.ok())
        layouts.push_back(*std::move(layout));
    }
  }
  return layouts;
}

absl::StatusOr<Layout> InferLayout(int32_t world_size,
                                   const std::vector<std::string>& hint_texts,
                                   const std::vector<TracedProgram>& traced,
                                   const ToldByRank& told) {
  if (world_size == 1)
    return Layout::Flat(1);
  std::vector<std::unique_ptr<Program>> creations;
  std::vector<TracedProgram> reduced = traced;
  for (TracedProgram& t : reduced) {
    creations.push_back(CreationsOf(*t.program));
    t.program = creations.back().get();
  }
  std::vector<Candidate> fitting;  // that mean different jobs, the simplest of each
  absl::Status first_error;
  for (size_t dimensions = 1; dimensions <= kMostDimensions; ++dimensions) {
    // Four dimensions are tried only where three explain nothing.
    if (dimensions == kMostDimensions && !fitting.empty())
      break;
    for (Layout& layout : LayoutsOf(world_size, dimensions)) {
      if (!HasEveryClass(layout, traced) || !ClassesAreAlike(layout, traced))
        continue;
      std::vector<GroupHint> hints;
      for (const std::string& text : hint_texts)
        if (absl::StatusOr<GroupHint> hint = ParseGroupHint(text, layout); hint.ok())
          hints.push_back(*std::move(hint));
      absl::StatusOr<TrialResult> result = PlayTrial(layout, hints, reduced, told);
      if (!result.ok()) {
        // One that only lacks a rank's calls tells more than one that is contradicted.
        if (first_error.ok() ||
            (!DecidingRankOf(first_error) && DecidingRankOf(result.status())))
          first_error = result.status();
        continue;
      }
      Candidate candidate{std::move(layout), *std::move(result)};
      const auto same =
          std::find_if(fitting.begin(), fitting.end(), [&](const Candidate& other) {
            return FirstDifferent(other, candidate, traced) < 0;
          });
      if (same == fitting.end())
        fitting.push_back(std::move(candidate));
      else if (candidate.layout.classes() < same->layout.classes())
        *same = std::move(candidate);
    }
  }
  if (fitting.empty() && DecidingRankOf(first_error)) {
    absl::Status status = absl::FailedPreconditionError(
        fmt::format("the slices do not tell the layout: {}; or state --layout",
                    std::string(first_error.message())));
    AttachDecidingRank(*DecidingRankOf(first_error), &status);
    return status;
  }
  if (fitting.empty())
    return absl::FailedPreconditionError(fmt::format(
        "no layout of tp, cp, dp and pp explains the communicators of the slices; "
        "state --layout (under the first one tried: {})",
        first_error.ok() ? "a class has no slice"
                         : std::string(first_error.message())));
  if (fitting.size() > 1)
    return Undecided(fitting[0], fitting[1],
                     FirstDifferent(fitting[0], fitting[1], traced));
  return std::move(fitting.front().layout);
}

}  // namespace vrank::graph
