// A deterministic search over coordinates.

#include "graph/membership/real_rank_choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "graph/membership/partial_groups.h"
#include "graph/membership/split_hypothesis.h"

namespace vrank::graph {
namespace {

constexpr int kAttempts = 64;
constexpr int kGoodChoices = 8;  // compared by how well they tell splits of the ends

using Values = std::vector<int64_t>;  // what the chosen ranks pass, in their order
using KeyMeanings = std::map<Values, std::set<int>>;  // keys -> meanings

// A small generator with a fixed sequence: the choice must not vary between machines.
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : state_(seed * 2 + 1) {}
  int32_t Below(int32_t limit) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;  // Knuth's MMIX
    return static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(limit));
  }

 private:
  uint64_t state_;
};

// One rank per class; `sequence` draws its other coordinates. Where stages lie between
// the first and the last, the last rank stands for the last one: of splits that only
// these two join, two calls are all there is, and what the last rank passes counts all
// groups.
std::vector<int32_t> Draw(const Layout& layout, Sequence* sequence) {
  std::vector<int32_t> ranks;
  for (int32_t rank_class = 0; rank_class < layout.classes(); ++rank_class) {
    int32_t rank = 0;
    for (const Dimension& dimension : layout.dimensions()) {
      const bool is_last = layout.classes() > 2 && rank_class + 1 == layout.classes();
      const int32_t coordinate = dimension.name == "pp" ? rank_class
                                 : is_last              ? dimension.size - 1
                                           : sequence->Below(dimension.size);
      rank += coordinate * dimension.stride;
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// What does not depend on the choice of ranks: a world, the formulas for its splits,
// and what each means.
class Splits {
 public:
  // `ends`: of splits that only the first and the last stage join, as for a shared
  // embedding.
  Splits(const Layout& layout, bool ends);

  // How many more meanings than one the calls of `ranks` have, on average.
  double AmbiguityOf(const std::vector<int32_t>& ranks) const;

 private:
  struct Key {
    KeyFormula formula;
    int meaning = 0;  // the groups, in the order that it gives
  };
  struct Set {
    std::vector<Key> keys;
    std::vector<ColorFormula> colors;
    int unordered = 0;  // the meaning of equal keys
  };
  // Groups of another layout (partial_groups.h), by one formula for the colour.
  struct Elsewhere {
    std::shared_ptr<const CutLayout> cut;
    DimensionSet dimensions = 0;
    ColorFormula color;
  };
  // How many of them would make `ranks` pass some of these colours.
  int64_t CountElsewhere(const std::vector<int32_t>& ranks,
                         const std::set<Values>& colors) const;
  bool IsIn(int32_t rank) const {
    const int32_t rank_class = layout_.ClassOf(rank);
    return !ends_ || rank_class == 0 || rank_class + 1 == layout_.classes();
  }
  ParentView World() const;

  const Layout& layout_;
  const bool ends_;
  const ParentView parent_;
  std::vector<Set> sets_;  // by DimensionSet
  std::vector<Elsewhere> elsewhere_;
};

ParentView Splits::World() const {
  std::vector<int32_t> world(static_cast<size_t>(layout_.world_size()));
  std::iota(world.begin(), world.end(), 0);
  std::vector<bool> joins(world.size());
  std::transform(world.begin(), world.end(), joins.begin(),
                 [this](int32_t rank) { return IsIn(rank); });
  return ParentView(&layout_, std::move(world), std::move(joins));
}

Splits::Splits(const Layout& layout, bool ends)
    : layout_(layout), ends_(ends), parent_(World()) {
  std::map<std::string, int> meanings;
  for (DimensionSet set = 0; set <= layout.all(); ++set) {
    const auto meaning = [&](const KeyFormula& formula) {
      return meanings
          .try_emplace(layout.SetName(set) + " " + OrderName(layout, set, formula),
                       static_cast<int>(meanings.size()))
          .first->second;
    };
    Set& of = sets_.emplace_back();
    of.colors = ColorFormulas(layout, layout.all(), set);
    std::erase_if(of.colors, [](const ColorFormula& formula) {
      return formula.kind == ColorFormula::Kind::kMemberHash;  // means one group only
    });
    of.unordered = meaning(KeyFormula());
    for (KeyFormula& formula : KeyFormulas(layout, layout.all(), set)) {
      const int known = meaning(formula);
      of.keys.push_back({std::move(formula), known});
    }
  }
  if (ends)
    return;
  for (const auto& cut : CutLayouts({parent_}))
    for (const DimensionSet set : cut->partial_sets)
      for (const auto kind :
           {ColorFormula::Kind::kPlaceInList, ColorFormula::Kind::kFirstRank})
        elsewhere_.push_back({cut, set, {kind, {}}});
}

int64_t Splits::CountElsewhere(const std::vector<int32_t>& ranks,
                               const std::set<Values>& colors) const {
  int64_t count = 0;
  for (const Elsewhere& other : elsewhere_) {
    std::vector<const Values*> left;
    for (const Values& values : colors)
      left.push_back(&values);
    // From the last rank, which tells most.
    for (size_t i = ranks.size(); i-- > 0 && !left.empty();) {
      const int64_t color = PredictColor(other.cut->views.front(), other.dimensions,
                                         other.color, static_cast<uint32_t>(ranks[i]));
      std::erase_if(left, [&](const Values* values) { return (*values)[i] != color; });
    }
    count += left.empty() ? 0 : 1;
  }
  return count;
}

double Splits::AmbiguityOf(const std::vector<int32_t>& all_ranks) const {
  std::vector<int32_t> ranks;
  std::copy_if(all_ranks.begin(), all_ranks.end(), std::back_inserter(ranks),
               [this](int32_t rank) { return IsIn(rank); });
  std::vector<KeyMeanings> keys(sets_.size());
  std::set<int64_t> constants = {0};
  Values values(ranks.size());
  const auto predict = [&](auto formula) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      values[i] = formula(static_cast<uint32_t>(ranks[i]));
    }
  };
  for (DimensionSet set = 0; set < sets_.size(); ++set) {
    for (const Key& key : sets_[set].keys) {
      predict([&](uint32_t m) { return PredictKey(parent_, set, key.formula, m); });
      if (ranks.size() > 1 &&
          std::equal(values.begin() + 1, values.end(), values.begin())) {
        constants.insert(values.front());
      }
      keys[set][values].insert(key.meaning);
    }
  }
  std::set<Values> all_colors;
  // What the ranks would pass -> the groups and orders that this may mean.
  std::map<std::pair<Values, Values>, std::set<int>> meanings;
  for (DimensionSet set = 0; set < sets_.size(); ++set) {
    for (int64_t constant : constants) {
      keys[set][Values(ranks.size(), constant)].insert(sets_[set].unordered);
    }
    std::set<Values> colors;
    for (const ColorFormula& formula : sets_[set].colors) {
      predict([&](uint32_t m) { return PredictColor(parent_, set, formula, m); });
      colors.insert(values);
    }
    all_colors.insert(colors.begin(), colors.end());
    for (const Values& color : colors) {
      for (const auto& [key, meant] : keys[set]) {
        meanings[{color, key}].insert(meant.begin(), meant.end());
      }
    }
  }
  int64_t ambiguous = CountElsewhere(ranks, all_colors);
  for (const auto& [calls, meant] : meanings) {
    ambiguous += static_cast<int64_t>(meant.size()) - 1;
  }
  return static_cast<double>(ambiguous) / static_cast<double>(meanings.size());
}

}  // namespace

