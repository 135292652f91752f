// Elimination of candidates, and the messages when that leaves none or several.

#include "graph/membership/split_inference.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/membership/deciding_rank.h"
#include "graph/membership/partial_groups.h"

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
  // The first pair of calls in one view that contradicts a candidate.
  std::optional<std::pair<SplitObservation, SplitObservation>> Contradiction(
      DimensionSet dimensions) const {
    return FindContradiction(question_.views, question_.observations, dimensions);
  }
  // Adds what a candidate explains to the outcomes. `colors`: the formulas that match.
  void AddOutcomes(DimensionSet dimensions, const std::vector<ColorFormula>& colors);

  // A person's word about the groups is taken, and a trace was told how large they are,
  // which is checked against what comes of it.
  bool doubts_layout() const {
    return !question_.hint && question_.source != CallSource::kTraced;
  }
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
  // Where the colour is a hash of the members and the key the place among them, as
  // torch.distributed.new_group has it, one call tells all.
  std::optional<Groups> ByMemberHash() const;
  // The same of partial_, found by formula: where no layout is stated, no claim
  // contradicts groups that describe themselves.
  std::optional<Groups> ByMemberHashElsewhere() const;

  std::string Calls() const;
  // Groups of another layout that fit, by the first call's.
  std::string Elsewhere() const;
  std::set<Prediction> Predictions(const Outcome& outcome, uint32_t member) const;
  bool Tells(uint32_t member, const Outcome& outcome,
             const PartialGroups& partial) const;
  size_t Score(uint32_t member) const;
  std::optional<int32_t> DecidingRank() const;
  absl::Status Ambiguous() const;
  absl::Status OtherLayout() const;
  std::string Remedies() const;
  absl::Status Contradicted(const std::vector<DimensionSet>& tried) const;
  absl::Status Unexplained(const std::vector<DimensionSet>& left) const;

  const SplitQuestion& question_;
  const ParentView& parent_;
  const Layout& layout_;
  std::vector<Outcome> outcomes_;
  std::vector<PartialGroups> partial_;  // of another layout
};

bool SameGroup(const ParentView& parent, DimensionSet dimensions, uint32_t a,
               uint32_t b) {
  return parent.layout().Combine(parent.ranks()[a], dimensions, 0) ==
         parent.layout().Combine(parent.ranks()[b], dimensions, 0);
}

bool IsMemberHash(const ColorFormula& color) {
  return color.kind == ColorFormula::Kind::kMemberHash;
}

bool IsPlaceByRank(const KeyFormula& key) {
  return key.value == KeyFormula::Value::kIndex &&
         key.order_by == KeyFormula::Order::kRank && !key.descending;
}

