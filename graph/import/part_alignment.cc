#include "graph/import/part_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "graph/import/clock_difference.h"

namespace vrank::graph {
namespace {

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Places = std::vector<size_t>;  // of a rank's parts in one step, in order

// Clock differences that a pair allows: those of `b` less `a`.
struct Interval {
  int64_t least_ns = std::numeric_limits<int64_t>::min() / 2;
  int64_t most_ns = std::numeric_limits<int64_t>::max() / 2;

  void Narrow(const Interval& other) {
    least_ns = std::max(least_ns, other.least_ns);
    most_ns = std::min(most_ns, other.most_ns);
  }
  bool IsPossible() const { return least_ns <= most_ns; }
  bool Holds(int64_t ns) const { return least_ns <= ns && ns <= most_ns; }
};

Interval Allowed(const RecordedPart& a, const RecordedPart& b, int64_t slack_ns) {
  Interval allowed;
  if (a.meeting == Meeting::kNone)
    return allowed;
  allowed.most_ns = b.time.end_ns - a.time.begin_ns + slack_ns;
  if (a.meeting == Meeting::kMutual)
    allowed.least_ns = b.time.begin_ns - a.time.end_ns - slack_ns;
  return allowed;
}

// Pairs the parts of two ranks in one step.
class StepAlignment {
 public:
  // `slack_ns`: by how much clocks that differ by a constant seem to differ at most.
  StepAlignment(const std::vector<RecordedPart>& a, Places of_a,
                const std::vector<RecordedPart>& b, Places of_b, int64_t slack_ns)
      : a_(a),
        b_(b),
        of_a_(std::move(of_a)),
        of_b_(std::move(of_b)),
        slack_ns_(slack_ns) {}

  const Places& of_a() const { return of_a_; }
  const Places& of_b() const { return of_b_; }

  // What the clock of `b` less that of `a` may be where the n-th parts of both are one
  // operation, for all n.
  Interval AllAreAlike() const {
    constexpr Interval kImpossible{1, 0};
    if (of_a_.size() != of_b_.size())
      return kImpossible;
    Interval allowed;
    for (size_t i = 0; i < of_a_.size(); ++i) {
      if (!A(i).SameCall(B(i)))
        return kImpossible;
      allowed.Narrow(Allowed(A(i), B(i), slack_ns_));
    }
    return allowed;
  }
  // REQUIRES: AllAreAlike().IsPossible() and a part
  int64_t MedianOfEnds() const {
    std::vector<int64_t> ends_ns;
    for (size_t i = 0; i < of_a_.size(); ++i)
      ends_ns.push_back(B(i).time.end_ns - A(i).time.end_ns);
    return Median(std::move(ends_ns));
  }

  // By place in of_a: the place in of_b, or kNoPart. `clock_ns`: ClockOf all steps.
  Places Run(std::optional<int64_t> clock_ns) {
    const Interval allowed = AllAreAlike();
    if (clock_ns ? allowed.Holds(*clock_ns) : allowed.IsPossible()) {
      Places all(of_a_.size());
      std::iota(all.begin(), all.end(), size_t{0});
      return all;
    }
    return Longest(clock_ns);
  }

 private:
  struct Score {
    uint32_t pairs = 0;
    double apart_ns = 0;  // of ends, in sum
    bool IsBetterThan(const Score& other) const {
      return pairs != other.pairs ? pairs > other.pairs : apart_ns < other.apart_ns;
    }
  };
  enum class Choice : uint8_t { kSkipA, kSkipB, kPair };

  const RecordedPart& A(size_t i) const { return a_[of_a_[i]]; }
  const RecordedPart& B(size_t j) const { return b_[of_b_[j]]; }

