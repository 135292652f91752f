#include "graph/iterations/collective_rhythm.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vrank::graph {
namespace {

using Calls = std::span<const uint32_t>;

// Fewer are no rhythm.
constexpr size_t kLeastIterations = 3;
// A reduction of so few bytes, or of so small a part of the largest one, is a loss, a
// norm or a flag.
constexpr uint64_t kFewBytes = 64;
constexpr uint64_t kSmallPart = 1000;
// What is looked at to find a sequence; the whole run is compared with it.
constexpr size_t kSample = 8192;
// Kinds that a sequence may end with, those first that are called least; and how often
// it may have that kind.
constexpr size_t kMostAnchors = 32;
constexpr size_t kMostOfAnchor = 8;
// Of the calls from the first to the last explained one.
constexpr double kExplained = 0.5;       // of one communicator's large reductions
constexpr double kExplainedOfAll = 0.9;  // of all communication

// ---- A sequence of kinds that comes again and again ----

// The places of its first and last call.
struct Place {
  size_t first = 0, last = 0;
};

// Where `sequence` stands in `calls`, with some other calls in between, but not more
// than it has itself: then it is no place of its own. In order, disjoint.
std::vector<Place> PlacesOf(Calls calls, Calls sequence) {
  std::vector<Place> places;
  const size_t length = sequence.size(), longest = 2 * length + 2;
  size_t free = 0;
  for (size_t at = length - 1; at < calls.size(); ++at) {
    if (calls[at] != sequence.back() || at + 1 - free < length)
      continue;
    const size_t lowest = std::max(free, at + 1 - std::min(at + 1, longest));
    size_t first = at, left = length - 1;
    while (left > 0 && first > lowest)
      if (calls[--first] == sequence[left - 1])
        --left;
    if (left > 0)
      continue;
    places.push_back({first, at});
    free = at + 1;
  }
  return places;
}

// Hashes of any stretch of the calls.
class StretchHashes {
 public:
  explicit StretchHashes(Calls calls) : sums_{0}, powers_{1} {
    for (const uint32_t call : calls) {
      sums_.push_back(sums_.back() * kFactor + call + 1);
      powers_.push_back(powers_.back() * kFactor);
    }
  }
  uint64_t Of(size_t begin, size_t end) const {
    return sums_[end] - sums_[begin] * powers_[end - begin];
  }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::vector<uint64_t> sums_, powers_;
};

bool HasOneKind(Calls calls) {
  return std::all_of(calls.begin(), calls.end(),
                     [&](uint32_t call) { return call == calls.front(); });
}

// The sequence as it stands earliest: the calls ahead of its first place may be its
// end. REQUIRES: it stands in `calls`.
std::vector<uint32_t> TurnedBack(Calls calls, Calls sequence) {
  const size_t first = PlacesOf(calls, sequence).front().first;
  size_t turns = 0;
  while (turns < first && calls[first - turns - 1] ==
                              sequence[sequence.size() - 1 - turns % sequence.size()])
    ++turns;
  std::vector<uint32_t> turned(sequence.begin(), sequence.end());
  std::rotate(turned.begin(),
              turned.end() - static_cast<ptrdiff_t>(turns % sequence.size()),
              turned.end());
  return turned;
}

// The most frequent stretch from behind a call of `anchor` to its `count`th call from
// there on.
std::optional<Calls> StretchBetween(Calls calls, const StretchHashes& hashes,
                                    const std::vector<size_t>& anchor, size_t count) {
  std::unordered_map<uint64_t, std::pair<size_t, size_t>>
      found;  // how often; the first
  std::pair<size_t, size_t> best{0, 0};
  for (size_t i = 0; i + count < anchor.size(); ++i) {
    const size_t begin = anchor[i] + 1, end = anchor[i + count] + 1;
    auto& [times, first] = found.try_emplace(hashes.Of(begin, end), 0, i).first->second;
    if (++times > best.first)
      best = {times, first};
  }
  if (best.first < 2)
    return std::nullopt;
  const size_t begin = anchor[best.second] + 1;
  return calls.subspan(begin, anchor[best.second + count] + 1 - begin);
}

struct Rhythm {
  std::vector<uint32_t> sequence;  // empty: there is none
  std::vector<Place> places;
  double explained = 0;  // of the calls from the first to the last place
};

// Of sequences of several kinds.
Rhythm FindRhythm(Calls calls) {
  const Calls sample = calls.first(std::min(calls.size(), kSample));
  std::map<uint32_t, std::vector<size_t>> anchors;
  for (size_t at = 0; at < sample.size(); ++at)
    anchors[sample[at]].push_back(at);
  std::vector<const std::vector<size_t>*> order;
  for (const auto& [kind, places] : anchors)
    if (places.size() >= 2)
      order.push_back(&places);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->size() < b->size(); });
  order.resize(std::min(order.size(), kMostAnchors));
  const StretchHashes hashes(sample);
  Rhythm best;
  size_t best_unexplained = 0;
  std::set<std::vector<uint32_t>> seen;
  for (const std::vector<size_t>* anchor : order) {
    for (size_t count = 1; count <= kMostOfAnchor; ++count) {
      const auto stretch = StretchBetween(sample, hashes, *anchor, count);
      if (!stretch || HasOneKind(*stretch))
        continue;
      std::vector<uint32_t> sequence = TurnedBack(sample, *stretch);
      if (!seen.insert(sequence).second)
        continue;
      const size_t places = PlacesOf(sample, sequence).size();
      if (places < 2)
        continue;
      const size_t unexplained = sample.size() - places * sequence.size();
      if (best.sequence.empty() ||
          std::pair(unexplained, sequence.size()) <
              std::pair(best_unexplained, best.sequence.size())) {
        best.sequence = std::move(sequence);
        best_unexplained = unexplained;
      }
    }
  }
  if (best.sequence.empty())
    return best;
  best.places = PlacesOf(calls, best.sequence);
  best.explained =
      static_cast<double>(best.places.size() * best.sequence.size()) /
      static_cast<double>(best.places.back().last + 1 - best.places.front().first);
  return best;
}

