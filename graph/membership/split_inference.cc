// Elimination of candidates, and the messages when that leaves none or several.

#include "graph/membership/split_inference.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/membership/deciding_rank.h"

namespace vrank::graph {
namespace {

using Groups = std::vector<std::vector<uint32_t>>;
using Prediction = std::pair<int64_t, int64_t>;  // colour, key

// All explanations that lead to the same groups in the same order.
struct Outcome {
  DimensionSet dimensions = 0;  // one of those that lead here
  std::string order;
  Groups groups;
  struct Explanation {
    DimensionSet dimensions;
    ColorFormula color;
    KeyFormula key;
  };
  std::vector<Explanation> explanations;
};

class Inference {
 public:
  explicit Inference(const SplitQuestion& question)
      : question_(question),
        parent_(question.views.front()),
        layout_(parent_.layout()) {}

  absl::StatusOr<Groups> Run();

 private:
  const ParentView& View(const SplitObservation& seen) const {
    return question_.views[seen.view];
  }
  int32_t Rank(const SplitObservation& seen) const {
    return View(seen).ranks()[seen.member];
  }
  bool SameGroup(DimensionSet dimensions, const SplitObservation& a,
                 const SplitObservation& b) const {
    const auto& group_of = View(a).GroupingBy(dimensions).group_of;
    return group_of[a.member] == group_of[b.member];
  }
  // The first pair of calls in one view that contradicts a candidate.
  std::optional<std::pair<SplitObservation, SplitObservation>> Contradiction(
      DimensionSet dimensions) const;
  std::vector<ColorFormula> MatchingColors(DimensionSet dimensions) const;
  std::vector<KeyFormula> MatchingKeys(DimensionSet dimensions) const;
  // Adds what a candidate explains to the outcomes. `colors`: the formulas that match.
  void AddOutcomes(DimensionSet dimensions, const std::vector<ColorFormula>& colors);

  std::string Subject() const {
    return fmt::format("split {} of communicator {}", question_.number,
                       layout_.SetName(parent_.varying()));
  }
  std::string Flag(DimensionSet dimensions) const {
    return fmt::format(
        "--group {}",
        GroupHint{false, parent_.varying(), question_.number, dimensions, {}}.ToString(
            layout_));
  }
  std::string Calls() const;
  std::set<Prediction> Predictions(const Outcome& outcome, uint32_t member) const;
  std::optional<int32_t> DecidingRank() const;
  absl::Status Ambiguous() const;
  absl::Status Contradicted(const std::vector<DimensionSet>& tried) const;
  absl::Status Unexplained(const std::vector<DimensionSet>& left) const;

