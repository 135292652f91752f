#include "tools/compare/rank_sum.h"

#include <algorithm>
#include <vector>

namespace vrank::tools {
namespace {

// P(U <= u) for u in [0, m n]: U counts the pairs whose first value is the larger one,
// of m and n values of one distribution. All orders of the values are equally likely,
// and the largest value is one of the m, above n others, or one of the n.
std::vector<double> RankSumDistribution(size_t m, size_t n) {
  // of[i][u]: the probability of u with i values on the first side, by values j on the
  // second, one after the other.
  const size_t pairs = m * n;
  std::vector<std::vector<double>> of(m + 1, std::vector<double>(pairs + 1));
  for (std::vector<double>& row : of)
    row[0] = 1;  // j = 0
  for (size_t j = 1; j <= n; ++j) {
    for (size_t i = 1; i <= m; ++i) {
      const double first = static_cast<double>(i) / static_cast<double>(i + j);
      std::vector<double> mixed(pairs + 1);
      for (size_t u = 0; u <= pairs; ++u)
        mixed[u] = (u < j ? 0 : first * of[i - 1][u - j]) + (1 - first) * of[i][u];
      of[i] = std::move(mixed);
    }
  }
  std::vector<double> sums = of[m];
  for (size_t u = 1; u < sums.size(); ++u)
    sums[u] += sums[u - 1];
  return sums;
}

// How many differences at each end the interval leaves out.
std::optional<size_t> LeftOut(size_t m, size_t n, double confidence) {
  const std::vector<double> sums = RankSumDistribution(m, n);
  const double tail = (1 - confidence) / 2;
  size_t count = 0;
  while (count < sums.size() && sums[count] <= tail)
    ++count;
  return count == 0 ? std::nullopt : std::optional(count);
}

double Middle(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

std::optional<Shift> FindShift(std::span<const double> a, std::span<const double> b,
                               double confidence) {
  if (a.empty() || b.empty())
    return std::nullopt;
  const std::optional<size_t> left_out = LeftOut(a.size(), b.size(), confidence);
  if (!left_out)
    return std::nullopt;
  std::vector<double> differences;
  for (const double one : a)
    for (const double other : b)
      differences.push_back(other - one);
  std::sort(differences.begin(), differences.end());
  return Shift{.estimate = Middle(differences),
               .low = differences[*left_out - 1],
               .high = differences[differences.size() - *left_out]};
}

size_t LeastValues(double confidence) {
  size_t count = 1;
  while (!LeftOut(count, count, confidence))
    ++count;
  return count;
}

}  // namespace vrank::tools