// ---- What it is looked for in ----

// Some of all calls, by their places.
struct Selection {
  std::vector<uint32_t> calls;
  std::vector<size_t> places;
};

template <typename Wanted>
Selection Select(Calls calls, size_t kinds, Wanted wanted) {
  std::vector<size_t> times(kinds, 0);
  for (const uint32_t call : calls)
    ++times[call];
  Selection selection;
  for (size_t at = 0; at < calls.size(); ++at) {
    if (times[calls[at]] < kLeastIterations || !wanted(calls[at]))
      continue;
    selection.calls.push_back(calls[at]);
    selection.places.push_back(at);
  }
  return selection;
}

// True by kind.
std::vector<bool> LargeReductions(Calls calls,
                                  std::span<const CommunicationKind> kinds) {
  std::vector<size_t> times(kinds.size(), 0);
  for (const uint32_t call : calls)
    ++times[call];
  uint64_t largest = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    if (kinds[kind].reduces && times[kind] >= kLeastIterations)
      largest = std::max(largest, kinds[kind].bytes);
  std::vector<bool> large(kinds.size(), false);
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    large[kind] = kinds[kind].reduces && kinds[kind].bytes > kFewBytes &&
                  kinds[kind].bytes >= largest / kSmallPart;
  return large;
}

// ---- Where iterations begin and end ----

// The first iteration's buckets: large reductions ahead of the first place that come to
// the bytes of the sequence. The place of the last one, from where they do; nullopt:
// they do not.
std::optional<Place> OtherBuckets(Calls calls, std::span<const CommunicationKind> kinds,
                                  const std::vector<bool>& large, const Rhythm& rhythm,
                                  size_t first) {
  uint64_t wanted = 0;
  for (const uint32_t call : rhythm.sequence)
    wanted += kinds[call].bytes;
  const uint32_t communicator = kinds[rhythm.sequence.front()].communicator;
  std::optional<size_t> last;
  uint64_t bytes = 0;
  for (size_t at = first; at > 0 && bytes < wanted; --at) {
    const CommunicationKind& kind = kinds[calls[at - 1]];
    if (kind.communicator != communicator || !kind.reduces ||
        (!large[calls[at - 1]] && kind.bytes <= kFewBytes))
      continue;
    last = last.value_or(at - 1);
    bytes += kind.bytes;
    if (bytes == wanted)
      return Place{at - 1, *last};
  }
  return std::nullopt;
}

// What may stand between two iterations for the later one to begin with it, of the
// calls of an iteration. More is an evaluation or a checkpoint.
constexpr double kShort = 0.5;

std::vector<ActionSpan> SpansOf(const std::vector<Place>& places) {
  std::vector<ActionSpan> spans;
  std::vector<size_t> lengths;  // from one end to the next
  for (size_t i = 1; i < places.size(); ++i)
    lengths.push_back(places[i].last - places[i - 1].last);
  std::nth_element(lengths.begin(), lengths.begin() + lengths.size() / 2,
                   lengths.end());
  const auto usual = static_cast<double>(lengths[lengths.size() / 2]);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t before = i == 0 ? 0 : places[i - 1].last + 1;
    const bool adjacent = i > 0 && static_cast<double>(places[i].last + 1 - before) <=
                                       (1 + kShort) * usual;
    spans.push_back({adjacent ? before : places[i].first, places[i].last + 1});
  }
  return spans;
}

}  // namespace

FoundIterations FindIterationsByCommunication(
    Calls calls, std::span<const CommunicationKind> kinds) {
  FoundIterations found;
  found.evidence = IterationEvidence::kCommunication;
  const std::vector<bool> large = LargeReductions(calls, kinds);
  std::set<uint32_t> communicators;
  for (const uint32_t call : calls)
    if (large[call])
      communicators.insert(kinds[call].communicator);
  Rhythm best;
  Selection selection;
  const auto consider = [&](Selection candidates, double least) {
    Rhythm rhythm = FindRhythm(candidates.calls);
    if (rhythm.sequence.empty() || rhythm.explained < least ||
        rhythm.explained <= best.explained)
      return;
    best = std::move(rhythm);
    selection = std::move(candidates);
  };
  for (const uint32_t communicator : communicators)
    consider(Select(calls, kinds.size(),
                    [&](uint32_t call) {
                      return large[call] && kinds[call].communicator == communicator;
                    }),
             kExplained);
  const bool by_reductions = !best.sequence.empty();
  if (!by_reductions)
    consider(Select(calls, kinds.size(), [](uint32_t) { return true; }),
             kExplainedOfAll);
  if (best.sequence.empty())
    return found;
  std::vector<Place> places;
  for (const Place& place : best.places)
    places.push_back({selection.places[place.first], selection.places[place.last]});
  if (by_reductions)
    if (const auto other =
            OtherBuckets(calls, kinds, large, best, places.front().first))
      places.insert(places.begin(), *other);
  if (places.size() < kLeastIterations)
    return found;
  found.regularity = best.explained;
  found.spans = SpansOf(places);
  return found;
}

}  // namespace vrank::graph
