// A deterministic search over coordinates.

#include "graph/membership/real_rank_choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "graph/membership/split_hypothesis.h"

namespace vrank::graph {
namespace {

constexpr int kAttempts = 64;
constexpr int kGoodChoices = 8;  // compared by how well they tell splits of the ends

using Values = std::vector<int64_t>;  // what the chosen ranks pass, in their order
using KeyMeanings = std::map<Values, std::set<std::string>>;  // keys -> orders

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

// One rank per class; `sequence` draws its other coordinates.
std::vector<int32_t> Draw(const Layout& layout, Sequence* sequence) {
  std::vector<int32_t> ranks;
  for (int32_t rank_class = 0; rank_class < layout.classes(); ++rank_class) {
    int32_t rank = 0;
    for (const Dimension& dimension : layout.dimensions()) {
      const int32_t coordinate =
          dimension.name == "pp" ? rank_class : sequence->Below(dimension.size);
      rank += coordinate * dimension.stride;
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

namespace {

// `ends`: a split that only the first and the last stage join, as for a shared
// embedding.
double AmbiguityOf(const Layout& layout, const std::vector<int32_t>& all_ranks,
                   bool ends) {
  std::vector<int32_t> world(static_cast<size_t>(layout.world_size()));
  std::iota(world.begin(), world.end(), 0);
  auto is_in = [&](int32_t rank) {
    const int32_t rank_class = layout.ClassOf(rank);
    return !ends || rank_class == 0 || rank_class + 1 == layout.classes();
  };
  std::vector<bool> joins(world.size());
  std::transform(world.begin(), world.end(), joins.begin(), is_in);
  std::vector<int32_t> ranks;
  std::copy_if(all_ranks.begin(), all_ranks.end(), std::back_inserter(ranks), is_in);
  const ParentView parent(&layout, world, joins);

  std::map<DimensionSet, KeyMeanings> keys;
  std::set<int64_t> constants = {0};
  for (DimensionSet set = 0; set <= layout.all(); ++set) {
    for (const KeyFormula& formula : KeyFormulas(layout, layout.all(), set)) {
      Values values;
      for (int32_t rank : ranks) {
        values.push_back(PredictKey(parent, set, formula, static_cast<uint32_t>(rank)));
      }
      if (ranks.size() > 1 &&
          std::equal(values.begin() + 1, values.end(), values.begin())) {
        constants.insert(values.front());
      }
      keys[set][std::move(values)].insert(OrderName(layout, set, formula));
    }
  }
  // What the ranks would pass -> the groups and orders that this may mean.
  std::map<std::pair<Values, Values>, std::set<std::string>> meanings;
  for (DimensionSet set = 0; set <= layout.all(); ++set) {
    for (int64_t constant : constants) {
      keys[set][Values(ranks.size(), constant)].insert(
          OrderName(layout, set, KeyFormula()));
    }
    std::set<Values> colors;
    for (const ColorFormula& formula : ColorFormulas(layout, layout.all(), set)) {
      Values values;
      for (int32_t rank : ranks) {
        values.push_back(
            PredictColor(parent, set, formula, static_cast<uint32_t>(rank)));
      }
      colors.insert(std::move(values));
    }
    for (const Values& color : colors) {
      for (const auto& [key, orders] : keys[set]) {
        for (const std::string& order : orders) {
          meanings[{color, key}].insert(layout.SetName(set) + " " + order);
        }
      }
    }
  }
  int64_t ambiguous = 0;
  for (const auto& [calls, meant] : meanings) {
    ambiguous += static_cast<int64_t>(meant.size()) - 1;
  }
  return static_cast<double>(ambiguous) / static_cast<double>(meanings.size());
}

}  // namespace

double Ambiguity(const Layout& layout, const std::vector<int32_t>& ranks) {
  return AmbiguityOf(layout, ranks, false);
}

std::vector<int32_t> SuggestRealRanks(const Layout& layout) {
  // Splits of the world come first; of equally good choices the one that also tells
  // splits of the ends, as far as a few tries find it.
  Sequence sequence(static_cast<uint64_t>(layout.world_size()));
  std::vector<int32_t> best = Draw(layout, &sequence);
  double least = AmbiguityOf(layout, best, false);
  double least_at_ends = std::numeric_limits<double>::infinity();
  for (int attempt = 1, good = 0; attempt < kAttempts && good < kGoodChoices;
       ++attempt) {
    std::vector<int32_t> ranks = Draw(layout, &sequence);
    const double ambiguous = AmbiguityOf(layout, ranks, false);
    if (ambiguous > least) {
      continue;
    }
    const double at_ends = layout.classes() > 2 ? AmbiguityOf(layout, ranks, true) : 0;
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
      const double ambiguous = AmbiguityOf(layout, ranks, false);
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
