#include "graph/iterations/iteration_finder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "graph/iterations/alignment.h"
#include "graph/iterations/micro_batch.h"

namespace vrank::graph {
namespace {

using Actions = std::span<const uint32_t>;

Actions Of(Actions actions, const ActionSpan& span) {
  return actions.subspan(span.begin, span.size());
}

// ---- Bursts of updates ----

// Distances between updates fall into those within a burst and those between bursts:
// the largest ratio of neighbours in their order divides them. Below this ratio they
// are all of one kind.
constexpr double kDistinct = 3;

// The least distance that is one between bursts.
size_t BurstDistance(const std::vector<size_t>& updates) {
  std::vector<size_t> distances;
  for (size_t i = 1; i < updates.size(); ++i)
    distances.push_back(updates[i] - updates[i - 1]);
  std::sort(distances.begin(), distances.end());
  size_t least = distances.front();
  double largest = kDistinct;
  for (size_t i = 1; i < distances.size(); ++i) {
    const double ratio =
        static_cast<double>(distances[i]) / static_cast<double>(distances[i - 1]);
    if (ratio >= largest) {
      largest = ratio;
      least = distances[i];
    }
  }
  // Each update is its own burst only where something stands between them.
  return std::max<size_t>(least, 2);
}

// Segments that end with a burst, the first from the beginning of the sequence.
std::vector<ActionSpan> SegmentsByUpdates(Actions actions,
                                          const std::vector<bool>& updates) {
  std::vector<size_t> places;
  for (size_t at = 0; at < actions.size(); ++at)
    if (updates[actions[at]])
      places.push_back(at);
  std::vector<ActionSpan> segments;
  if (places.size() < 2)
    return segments;
  const size_t distance = BurstDistance(places);
  size_t begin = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const bool last = i + 1 == places.size();
    if (!last && places[i + 1] - places[i] < distance)
      continue;
    segments.push_back({begin, places[i] + 1});
    begin = places[i] + 1;
  }
  return segments;
}

// ---- The reference ----

// Segments as similar as this do the same work.
constexpr double kSameWork = 0.8;

// Segments whose lengths differ by this share at most are of one length.
constexpr double kOneLength = 0.02;

// Behind the first segment, the shortest one whose length another segment has, too:
// longer ones hold an evaluation, too. Where all lengths differ, the one of median
// length. REQUIRES: two or more segments.
size_t ReferenceOf(const std::vector<ActionSpan>& segments) {
  std::vector<size_t> order;
  for (size_t i = 1; i < segments.size(); ++i)
    order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(segments[a].size(), a) < std::pair(segments[b].size(), b);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto shorter = static_cast<double>(segments[order[i - 1]].size());
    if (static_cast<double>(segments[order[i]].size()) <= shorter * (1 + kOneLength))
      return order[i - 1];
  }
  return order[order.size() / 2];
}

// ---- Several bursts in one iteration ----

constexpr size_t kMostKinds = 8;

// Segments from `first` on whose kinds repeat every `length`.
struct Cycle {
  size_t first = 1, length = 1;
};

// The kind of each segment but the first; empty where there are too many kinds.
std::vector<size_t> KindsOf(Actions actions, const std::vector<ActionSpan>& segments) {
  std::vector<size_t> kinds;
  std::vector<size_t> examples;
  for (size_t i = 1; i < segments.size(); ++i) {
    const Actions segment = Of(actions, segments[i]);
    size_t kind = 0;
    for (; kind < examples.size(); ++kind) {
      const Actions example = Of(actions, segments[examples[kind]]);
      // An evaluation before the iteration is no other kind: the shorter one's length.
      const size_t length = std::min(segment.size(), example.size());
      if (Similarity(segment.last(length), example.last(length)) >= kSameWork)
        break;
    }
    if (kind == examples.size()) {
      if (examples.size() == kMostKinds)
        return {};
      examples.push_back(i);
    }
    kinds.push_back(kind);
  }
  return kinds;
}

// Several segments may be one iteration (two optimizers; gradients are clipped, ranks
// exchange their norm, parameters are updated): the shortest cycle of their kinds, from
// as early on as there is one, since a first iteration may have more segments. Length
// 1: they are alike, or follow no cycle for half of the run.
Cycle FindCycle(Actions actions, const std::vector<ActionSpan>& segments) {
  const std::vector<size_t> kinds = KindsOf(actions, segments);
  for (size_t first = 0; 2 * first <= kinds.size(); ++first) {
    for (size_t length = 1; length <= kMostKinds && first + 2 * length <= kinds.size();
         ++length) {
      if (std::equal(kinds.begin() + static_cast<ptrdiff_t>(first + length),
                     kinds.end(), kinds.begin() + static_cast<ptrdiff_t>(first)))
        return {first + 1, length};
    }
  }
  return {};
}