double Ambiguity(const Layout& layout, const std::vector<int32_t>& ranks) {
  return Splits(layout, false).AmbiguityOf(ranks);
}

std::vector<int32_t> SuggestRealRanks(const Layout& layout) {
  // Splits of the world come first; of equally good choices the one that also tells
  // splits of the ends, as far as a few tries find it.
  const Splits of_world(layout, false), of_ends(layout, true);
  Sequence sequence(static_cast<uint64_t>(layout.world_size()));
  std::vector<int32_t> best = Draw(layout, &sequence);
  double least = of_world.AmbiguityOf(best);
  double least_at_ends = std::numeric_limits<double>::infinity();
  for (int attempt = 1, good = 0; attempt < kAttempts && good < kGoodChoices;
       ++attempt) {
    std::vector<int32_t> ranks = Draw(layout, &sequence);
    const double ambiguous = of_world.AmbiguityOf(ranks);
    if (ambiguous > least) {
      continue;
    }
    const double at_ends = layout.classes() > 2 ? of_ends.AmbiguityOf(ranks) : 0;
    if (ambiguous < least || at_ends < least_at_ends) {
      least_at_ends = at_ends;
      least = ambiguous;
      best = std::move(ranks);
    }
    good += ambiguous == 0 ? 1 : 0;
    if (least == 0 && least_at_ends == 0) {
      break;
    }
  }
  // One more at a time, the one that helps most, until splits of the world are told.
  while (least > 0 && static_cast<int32_t>(best.size()) < layout.world_size()) {
    std::vector<int32_t> longer;
    for (int attempt = 0; attempt < kAttempts && least > 0; ++attempt) {
      std::vector<int32_t> ranks = best;
      const int32_t rank = sequence.Below(layout.world_size());
      if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
        continue;
      }
      ranks.push_back(rank);
      std::sort(ranks.begin(), ranks.end());
      const double ambiguous = of_world.AmbiguityOf(ranks);
      if (ambiguous < least) {
        least = ambiguous;
        longer = std::move(ranks);
      }
    }
    if (longer.empty()) {
      break;
    }
    best = std::move(longer);
  }
  return best;
}

}  // namespace vrank::graph