  // A longest common subsequence; by each of the likely clock differences where it is
  // not known.
  Places Longest(std::optional<int64_t> known_ns) {
    Places best(of_a_.size(), kNoPart);
    if (of_a_.empty() || of_b_.empty() || !Fits())
      return best;
    std::vector<int64_t> clocks_ns{known_ns.value_or(0)};
    if (!known_ns) {
      clocks_ns.push_back(B(0).time.end_ns - A(0).time.end_ns);
      clocks_ns.push_back(B(of_b_.size() - 1).time.end_ns -
                          A(of_a_.size() - 1).time.end_ns);
    }
    Score best_score;
    for (const int64_t clock_ns : clocks_ns) {
      const Score score = Solve(clock_ns);
      if (score.IsBetterThan(best_score)) {
        best_score = score;
        best = Trace();
      }
    }
    return best;
  }

  // Only a band around the diagonal is looked at: few parts are missing.
  bool Fits() {
    constexpr size_t kMostMissing = 256;
    constexpr size_t kMostCells = size_t{1} << 26;
    const size_t n = of_a_.size(), m = of_b_.size();
    reach_ = (n > m ? n - m : m - n) + kMostMissing;
    width_ = std::min(m + 1, 2 * reach_ + 1);
    return n + 1 <= kMostCells / width_;
  }
  // The first place of row `i` in the band.
  size_t Begin(size_t i) const {
    const size_t m = of_b_.size();
    return std::min(i > reach_ ? i - reach_ : 0, m + 1 - width_);
  }

  // From the end to the beginning: the score of what lies behind (i, j).
  Score Solve(int64_t clock_ns) {
    const size_t n = of_a_.size(), m = of_b_.size();
    choices_.assign((n + 1) * width_, Choice::kSkipB);
    std::vector<Score> below(m + 2), row(m + 2);
    for (size_t i = n + 1; i-- > 0;) {
      std::fill(row.begin(), row.end(), Score());
      const size_t begin = Begin(i);
      for (size_t j = begin + width_; j-- > begin;) {
        Choice choice = Choice::kSkipB;
        Score score = j < m ? row[j + 1] : Score();
        if (i < n && below[j].IsBetterThan(score)) {
          choice = Choice::kSkipA;
          score = below[j];
        }
        if (i < n && j < m && A(i).SameCall(B(j)) &&
            Allowed(A(i), B(j), slack_ns_).Holds(clock_ns)) {
          Score paired = below[j + 1];
          ++paired.pairs;
          paired.apart_ns += std::abs(
              static_cast<double>(B(j).time.end_ns - A(i).time.end_ns - clock_ns));
          if (paired.IsBetterThan(score)) {
            choice = Choice::kPair;
            score = paired;
          }
        }
        row[j] = score;
        choices_[i * width_ + (j - begin)] = choice;
      }
      std::swap(row, below);
    }
    return below[0];
  }

  Places Trace() const {
    Places partner(of_a_.size(), kNoPart);
    size_t i = 0, j = 0;
    while (i < of_a_.size() && j < of_b_.size()) {
      const size_t begin = Begin(i);
      if (j < begin || j >= begin + width_)
        break;
      switch (choices_[i * width_ + (j - begin)]) {
        case Choice::kPair:
          partner[i++] = j++;
          break;
        case Choice::kSkipA:
          ++i;
          break;
        case Choice::kSkipB:
          ++j;
      }
    }
    return partner;
  }