// A segment that has little of what another one does.
constexpr double kUnlike = 0.3;

// True if a segment before the cycle begins an iteration: `longest` is the most similar
// segment of the cycle, or none is similar. The first iteration may have additional
// segments, since it creates the optimizer's state between its updates.
bool Begins(Actions actions, const std::vector<ActionSpan>& segments, size_t segment,
            const Cycle& cycle, size_t longest) {
  double most = kUnlike;
  size_t alike = longest;
  for (size_t i = cycle.first; i < cycle.first + cycle.length; ++i) {
    const double similarity =
        Similarity(Of(actions, segments[segment]), Of(actions, segments[i]));
    if (similarity <= most)
      continue;
    most = similarity;
    alike = i;
  }
  return alike == longest;
}

// An iteration ends with the last segment of its cycle: the one before the segment that
// has most actions, which holds forward and backward passes.
std::vector<ActionSpan> Join(Actions actions, const std::vector<ActionSpan>& segments,
                             const Cycle& cycle) {
  if (cycle.length == 1)
    return segments;
  size_t longest = cycle.first;
  for (size_t i = 0; i < cycle.length; ++i)
    if (segments[cycle.first + i].size() > segments[longest].size())
      longest = cycle.first + i;
  std::vector<ActionSpan> joined;
  size_t begin = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool ends = i + 1 < cycle.first
                          ? Begins(actions, segments, i + 1, cycle, longest)
                          : (i + 1) % cycle.length == longest % cycle.length;
    if (!ends)
      continue;
    joined.push_back({begin, segments[i].end});
    begin = segments[i].end;
  }
  return joined;
}

// A first iteration may do something between its updates (it creates the optimizer's
// state): a segment that has little of what the reference does ends the one before.
std::vector<ActionSpan> JoinUnlike(Actions actions,
                                   const std::vector<ActionSpan>& segments,
                                   const ActionKinds& kinds) {
  const Actions reference = Of(actions, segments[ReferenceOf(segments)]);
  const MicroBatch micro_batch(reference, kinds);
  std::vector<ActionSpan> joined;
  for (const ActionSpan& span : segments) {
    const Actions segment = Of(actions, span);
    const double common =
        Similarity(segment, reference) *
        static_cast<double>(std::max(segment.size(), reference.size()));
    if (!joined.empty() && common < kUnlike * static_cast<double>(reference.size()) &&
        !micro_batch.IsIn(segment))
      joined.back().end = span.end;
    else
      joined.push_back(span);
  }
  return joined;
}

// ---- Where an iteration begins ----

size_t CommonPrefix(Actions a, Actions b) {
  const size_t length = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(length), b.begin())
          .first -
      a.begin());
}

// What stands between two iterations and computes nothing, or is short beside them, is
// a line of a log (the loss is read every ten iterations), no evaluation.
constexpr double kShort = 0.1;  // of the reference

size_t CountKernels(Actions actions, const ActionKinds& kinds) {
  return static_cast<size_t>(
      std::count_if(actions.begin(), actions.end(),
                    [&](uint32_t action) { return kinds.computes[action]; }));
}
bool Computes(Actions actions, const ActionKinds& kinds) {
  return CountKernels(actions, kinds) != 0;
}

// Where the iteration of `segment` begins: there where it aligns with the reference, of
// which the first `phase` actions end the iteration before. Actions that this segment
// alone has may stand behind the first ones of the iteration (DistributedDataParallel
// waits for its events in the first ten, and exchanges the order of its buckets in the
// second). An evaluation begins as an iteration does, too: it computes, and has no part
// of the iteration's beginning to itself.
size_t BeginOf(Actions segment, Actions reference, size_t phase,
               const MicroBatch& micro_batch, const ActionKinds& kinds) {
  const auto aligned = FirstAligned(reference, segment, phase);
  if (!aligned)
    return 0;
  const size_t skipped = aligned->reference - phase;
  size_t begin = micro_batch.BeginOf(*aligned, phase);
  begin = micro_batch.BeginOfFirst(segment, begin);
  const size_t alike = CommonPrefix(reference, segment);
  if (begin <= phase || alike <= phase)
    return begin;
  const Actions inserted = segment.subspan(phase, begin - phase);
  const bool is_part = skipped > 0 && alike >= aligned->reference &&
                       inserted.size() < reference.size() / 2 &&
                       static_cast<double>(CountKernels(inserted, kinds)) <=
                           kShort * static_cast<double>(CountKernels(reference, kinds));
  return is_part || !Computes(inserted, kinds) ? phase : begin;
}