void Inference::AddOutcomes(DimensionSet dimensions,
                            const std::vector<ColorFormula>& colors) {
  const ParentView::Grouping& grouping = parent_.GroupingBy(dimensions);
  for (const KeyFormula& key :
       MatchingKeys(question_.views, question_.observations, dimensions)) {
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

std::optional<Groups> Inference::ByMemberHash() const {
  for (const Outcome& outcome : outcomes_) {
    for (const Outcome::Explanation& explanation : outcome.explanations) {
      if (IsMemberHash(explanation.color) && IsPlaceByRank(explanation.key))
        return outcome.groups;
    }
  }
  return std::nullopt;
}

std::optional<Groups> Inference::ByMemberHashElsewhere() const {
  if (!layout_.is_default())
    return std::nullopt;
  for (const PartialGroups& partial : partial_) {
    const std::vector<KeyFormula> keys =
        MatchingKeys(partial.cut->views, question_.observations, partial.dimensions);
    const auto key = std::find_if(keys.begin(), keys.end(), IsPlaceByRank);
    if (key == keys.end() ||
        std::none_of(partial.colors.begin(), partial.colors.end(), IsMemberHash))
      continue;
    Groups groups;
    for (const auto& group : partial.parent().GroupingBy(partial.dimensions).groups)
      groups.push_back(OrderGroup(partial.parent(), *key, group));
    return groups;
  }
  return std::nullopt;
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

std::string Inference::Elsewhere() const {
  const SplitObservation& seen = question_.observations.front();
  std::string groups = partial_.front().Describe(seen.member);
  for (const PartialGroups& partial : partial_) {
    if (const std::string other = partial.Describe(seen.member);
        other != groups && seen.view == 0)
      return fmt::format("of another layout, as {} or {} for rank {}", groups, other,
                         Rank(seen));
  }
  return fmt::format("of another layout, as {} for rank {}", groups, Rank(seen));
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

// Whether a member's call would tell an outcome from groups of another layout.
bool Inference::Tells(uint32_t member, const Outcome& outcome,
                      const PartialGroups& partial) const {
  if (partial.colors.empty()) {
    // Only who shares a colour with whom is known.
    for (const SplitObservation& seen : question_.observations) {
      if (seen.view == 0 &&
          SameGroup(parent_, outcome.dimensions, member, seen.member) !=
              SameGroup(partial.parent(), partial.dimensions, member, seen.member))
        return true;
    }
    return false;
  }
  std::set<int64_t> colors;
  for (const ColorFormula& formula : partial.colors)
    colors.insert(PredictColor(partial.parent(), partial.dimensions, formula, member));
  return std::none_of(
      outcome.explanations.begin(), outcome.explanations.end(),
      [&](const Outcome::Explanation& explanation) {
        return colors.contains(
            PredictColor(parent_, explanation.dimensions, explanation.color, member));
      });
}

// How many pairs of what is left a member's call would tell apart.
size_t Inference::Score(uint32_t member) const {
  std::vector<std::set<Prediction>> predictions;
  for (const Outcome& outcome : outcomes_)
    predictions.push_back(Predictions(outcome, member));
  size_t score = 0;
  for (size_t a = 0; a < outcomes_.size(); ++a) {
    for (size_t b = a + 1; b < outcomes_.size(); ++b) {
      std::vector<Prediction> common;
      std::set_intersection(predictions[a].begin(), predictions[a].end(),
                            predictions[b].begin(), predictions[b].end(),
                            std::back_inserter(common));
      score += common.empty() ? 1 : 0;
    }
    for (const PartialGroups& partial : partial_)
      score += Tells(member, outcomes_[a], partial) ? 1 : 0;
  }
  return score;
}

// The member whose call would tell most.
std::optional<int32_t> Inference::DecidingRank() const {
  constexpr size_t kTried = 128;
  std::set<uint32_t> known;
  for (const SplitObservation& seen : question_.observations)
    if (seen.view == 0)
      known.insert(seen.member);
  const size_t members = parent_.ranks().size();
  const size_t step = std::max<size_t>(1, members / kTried);
  size_t best_score = 0;
  std::optional<int32_t> best;
  for (size_t k = 0; k < members; ++k) {
    // The near ones first, then a sample; the last one has all coordinates at their
    // ends.
    if (k >= kTried && k % step != 0 && k + 1 != members)
      continue;
    const uint32_t member = static_cast<uint32_t>(k);
    if (!parent_.joins(member) || known.contains(member))
      continue;
    if (const size_t score = Score(member); score > best_score) {
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
  if (!partial_.empty())
    names.push_back(Elsewhere());
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

// Where a layout is wrong.
std::string Inference::Remedies() const {
  const std::string remedy = layout_.Remedy(),
                    add =
                        AdviceToAdd(question_.source, "all ranks of the communicator");
  return remedy == add ? remedy : fmt::format("{}, or {}", remedy, add);
}

absl::Status Inference::OtherLayout() const {
  return absl::InvalidArgumentError(
      fmt::format("{}: the calls seen ({}) are not those of groups of {}; they fit "
                  "groups {}; {}",
                  Subject(), Calls(), layout_.Claim(), Elsewhere(), Remedies()));
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
      fmt::format("{}: its groups are no groups of {} ({}); {}", Subject(),
                  layout_.Claim(), fmt::join(reasons, "; "), Remedies()));
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
    partial_ = FindPartialGroups(question_, true);
    if (std::optional<Groups> groups = ByMemberHashElsewhere())
      return *std::move(groups);
    return partial_.empty() ? Contradicted(tried) : OtherLayout();
  }
  for (DimensionSet set : left) {
    const std::vector<ColorFormula> colors =
        MatchingColors(question_.views, question_.observations, set,
                       ColorFormulas(layout_, parent_.varying(), set));
    if (!colors.empty())
      AddOutcomes(set, colors);
  }
  if (std::optional<Groups> groups = ByMemberHash())
    return *std::move(groups);
  if (doubts_layout())
    partial_ = FindPartialGroups(question_, true);
  if (std::optional<Groups> groups = ByMemberHashElsewhere())
    return *std::move(groups);
  if (outcomes_.empty() && !partial_.empty())
    return OtherLayout();
  if (outcomes_.empty() && distinct.size() == 1) {
    // Colours of another kind (a hash of the members), but only one grouping fits.
    for (DimensionSet set : left)
      AddOutcomes(set, {});
    if (doubts_layout())
      partial_ = FindPartialGroups(question_, false);
  }
  if (outcomes_.empty())
    return Unexplained(left);
  if (outcomes_.size() > 1 && question_.hint) {
    // The person said which groups; a constant key or the usual order is the parent's.
    std::vector<std::vector<uint32_t>> usual = distinct.front()->groups;
    for (const Outcome& outcome : outcomes_)
      if (outcome.groups == usual)
        return usual;
  }
  if (outcomes_.size() > 1 || !partial_.empty())
    return Ambiguous();
  return std::move(outcomes_.front().groups);
}

}  // namespace

absl::StatusOr<Groups> InferSplit(const SplitQuestion& question) {
  if (question.observations.empty()) {
    return absl::InternalError("a split without a known call cannot be inferred");
  }
  return Inference(question).Run();
}

}  // namespace vrank::graph
