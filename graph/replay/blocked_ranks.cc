// Tarjan's strongly connected components (R. Tarjan, "Depth-first search and linear
// graph algorithms", SIAM J. Comput. 1972): they come out with those that wait for
// nobody else first.

#include "graph/replay/blocked_ranks.h"

#include <algorithm>
#include <map>
#include <optional>

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
  // The row of the rank; nullopt: it is in none.
  std::optional<size_t> RowOf(int32_t rank) const {
    const auto found = row_of_.find(rank);
    return found == row_of_.end() ? std::nullopt : std::optional(found->second);
  }

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

namespace {

// The ranks of a shortest circle through `row`, each waiting for the next and the last
// for the first. Empty: there is none.
std::vector<int32_t> ShortestCircle(const std::vector<BlockedRanks>& all,
                                    const Components& components, size_t row) {
  // By row: the one from which it was reached first, and the rank awaited there.
  std::map<size_t, std::pair<size_t, int32_t>> reached;
  std::vector<size_t> next{row};
  for (size_t i = 0; i < next.size() && reached.count(row) == 0; ++i) {
    for (const int32_t rank : all[next[i]].awaited) {
      const std::optional<size_t> other = components.RowOf(rank);
      // Ranks of one row wait for the same: none of them for another.
      if (!other.has_value() || *other == next[i] ||
          !reached.try_emplace(*other, next[i], rank).second)
        continue;
      next.push_back(*other);
    }
  }
  std::vector<int32_t> ranks;
  if (reached.count(row) == 0)
    return ranks;
  for (size_t at = row; ranks.empty() || at != row;) {
    const auto& [from, rank] = reached.at(at);
    ranks.push_back(rank);
    at = from;
  }
  std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

std::string WhatOf(const BlockedRanks& row, int32_t awaited) {
  for (const Want& want : row.wants)
    if (std::find(want.ranks.begin(), want.ranks.end(), awaited) != want.ranks.end())
      return fmt::format(" ({})", want.what);
  return "";
}

}  // namespace

std::string DescribeCircle(const std::vector<BlockedRanks>& all) {
  constexpr size_t kShown = 12;
  const Components components(all);
  for (const size_t row : components.order()) {
    std::vector<int32_t> ranks = ShortestCircle(all, components, row);
    if (ranks.empty())
      continue;
    std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()),
                ranks.end());
    std::string text;
    for (size_t i = 0; i < std::min(kShown, ranks.size()); ++i) {
      const int32_t other = ranks[(i + 1) % ranks.size()];
      text += fmt::format("{}rank {} {} rank {}{}", i == 0 ? "" : ", ", ranks[i],
                          i == 0 ? "waits for" : "for", other,
                          WhatOf(all[*components.RowOf(ranks[i])], other));
    }
    if (ranks.size() > kShown)
      text += fmt::format(", and so on by {} more to rank {}", ranks.size() - kShown,
                          ranks.front());
    return text;
  }
  return "";
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