// Whether `lead`, which precedes an iteration, is `end` with a line of a log in it.
bool EndsTheOneBefore(Actions lead, Actions end, size_t reference) {
  const double common =
      Similarity(lead, end) * static_cast<double>(std::max(lead.size(), end.size()));
  const double rest = static_cast<double>(lead.size()) - common;
  return common >= kSameWork * static_cast<double>(end.size()) &&
         rest <= kShort * static_cast<double>(reference);
}

// Behind the updates a segment may hold what ends the iteration (gradients set to zero,
// the loss read): that part of the reference which the first segment does not have,
// since nothing ended before it, and which stands behind the last update, too, where no
// other iteration begins (if the last segment is an iteration).
std::vector<ActionSpan> Trim(Actions actions, const std::vector<ActionSpan>& segments,
                             const ActionSpan& reference_span,
                             const ActionKinds& kinds) {
  const Actions reference = Of(actions, reference_span);
  const auto first = FirstAligned(reference, Of(actions, segments.front()), 0);
  // A first segment that a compiler interrupts aligns only behind the interruptions.
  size_t phase =
      first ? FirstInOrder(reference, Of(actions, segments.front()), *first) : 0;
  if (phase > reference.size() / 2)
    phase = 0;
  const Actions last = Of(actions, segments.back());
  const size_t length = std::min(last.size(), reference.size());
  if (Similarity(last.last(length), reference.last(length)) >= kSameWork)
    phase = std::min(phase, CommonPrefix(reference.first(phase),
                                         actions.subspan(segments.back().end)));
  const MicroBatch micro_batch(reference.subspan(phase), kinds);
  const Actions end = reference.first(phase);
  std::vector<ActionSpan> iterations = segments;
  for (ActionSpan& iteration : iterations)
    iteration.begin +=
        BeginOf(Of(actions, iteration), reference, phase, micro_batch, kinds);
  // What ends an iteration stands at the beginning of what follows.
  for (size_t i = 0; i < iterations.size(); ++i) {
    const size_t before = segments[i].end;
    size_t length = CommonPrefix(end, actions.subspan(before));
    if (length < phase && i + 1 < iterations.size()) {
      const Actions lead = actions.subspan(before, iterations[i + 1].begin - before);
      if (EndsTheOneBefore(lead, end, reference.size()))
        length = lead.size();
    }
    iterations[i].end = before + length;
  }
  // An iteration that the one before reaches over is empty: no iteration.
  for (size_t i = 1; i < iterations.size(); ++i) {
    iterations[i].begin = std::max(iterations[i].begin, iterations[i - 1].end);
    iterations[i].end = std::max(iterations[i].end, iterations[i].begin);
  }
  return iterations;
}

// A line of a log ends the iteration before, so that the time of all of them adds up.
void EndWithWhatIsLogged(Actions actions, const ActionKinds& kinds, size_t reference,
                         std::vector<ActionSpan>& iterations) {
  for (size_t i = 1; i < iterations.size(); ++i) {
    const ActionSpan between{iterations[i - 1].end, iterations[i].begin};
    const bool is_short =
        static_cast<double>(between.size()) <= kShort * static_cast<double>(reference);
    if (is_short || !Computes(Of(actions, between), kinds))
      iterations[i - 1].end = iterations[i].begin;
  }
}

FoundIterations ByUpdates(Actions actions, const ActionKinds& kinds) {
  FoundIterations found;
  std::vector<ActionSpan> segments = SegmentsByUpdates(actions, kinds.updates);
  if (segments.size() < 2)
    return found;
  segments = Join(actions, segments, FindCycle(actions, segments));
  if (segments.size() >= 2)
    segments = JoinUnlike(actions, segments, kinds);
  if (segments.size() < 2)
    return found;
  const ActionSpan reference = segments[ReferenceOf(segments)];
  const MicroBatch micro_batch(Of(actions, reference), kinds);
  found.evidence = IterationEvidence::kOptimizer;
  found.regularity = 1;
  for (const ActionSpan& span : Trim(actions, segments, reference, kinds)) {
    const double similarity = Similarity(Of(actions, span), Of(actions, reference));
    if (similarity < kUnlike && !micro_batch.IsIn(Of(actions, span)))
      continue;
    if (!found.spans.empty())
      found.regularity = std::min(found.regularity, similarity);
    found.spans.push_back(span);
  }
  if (found.spans.size() < 2)
    found.spans.clear();
  EndWithWhatIsLogged(actions, kinds, reference.size(), found.spans);
  return found;
}