  const SplitQuestion& question_;
  const ParentView& parent_;
  const Layout& layout_;
  std::vector<Outcome> outcomes_;
};

std::optional<std::pair<SplitObservation, SplitObservation>> Inference::Contradiction(
    DimensionSet dimensions) const {
  const auto& seen = question_.observations;
  for (size_t a = 0; a < seen.size(); ++a) {
    for (size_t b = a + 1; b < seen.size(); ++b) {
      if (seen[a].view == seen[b].view &&
          (seen[a].color == seen[b].color) != SameGroup(dimensions, seen[a], seen[b])) {
        return std::pair(seen[a], seen[b]);
      }
    }
  }
  return std::nullopt;
}

std::vector<ColorFormula> Inference::MatchingColors(DimensionSet dimensions) const {
  std::vector<ColorFormula> matching;
  for (ColorFormula& formula : ColorFormulas(layout_, parent_.varying(), dimensions)) {
    const bool matches =
        std::all_of(question_.observations.begin(), question_.observations.end(),
                    [&](const SplitObservation& seen) {
                      return PredictColor(View(seen), dimensions, formula,
                                          seen.member) == seen.color;
                    });
    if (matches) {
      matching.push_back(std::move(formula));
    }
  }
  return matching;
}

std::vector<KeyFormula> Inference::MatchingKeys(DimensionSet dimensions) const {
  const auto& seen = question_.observations;
  std::vector<KeyFormula> formulas =
      KeyFormulas(layout_, parent_.varying(), dimensions);
  // One key for all: zero, or a number that more than one member was seen to pass.
  if (seen.front().key == 0 || seen.size() > 1) {
    KeyFormula constant;
    constant.constant = seen.front().key;
    formulas.push_back(constant);
  }
  std::vector<KeyFormula> matching;
  for (KeyFormula& formula : formulas) {
    const bool matches =
        std::all_of(seen.begin(), seen.end(), [&](const SplitObservation& call) {
          return PredictKey(View(call), dimensions, formula, call.member) == call.key;
        });
    if (matches) {
      matching.push_back(std::move(formula));
    }
  }
  return matching;
}

void Inference::AddOutcomes(DimensionSet dimensions,
                            const std::vector<ColorFormula>& colors) {
  const ParentView::Grouping& grouping = parent_.GroupingBy(dimensions);
  for (const KeyFormula& key : MatchingKeys(dimensions)) {
    Groups groups;
    for (const auto& group : grouping.groups) {
      groups.push_back(OrderGroup(parent_, key, group));
    }
    auto outcome = std::find_if(outcomes_.begin(), outcomes_.end(),
                                [&](const Outcome& o) { return o.groups == groups; });
    if (outcome == outcomes_.end()) {
      outcomes_.push_back(
          {dimensions, OrderName(layout_, dimensions, key), std::move(groups), {}});
      outcome = std::prev(outcomes_.end());
    }
    for (const ColorFormula& color : colors) {
      outcome->explanations.push_back({dimensions, color, key});
    }
  }
}

std::string Inference::Calls() const {
  constexpr size_t kShown = 4;
  std::vector<std::string> calls;
  for (const SplitObservation& seen : question_.observations) {
    if (calls.size() == kShown) {
      calls.push_back("...");
      break;
    }
    calls.push_back(
        fmt::format("rank {}: colour {}, key {}", Rank(seen), seen.color, seen.key));
  }
  return fmt::format("{}", fmt::join(calls, "; "));
}

std::set<Prediction> Inference::Predictions(const Outcome& outcome,
                                            uint32_t member) const {
  std::set<Prediction> predictions;
  for (const Outcome::Explanation& explanation : outcome.explanations) {
    predictions.emplace(
        PredictColor(parent_, explanation.dimensions, explanation.color, member),
        PredictKey(parent_, explanation.dimensions, explanation.key, member));
  }
  return predictions;
}

// The member whose call would tell most of the outcomes apart.
std::optional<int32_t> Inference::DecidingRank() const {
  constexpr size_t kTried = 128;
  std::set<uint32_t> known;
  for (const SplitObservation& seen : question_.observations) {
    if (seen.view == 0) {
      known.insert(seen.member);
    }
  }
  const size_t members = parent_.ranks().size();
  const size_t step = std::max<size_t>(1, members / kTried);
  size_t best_score = 0;
  std::optional<int32_t> best;
  for (size_t k = 0; k < members; ++k) {
    // The near ones first, then a sample.
    if (k >= kTried && k % step != 0) {
      continue;
    }
    const uint32_t member = static_cast<uint32_t>(k);
    if (!parent_.joins(member) || known.count(member) != 0) {
      continue;
    }
    size_t score = 0;
    for (size_t a = 0; a < outcomes_.size(); ++a) {
      const std::set<Prediction> of_a = Predictions(outcomes_[a], member);
      for (size_t b = a + 1; b < outcomes_.size(); ++b) {
        const std::set<Prediction> of_b = Predictions(outcomes_[b], member);
        std::vector<Prediction> common;
        std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                              std::back_inserter(common));
        score += common.empty() ? 1 : 0;
      }
    }
    if (score > best_score) {
      best_score = score;
      best = parent_.ranks()[member];
    }
  }
  return best;
}

absl::Status Inference::Ambiguous() const {
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  for (const Outcome& outcome : outcomes_) {
    if (names.size() == kShown) {
      names.push_back(fmt::format("{} more", outcomes_.size() - kShown));
      break;
    }
    const std::string set = layout_.SetName(outcome.dimensions);
    names.push_back(outcome.order.empty()
                        ? fmt::format("by {}", set)
                        : fmt::format("by {} in order {}", set, outcome.order));
  }
  const std::optional<int32_t> deciding = DecidingRank();
  const std::string add =
      deciding
          ? AdviceToAdd(question_.source, fmt::format("rank {} ({})", *deciding,
                                                      layout_.Describe(*deciding))) +
                ", or "
          : "";
  absl::Status status = absl::FailedPreconditionError(fmt::format(
      "{}: the calls seen ({}) fit groups {}; {}say which with {}", Subject(), Calls(),
      fmt::join(names, ", or "), add, Flag(outcomes_.front().dimensions)));
  if (deciding)
    AttachDecidingRank(*deciding, &status);
  return status;
}

absl::Status Inference::Contradicted(const std::vector<DimensionSet>& tried) const {
  std::vector<std::string> reasons;
  constexpr size_t kShown = 3;
  for (DimensionSet dimensions : tried) {
    const auto pair = Contradiction(dimensions);
    if (!pair || reasons.size() == kShown) {
      continue;
    }
    const auto& [a, b] = *pair;
    reasons.push_back(
        a.color == b.color
            ? fmt::format("not by {}: ranks {} and {} passed one colour, {}",
                          layout_.SetName(dimensions), Rank(a), Rank(b), a.color)
            : fmt::format("not by {}: ranks {} and {} passed colours {} and {}",
                          layout_.SetName(dimensions), Rank(a), Rank(b), a.color,
                          b.color));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: its groups are no groups of the layout {} ({}); correct "
                  "--layout, or {}",
                  Subject(), layout_.ToString(), fmt::join(reasons, "; "),
                  AdviceToAdd(question_.source, "all ranks of the communicator")));
}

