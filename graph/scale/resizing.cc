#include "graph/scale/resizing.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

namespace vrank::graph {

absl::StatusOr<Resizing> Resizing::Make(Layout from, Layout to) {
  const std::vector<Dimension>& old = from.dimensions();
  const std::vector<Dimension>& now = to.dimensions();
  const bool same = std::equal(
      old.begin(), old.end(), now.begin(), now.end(),
      [](const Dimension& a, const Dimension& b) { return a.name == b.name; });
  if (!same)
    return absl::InvalidArgumentError(fmt::format(
        "the layout {} is not that of the graph, {}, with another dp or pp: the same "
        "dimensions in the same order, each above 1",
        to.ToString(), from.ToString()));
  size_t resized = old.size();
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].size == now[i].size)
      continue;
    if (old[i].name != "dp" && old[i].name != "pp")
      return absl::InvalidArgumentError(fmt::format(
          "{}={} instead of {}: only dp and pp can change; with another {} every "
          "kernel would be another one: trace the job at that size",
          old[i].name, now[i].size, old[i].size, old[i].name));
    if (resized != old.size())
      return absl::InvalidArgumentError(
          "dp and pp both change: scale the graph along one, and the result along the "
          "other");
    resized = i;
  }
  if (resized == old.size())
    return absl::InvalidArgumentError(
        fmt::format("the graph has the layout {} already", from.ToString()));
  return Resizing(std::move(from), std::move(to), resized);
}

int32_t Resizing::RankAt(int32_t rank, int32_t place) const {
  int32_t moved = 0;
  for (size_t i = 0; i < from_.dimensions().size(); ++i)
    moved += (i == dimension_ ? place : from_.Coordinate(rank, i)) *
             to_.dimensions()[i].stride;
  return moved;
}

absl::StatusOr<int32_t> Resizing::Root(int32_t self, int32_t becomes,
                                       int32_t root) const {
  const int32_t place = OldPlace(root);
  if (!stages()) {
    if (place < new_size())
      return RankAt(root, place);
    return absl::FailedPreconditionError(
        fmt::format("rank {} as its root, a replica that is not among those of the "
                    "layout {}",
                    root, to_.ToString()));
  }
  if (place == 0)
    return RankAt(root, 0);
  if (place == old_size() - 1)
    return RankAt(root, new_size() - 1);
  if (place == OldPlace(self))
    return RankAt(root, NewPlace(becomes));
  return absl::FailedPreconditionError(fmt::format(
      "rank {} as its root, which is in stage {}; which stage that would be of {} is "
      "not known",
      root, place, new_size()));
}

absl::StatusOr<int32_t> Resizing::Peer(int32_t self, int32_t becomes,
                                       int32_t peer) const {
  const int32_t away = OldPlace(peer) - OldPlace(self);
  const bool is_known = stages() ? std::abs(away) <= 1 : away == 0;
  if (is_known)
    return RankAt(peer, NewPlace(becomes) + away);
  return absl::FailedPreconditionError(fmt::format(
      "rank {}, which is another {}; which one that would be in another number of them "
      "is not known",
      peer, stages() ? "stage and no neighbour" : "replica"));
}

absl::StatusOr<std::vector<int32_t>> Resizing::Stages(
    const std::vector<int32_t>& stages) const {
  const auto holds = [&](int32_t stage) {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  };
  const int32_t old_last = old_size() - 1, last = new_size() - 1;
  const bool others = holds(1);
  for (int32_t stage = 1; stage < old_last; ++stage) {
    if (holds(stage) != others)
      return absl::FailedPreconditionError(
          fmt::format("some of the stages between the first and the last make "
                      "communicators that the "
                      "others do not: which of {} stages would make them is not known",
                      new_size()));
  }
  std::vector<int32_t> now;
  for (int32_t stage = 0; stage <= last; ++stage) {
    if (stage == 0 ? holds(0) : stage == last ? holds(old_last) : others)
      now.push_back(stage);
  }
  return now;
}

uint64_t Resizing::ShareOf(uint64_t count) const {
  const auto old = static_cast<uint64_t>(old_size());
  const auto now = static_cast<uint64_t>(new_size());
  return (count * old + now - 1) / now;
}

}  // namespace vrank::graph