  const std::vector<RecordedPart>&a_, &b_;
  const Places of_a_, of_b_;
  const int64_t slack_ns_;
  size_t reach_ = 0, width_ = 0;
  std::vector<Choice> choices_;  // by row and place in the band
};

// The clock of `b` less that of `a`, from steps in which both have as many parts: what
// explains all of these, or else what explains most.
std::optional<int64_t> ClockOf(const std::vector<StepAlignment>& steps) {
  Interval all;
  std::vector<int64_t> clocks_ns;
  for (const StepAlignment& step : steps) {
    const Interval allowed = step.AllAreAlike();
    if (step.of_a().empty() || !allowed.IsPossible())
      continue;
    all.Narrow(allowed);
    clocks_ns.push_back(step.MedianOfEnds());
  }
  if (clocks_ns.empty())
    return std::nullopt;
  const int64_t clock_ns = Median(std::move(clocks_ns));
  return all.IsPossible() ? std::clamp(clock_ns, all.least_ns, all.most_ns) : clock_ns;
}

// Noise, and the drift of a clock: adjtimex(2) slews one by 500 ppm at most.
int64_t SlackOf(const std::vector<RecordedPart>& parts) {
  constexpr int64_t kDriftShare = 2'000;
  int64_t first_ns = std::numeric_limits<int64_t>::max(), last_ns = 0;
  for (const RecordedPart& part : parts) {
    first_ns = std::min(first_ns, part.time.begin_ns);
    last_ns = std::max(last_ns, part.time.end_ns);
  }
  return kClockNoiseNs + std::max<int64_t>(0, last_ns - first_ns) / kDriftShare;
}

std::map<std::string_view, Places> BySteps(const std::vector<RecordedPart>& parts) {
  std::map<std::string_view, Places> steps;
  for (size_t i = 0; i < parts.size(); ++i)
    steps[parts[i].step].push_back(i);
  return steps;
}

// Whether each part states a number that no other one of the rank has.
bool AreNumbered(const std::vector<RecordedPart>& parts) {
  std::set<int64_t> numbers;
  return std::all_of(parts.begin(), parts.end(), [&](const RecordedPart& part) {
    return part.sequence >= 0 && numbers.insert(part.sequence).second;
  });
}

Places ByNumbers(const std::vector<RecordedPart>& a,
                 const std::vector<RecordedPart>& b) {
  Places partner(a.size(), kNoPart);
  std::map<int64_t, size_t> places;
  for (size_t j = 0; j < b.size(); ++j)
    places[b[j].sequence] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto place = places.find(a[i].sequence);
    if (place != places.end() && a[i].SameCall(b[place->second]))
      partner[i] = place->second;
  }
  return partner;
}

}  // namespace

std::vector<size_t> AlignParts(const std::vector<RecordedPart>& a,
                               const std::vector<RecordedPart>& b) {
  if (AreNumbered(a) && AreNumbered(b))
    return ByNumbers(a, b);
  auto ours = BySteps(a), theirs = BySteps(b);
  const bool common = std::any_of(ours.begin(), ours.end(), [&](const auto& step) {
    return !step.first.empty() && theirs.count(step.first) != 0;
  });
  if (!common) {
    Places all_a(a.size()), all_b(b.size());
    std::iota(all_a.begin(), all_a.end(), size_t{0});
    std::iota(all_b.begin(), all_b.end(), size_t{0});
    ours = {{"", std::move(all_a)}};
    theirs = {{"", std::move(all_b)}};
  }
  std::vector<StepAlignment> steps;
  for (auto& [step, of_a] : ours) {
    const auto found = theirs.find(step);
    if (found == theirs.end())
      continue;
    steps.emplace_back(a, std::move(of_a), b, std::move(found->second), SlackOf(a));
  }
  const std::optional<int64_t> clock_ns = ClockOf(steps);
  Places partner(a.size(), kNoPart);
  for (StepAlignment& step : steps) {
    const Places& of_a = step.of_a();
    const Places& of_b = step.of_b();
    const Places aligned = step.Run(clock_ns);
    const auto pairs = static_cast<size_t>(std::count_if(
        aligned.begin(), aligned.end(), [](size_t place) { return place != kNoPart; }));
    const size_t most = std::max(of_a.size(), of_b.size());
    if (most - pairs > std::max<size_t>(1, most / 4))
      continue;
    for (size_t i = 0; i < of_a.size(); ++i)
      if (aligned[i] != kNoPart)
        partner[of_a[i]] = of_b[aligned[i]];
  }
  return partner;
}

}  // namespace vrank::graph