absl::Status Inference::Unexplained(const std::vector<DimensionSet>& left) const {
  std::vector<std::string> names;
  for (DimensionSet dimensions : left) {
    names.push_back(layout_.SetName(dimensions));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{}: the calls seen ({}) do not tell the groups (by {}?) and their order: "
      "colours "
      "or keys follow no known formula; {}, or say it with {}",
      Subject(), Calls(), fmt::join(names, ", "),
      AdviceToAdd(question_.source, "all ranks of the communicator"),
      Flag(left.front())));
}

absl::StatusOr<Groups> Inference::Run() {
  std::vector<DimensionSet> tried;
  std::vector<DimensionSet> left;
  std::vector<const ParentView::Grouping*> distinct;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if ((set & ~parent_.varying()) != 0 ||
        (question_.hint && (question_.hint->dimensions & parent_.varying()) != set)) {
      continue;
    }
    tried.push_back(set);
    if (Contradiction(set)) {
      continue;
    }
    left.push_back(set);
    const ParentView::Grouping* grouping = &parent_.GroupingBy(set);
    if (std::none_of(distinct.begin(), distinct.end(),
                     [&](const auto* other) { return *other == *grouping; })) {
      distinct.push_back(grouping);
    }
  }
  if (left.empty()) {
    return Contradicted(tried);
  }
  for (DimensionSet set : left) {
    const std::vector<ColorFormula> colors = MatchingColors(set);
    if (!colors.empty()) {
      AddOutcomes(set, colors);
    }
  }
  if (outcomes_.empty() && distinct.size() == 1) {
    // Colours of another kind (a hash of the members), but only one grouping fits.
    for (DimensionSet set : left) {
      AddOutcomes(set, {});
    }
  }
  if (outcomes_.empty()) {
    return Unexplained(left);
  }
  if (outcomes_.size() > 1 && question_.hint) {
    // The person said which groups; a constant key or the usual order is the parent's.
    std::vector<std::vector<uint32_t>> usual = distinct.front()->groups;
    for (const Outcome& outcome : outcomes_) {
      if (outcome.groups == usual) {
        return usual;
      }
    }
  }
  if (outcomes_.size() > 1) {
    return Ambiguous();
  }
  Groups groups = std::move(outcomes_.front().groups);
  return groups;
}

}  // namespace

std::string AdviceToAdd(CallSource source, const std::string& which) {
  return source == CallSource::kReal ? fmt::format("add {} to --real", which)
                                     : fmt::format("trace {}, too", which);
}

absl::StatusOr<Groups> InferSplit(const SplitQuestion& question) {
  if (question.observations.empty()) {
    return absl::InternalError("a split without a known call cannot be inferred");
  }
  return Inference(question).Run();
}

}  // namespace vrank::graph
