// Tarjan's strongly connected components (R. Tarjan, "Depth-first search and linear
// graph algorithms", SIAM J. Comput. 1972): they come out with those that wait for
// nobody else first.

#include "graph/replay/blocked_ranks.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace vrank::graph {
namespace {

class Components {
 public:
  explicit Components(const std::vector<BlockedRanks>& all)
      : all_(all), number_(all.size(), 0), low_(all.size(), 0), on_stack_(all.size()) {
    for (size_t row = 0; row < all.size(); ++row)
      for (const int32_t rank : all[row].ranks)
        row_of_[rank] = row;
    for (size_t row = 0; row < all.size(); ++row)
      if (number_[row] == 0)
        Visit(row);
  }

  const std::vector<size_t>& order() const { return order_; }

 private:
  struct Frame {
    size_t row;
    std::set<int32_t>::const_iterator next;
  };

  // Without recursion: chains are as long as there are ranks.
  void Visit(size_t first) {
    std::vector<Frame> frames;
    Enter(first, &frames);
    while (!frames.empty()) {
      const size_t row = frames.back().row;
      if (frames.back().next == all_[row].awaited.end()) {
        frames.pop_back();
        if (!frames.empty())
          low_[frames.back().row] = std::min(low_[frames.back().row], low_[row]);
        if (low_[row] == number_[row])
          Leave(row);
        continue;
      }
      const auto other = row_of_.find(*frames.back().next++);
      if (other == row_of_.end())
        continue;
      if (number_[other->second] == 0)
        Enter(other->second, &frames);
      else if (on_stack_[other->second])
        low_[row] = std::min(low_[row], number_[other->second]);
    }
  }
  void Enter(size_t row, std::vector<Frame>* frames) {
    number_[row] = low_[row] = ++numbers_;
    on_stack_[row] = true;
    stack_.push_back(row);
    frames->push_back({row, all_[row].awaited.begin()});
  }
  void Leave(size_t root) {
    const auto begin = std::find(stack_.rbegin(), stack_.rend(), root).base() - 1;
    for (auto row = begin; row != stack_.end(); ++row)
      on_stack_[*row] = false;
    order_.insert(order_.end(), begin, stack_.end());
    stack_.erase(begin, stack_.end());
  }

  const std::vector<BlockedRanks>& all_;
  std::map<int32_t, size_t> row_of_;
  std::vector<size_t> number_, low_;  // from 1; 0: not seen
  std::vector<bool> on_stack_;
  std::vector<size_t> stack_, order_;
  size_t numbers_ = 0;
};

}  // namespace

std::string Times(uint64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

std::string RankList(std::vector<int32_t> ranks) {
  constexpr size_t kShown = 12;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  size_t pieces = 0;
  for (size_t i = 0; i < ranks.size();) {
    if (++pieces > kShown)
      return text + fmt::format(" and {} more", ranks.size() - i);
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (last > i)
      text += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<std::string> LinesFromTheCauseOn(const std::vector<BlockedRanks>& all,
                                             size_t limit) {
  const Components components(all);
  std::vector<std::string> lines;
  size_t ranks_left_out = 0;
  for (const size_t row : components.order()) {
    if (lines.size() < limit)
      lines.push_back(all[row].text);
    else
      ranks_left_out += all[row].ranks.size();
  }
  if (all.size() > limit)
    lines.push_back(fmt::format("{} more rank{} in {} more such wait{}", ranks_left_out,
                                ranks_left_out == 1 ? "" : "s", all.size() - limit,
                                all.size() - limit == 1 ? "" : "s"));
  return lines;
}

}  // namespace vrank::graph
