// Runs a small program in every order of its steps, up to a bound.

#ifndef VRANK_TESTS_SCHEDULE_INTERLEAVINGS_H_
#define VRANK_TESTS_SCHEDULE_INTERLEAVINGS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace vrank::schedule {

template <typename Result>
struct Explored {
  std::vector<Result> logs;  // the distinct results
  bool all = false;          // every order was tried
};

// `run(choose)` runs the program once; choose(n) selects one of n possible steps.
template <typename Result, typename Run>
Explored<Result> ExploreOrders(size_t most_orders, Run run) {
  Explored<Result> explored;
  std::vector<Result>& logs = explored.logs;
  std::vector<std::pair<size_t, size_t>> choices;  // chosen, of how many
  for (size_t order = 0; order < most_orders; ++order) {
    size_t depth = 0;
    Result result = run([&](size_t count) {
      if (depth == choices.size())
        choices.emplace_back(0, count);
      return choices[depth++].first;
    });
    if (std::find(logs.begin(), logs.end(), result) == logs.end())
      logs.push_back(std::move(result));
    choices.resize(depth);
    while (!choices.empty() && choices.back().first + 1 == choices.back().second)
      choices.pop_back();
    explored.all = choices.empty();
    if (explored.all)
      break;
    ++choices.back().first;
  }
  return explored;
}

}  // namespace vrank::schedule

#endif  // VRANK_TESTS_SCHEDULE_INTERLEAVINGS_H_
