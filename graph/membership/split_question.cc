// What known calls say about groups and formulas.

#include "graph/membership/split_question.h"

#include <algorithm>

#include <fmt/format.h>

namespace vrank::graph {

std::string AdviceToAdd(CallSource source, const std::string& which) {
  switch (source) {
    case CallSource::kReal:
      return fmt::format("add {} to --real", which);
    case CallSource::kTraced:
      return fmt::format("trace {}, too", which);
    case CallSource::kSlice:
      break;
  }
  return "correct --layout";
}

std::optional<std::pair<SplitObservation, SplitObservation>> FindContradiction(
    const std::vector<ParentView>& views,
    const std::vector<SplitObservation>& observations, DimensionSet dimensions) {
  // Members share a group if they differ in its dimensions alone.
  const auto origin = [&](const SplitObservation& seen) {
    const ParentView& view = views[seen.view];
    return view.layout().Combine(view.ranks()[seen.member], dimensions, 0);
  };
  for (size_t a = 0; a < observations.size(); ++a) {
    for (size_t b = a + 1; b < observations.size(); ++b) {
      const SplitObservation& one = observations[a];
      const SplitObservation& other = observations[b];
      if (one.view == other.view &&
          (one.color == other.color) != (origin(one) == origin(other)))
        return std::pair(one, other);
    }
  }
  return std::nullopt;
}

std::vector<ColorFormula> MatchingColors(
    const std::vector<ParentView>& views,
    const std::vector<SplitObservation>& observations, DimensionSet dimensions,
    std::vector<ColorFormula> formulas) {
  std::erase_if(formulas, [&](const ColorFormula& formula) {
    return std::any_of(
        observations.begin(), observations.end(), [&](const SplitObservation& seen) {
          return PredictColor(views[seen.view], dimensions, formula, seen.member) !=
                 seen.color;
        });
  });
  return formulas;
}

std::vector<KeyFormula> MatchingKeys(const std::vector<ParentView>& views,
                                     const std::vector<SplitObservation>& observations,
                                     DimensionSet dimensions) {
  const ParentView& parent = views.front();
  std::vector<KeyFormula> formulas =
      KeyFormulas(parent.layout(), parent.varying(), dimensions);
  // One key for all: zero, or a number that more than one member was seen to pass.
  if (observations.front().key == 0 || observations.size() > 1) {
    KeyFormula constant;
    constant.constant = observations.front().key;
    formulas.push_back(constant);
  }
  std::erase_if(formulas, [&](const KeyFormula& formula) {
    return std::any_of(
        observations.begin(), observations.end(), [&](const SplitObservation& seen) {
          return PredictKey(views[seen.view], dimensions, formula, seen.member) !=
                 seen.key;
        });
  });
  return formulas;
}

}  // namespace vrank::graph