// ---- Steps of optimizers ----

struct Step {
  size_t at = 0;           // the action
  uint32_t optimizer = 0;  // whose
};

std::vector<Step> StepsIn(Actions actions, const ActionKinds& kinds) {
  std::vector<Step> steps;
  for (size_t at = 0; at < actions.size(); ++at)
    if (const auto found = kinds.steps.find(actions[at]); found != kinds.steps.end())
      steps.push_back({at, found->second});
  return steps;
}

// An optimizer may step once per group of parameters (DeepSpeed). Between such steps
// little is computed: no more than so many kernels, and less than this share of what is
// between those neighbours between which there is most, evaluations left aside.
constexpr size_t kMostInGroup = 32;
constexpr size_t kGroupShare = 8;

// The last of the steps that one optimizer takes in a row without a backward pass.
std::vector<Step> LastOfGroups(Actions actions, const std::vector<Step>& steps,
                               const ActionKinds& kinds) {
  std::vector<size_t> computed;  // behind each step but the last
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const Actions between = actions.subspan(steps[i].at, steps[i + 1].at - steps[i].at);
    computed.push_back(static_cast<size_t>(
        std::count_if(between.begin(), between.end(), [&](uint32_t action) {
          return kinds.computes[action] && !kinds.updates[action];
        })));
  }
  std::vector<size_t> order = computed;
  std::sort(order.begin(), order.end());
  const size_t most = order.empty() ? 0 : order[(order.size() - 1) * 5 / 6];
  std::vector<Step> last;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool goes_on =
        i + 1 < steps.size() && steps[i + 1].optimizer == steps[i].optimizer &&
        computed[i] <= kMostInGroup && computed[i] * kGroupShare < most;
    if (!goes_on)
      last.push_back(steps[i]);
  }
  return last;
}

// The shortest cycle of the optimizers, from as early on as there is one, the first
// half at the latest. Read backwards, a cycle is a period of a prefix: the shortest one
// of each is what the longest border (Knuth, Morris and Pratt's table) leaves.
Cycle CycleOf(const std::vector<Step>& steps) {
  const size_t count = steps.size();
  const auto from_end = [&](size_t i) { return steps[count - 1 - i].optimizer; };
  Cycle cycle{0, 1};
  std::vector<size_t> border(count + 1, 0);  // by length of the prefix
  for (size_t length = 1; length <= count; ++length) {
    if (length > 1) {
      size_t known = border[length - 1];
      while (known > 0 && from_end(known) != from_end(length - 1))
        known = border[known];
      border[length] = known + (from_end(known) == from_end(length - 1) ? 1 : 0);
    }
    const size_t period = length - border[length];
    if (2 * period <= length && 2 * (count - length) <= count)
      cycle = {count - length, period};
  }
  return cycle;
}

// Segments that end with an iteration's last step. Those before the cycle, if any, end
// with each step; steps of a cycle that is cut off are none's.
std::vector<ActionSpan> SegmentsBySteps(const std::vector<Step>& steps) {
  const Cycle cycle = CycleOf(steps);
  std::vector<ActionSpan> segments;
  size_t begin = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i >= cycle.first && (i - cycle.first + 1) % cycle.length != 0)
      continue;
    segments.push_back({begin, steps[i].at + 1});
    begin = steps[i].at + 1;
  }
  return segments;
}

FoundIterations BySteps(Actions actions, const ActionKinds& kinds) {
  FoundIterations found;
  const std::vector<Step> steps = StepsIn(actions, kinds);
  if (steps.size() < 2)
    return found;
  const std::vector<ActionSpan> segments =
      SegmentsBySteps(LastOfGroups(actions, steps, kinds));
  if (segments.size() < 2)
    return found;
  const auto updates = [&](Actions some) {
    return std::count_if(some.begin(), some.end(),
                         [&](uint32_t action) { return kinds.updates[action]; });
  };
  ptrdiff_t most = 0;
  for (const ActionSpan& segment : segments)
    most = std::max(most, updates(Of(actions, segment)));
  if (updates(actions.subspan(steps.back().at)) > most)
    return found;
  const ActionSpan reference = segments[ReferenceOf(segments)];
  found.evidence = IterationEvidence::kOptimizer;
  found.regularity = 1;
  found.spans = Trim(actions, segments, reference, kinds);
  for (size_t i = 1; i < found.spans.size(); ++i)
    found.regularity =
        std::min(found.regularity,
                 Similarity(Of(actions, found.spans[i]), Of(actions, reference)));
  EndWithWhatIsLogged(actions, kinds, reference.size(), found.spans);
  return found;
}

