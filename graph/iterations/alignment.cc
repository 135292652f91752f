#include "graph/iterations/alignment.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vrank::graph {
namespace {

constexpr size_t kUnpaired = std::numeric_limits<size_t>::max();
// For a window that repeats one action (memsets, copies of parameters). It occurs in
// many places and identifies none.
constexpr size_t kSaysNothing = kUnpaired - 1;
// Long enough to tell the parts of a layer apart, short enough to survive an insertion.
constexpr size_t kLongestWindow = 6;
// Pairs that are asked whether they keep the distance of the one before them.
constexpr size_t kWitnesses = 32;
// Of the witnesses, and how many actions they may deviate.
constexpr double kAgreeing = 0.75;
constexpr size_t kSlack = 8;

bool IsOneAction(std::span<const uint32_t> window) {
  return window.size() > 2 &&
         std::all_of(window.begin(), window.end(),
                     [&](uint32_t action) { return action == window.front(); });
}

// A number for the window of actions that begins at each place.
std::vector<uint64_t> Windows(std::span<const uint32_t> actions, size_t length) {
  std::vector<uint64_t> windows;
  if (actions.size() < length)
    return windows;
  windows.reserve(actions.size() - length + 1);
  for (size_t at = 0; at + length <= actions.size(); ++at) {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by word
    for (size_t i = 0; i < length; ++i)
      hash = (hash ^ actions[at + i]) * 0x100000001b3;
    windows.push_back(hash);
  }
  return windows;
}

// Actions of a sequence, and their places.
struct PlacedActions {
  explicit PlacedActions(std::span<const uint32_t> of)
      : actions(of.begin(), of.end()), places(of.size()) {
    std::iota(places.begin(), places.end(), 0);
  }
  // Only actions of kinds that also occur in `other`.
  PlacedActions(std::span<const uint32_t> of, std::span<const uint32_t> other) {
    const std::unordered_set<uint32_t> kinds(other.begin(), other.end());
    for (size_t at = 0; at < of.size(); ++at) {
      if (!kinds.contains(of[at]))
        continue;
      actions.push_back(of[at]);
      places.push_back(at);
    }
  }
  // Whether the window stands together in the sequence, but for a few actions.
  bool IsTogether(size_t at, size_t length) const {
    return places[at + length - 1] - places[at] < length + kSlack;
  }
  std::vector<uint32_t> actions;
  std::vector<size_t> places;
};

// For each window of the reference, where the segment has it; equal windows in the
// order of their distance from the end.
std::vector<size_t> PairFromEnd(const PlacedActions& reference,
                                const PlacedActions& segment, size_t length) {
  std::unordered_map<uint64_t, std::vector<size_t>> places;
  const std::vector<uint64_t> there = Windows(segment.actions, length);
  for (size_t at = 0; at < there.size(); ++at)
    if (segment.IsTogether(at, length))
      places[there[at]].push_back(at);
  const std::vector<uint64_t> windows = Windows(reference.actions, length);
  std::vector<size_t> pairs(windows.size(), kUnpaired);
  for (size_t at = windows.size(); at-- > 0;) {
    if (!reference.IsTogether(at, length) ||
        IsOneAction(std::span(reference.actions).subspan(at, length))) {
      pairs[at] = kSaysNothing;
      continue;
    }
    const auto found = places.find(windows[at]);
    if (found == places.end() || found->second.empty())
      continue;
    pairs[at] = found->second.back();
    found->second.pop_back();
  }
  return pairs;
}

bool IsConfirmed(const std::vector<size_t>& pairs, size_t at) {
  size_t witnesses = 0, agreeing = 0;
  for (size_t i = at + 1; i < pairs.size() && witnesses < kWitnesses; ++i) {
    if (pairs[i] == kSaysNothing)
      continue;
    ++witnesses;
    if (pairs[i] == kUnpaired || pairs[i] < pairs[at])
      continue;
    const size_t there = pairs[i] - pairs[at], here = i - at;
    const size_t deviation = there > here ? there - here : here - there;
    agreeing += deviation <= kSlack ? 1 : 0;
  }
  return static_cast<double>(agreeing) >= kAgreeing * static_cast<double>(witnesses);
}

std::optional<AlignedPlaces> Align(const PlacedActions& reference,
                                   const PlacedActions& segment, size_t from) {
  const size_t length =
      std::clamp<size_t>(reference.actions.size() / 4, 1, kLongestWindow);
  const std::vector<size_t> pairs = PairFromEnd(reference, segment, length);
  for (size_t at = 0; at < pairs.size(); ++at)
    if (reference.places[at] >= from && pairs[at] < kSaysNothing &&
        IsConfirmed(pairs, at))
      return AlignedPlaces{reference.places[at], segment.places[pairs[at]]};
  return std::nullopt;
}

}  // namespace

std::optional<AlignedPlaces> FirstAligned(std::span<const uint32_t> reference,
                                          std::span<const uint32_t> segment,
                                          size_t from) {
  // Actions that occur in one sequence only also identify a place. Without them, copies
  // before the first iteration may match those at the end of later iterations.
  const auto aligned = Align(PlacedActions(reference), PlacedActions(segment), from);
  return aligned ? aligned
                 : Align(PlacedActions(reference, segment),
                         PlacedActions(segment, reference), from);
}

size_t FirstInOrder(std::span<const uint32_t> reference,
                    std::span<const uint32_t> segment, const AlignedPlaces& aligned) {
  constexpr size_t kShortWindow = 4;  // stretches between interruptions may be short
  std::unordered_map<uint64_t, std::vector<size_t>> places;
  const std::vector<uint64_t> there = Windows(segment, kShortWindow);
  for (size_t at = 0; at < std::min(there.size(), aligned.segment); ++at)
    places[there[at]].push_back(at);
  const std::vector<uint64_t> windows = Windows(reference, kShortWindow);
  size_t first = aligned.reference, before = aligned.segment, found = 0;
  for (size_t at = std::min(windows.size(), aligned.reference); at-- > 0;) {
    if (IsOneAction(reference.subspan(at, kShortWindow)))
      continue;
    const auto same = places.find(windows[at]);
    if (same == places.end())
      continue;
    const std::vector<size_t>& all = same->second;
    const auto after = std::lower_bound(all.begin(), all.end(), before);
    if (after == all.begin())
      continue;
    before = *std::prev(after);
    if (2 * ++found > aligned.reference - at)
      first = at;
  }
  return first;
}

double Similarity(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  const size_t larger = std::max(a.size(), b.size());
  if (larger == 0)
    return 1;
  std::unordered_map<uint32_t, size_t> left;
  for (const uint32_t action : a)
    ++left[action];
  size_t common = 0;
  for (const uint32_t action : b) {
    const auto found = left.find(action);
    if (found == left.end() || found->second == 0)
      continue;
    --found->second;
    ++common;
  }
  return static_cast<double>(common) / static_cast<double>(larger);
}

}  // namespace vrank::graph