// ---- Periods ----

constexpr size_t kWindow = 4;           // actions that are looked up together
constexpr size_t kMostCandidates = 64;  // periods that are tried
constexpr size_t kLeastPeriods = 3;
constexpr double kRepeating = 0.98;  // of the actions from the first repeated one on
constexpr double kEquallyGood = 0.002;
// Of all actions. Less is a loop within an iteration: the layers of one backward pass.
constexpr double kCovered = 2.0 / 3;

// Distances at which windows of actions come again, those first that explain most.
std::vector<size_t> CandidatePeriods(Actions actions) {
  std::unordered_map<uint64_t, size_t> last;
  std::unordered_map<size_t, size_t> explained;  // distance -> actions
  for (size_t at = 0; at + kWindow <= actions.size(); ++at) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < kWindow; ++i)
      hash = (hash ^ actions[at + i]) * 0x100000001b3;
    const auto [place, is_new] = last.try_emplace(hash, at);
    if (is_new)
      continue;
    explained[at - place->second] += at - place->second;
    place->second = at;
  }
  std::vector<std::pair<size_t, size_t>> order;
  for (const auto& [distance, actions_there] : explained)
    if (distance * kLeastPeriods <= actions.size())
      order.emplace_back(actions_there, distance);
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<size_t> candidates;
  for (size_t i = 0; i < std::min(order.size(), kMostCandidates); ++i)
    candidates.push_back(order[i].second);
  return candidates;
}

struct Period {
  size_t length = 0, first = 0;  // first: the first action that comes again
  double repeating = 0;
};

// The longest stretch in which nearly every action equals that one period before.
Period Examine(Actions actions, size_t length) {
  // From the first window of a whole period on that repeats.
  Period period{length, 0, 0};
  std::vector<size_t> equal(actions.size() + 1, 0);  // before each place
  for (size_t at = 0; at < actions.size(); ++at)
    equal[at + 1] =
        equal[at] + (at >= length && actions[at] == actions[at - length] ? 1 : 0);
  size_t begin = length;
  while (begin + length <= actions.size() &&
         static_cast<double>(equal[begin + length] - equal[begin]) <
             kRepeating * static_cast<double>(length))
    ++begin;
  while (begin < actions.size() && equal[begin + 1] == equal[begin])
    ++begin;
  if (begin >= actions.size())
    return period;
  period.first = begin - length;
  period.repeating = static_cast<double>(equal.back() - equal[begin]) /
                     static_cast<double>(actions.size() - begin);
  return period;
}

FoundIterations ByPeriod(Actions actions, const std::vector<bool>& works) {
  FoundIterations found;
  Period best;
  for (const size_t length : CandidatePeriods(actions)) {
    const Period period = Examine(actions, length);
    const size_t whole = (actions.size() - period.first) / length;
    const double covered = static_cast<double>(actions.size() - period.first) /
                           static_cast<double>(actions.size());
    if (period.repeating < kRepeating || whole < kLeastPeriods || covered < kCovered)
      continue;
    const bool better = period.repeating > best.repeating + kEquallyGood;
    const bool as_good = period.repeating > best.repeating - kEquallyGood;
    if (better || (as_good && length < best.length))
      best = period;
  }
  const Actions repeated = actions.subspan(best.first, best.length);
  if (std::none_of(repeated.begin(), repeated.end(),
                   [&](uint32_t action) { return works[action]; }))
    return found;
  found.evidence = IterationEvidence::kPeriod;
  found.regularity = best.repeating;
  for (size_t at = best.first; at + best.length <= actions.size(); at += best.length)
    found.spans.push_back({at, at + best.length});
  return found;
}

}  // namespace

const char* Name(IterationEvidence evidence) {
  switch (evidence) {
    case IterationEvidence::kAnnotation:
      return "annotation";
    case IterationEvidence::kOptimizer:
      return "optimizer";
    case IterationEvidence::kPeriod:
      return "period";
    case IterationEvidence::kCommunication:
      return "communication";
  }
  return "";
}

FoundIterations FindIterations(Actions actions, const ActionKinds& kinds) {
  FoundIterations found = BySteps(actions, kinds);
  if (found.spans.empty())
    found = ByUpdates(actions, kinds);
  return found.spans.empty() ? ByPeriod(actions, kinds.works) : found;
}

}  // namespace vrank::graph
