// Where a rank's time goes; definitions in replay_report.h.

#include <algorithm>

#include "graph/analysis/replay_report.h"

namespace vrank::graph {
namespace {

struct Span {
  int64_t begin_ns, end_ns;
  uint32_t op;  // the one that begins it
};

bool Computes(const PlayedRank& rank, const Op& op) {
  return op.kind == OpKind::kWork && op.work != WorkClass::kCopy &&
         rank.CommunicationOf(op).empty();
}

bool Communicates(const PlayedRank& rank, const Op& op) {
  return op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers ||
         !rank.CommunicationOf(op).empty();
}

// When any computation runs, without overlaps, in order.
std::vector<Span> ComputeSpans(const PlayedRank& rank, const Iteration& window) {
  std::vector<Span> spans;
  for (uint32_t i = 0; i < rank.times.size(); ++i) {
    const OpTimes& times = rank.times[i];
    if (Computes(rank, rank.program->op(i)) && times.end > window.begin_ns &&
        times.begin < window.end_ns && times.end > times.begin)
      spans.push_back({times.begin, times.end, i});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin_ns < b.begin_ns;
  });
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && span.begin_ns <= merged.back().end_ns)
      merged.back().end_ns = std::max(merged.back().end_ns, span.end_ns);
    else
      merged.push_back(span);
  }
  return merged;
}

class Explainer {
 public:
  Explainer(const Timeline& timeline, uint32_t rank)
      : timeline_(timeline), rank_(rank), walk_(&timeline, false) {}

  // What the computation `op` waited for since `from_ns`; kNone: the window's end.
  void Gap(uint32_t op, const Iteration& window, int64_t from_ns) {
    const auto path = op != kNone ? walk_.FromBegin({rank_, op}, from_ns)
                      : window.end_work != kNone
                          ? walk_.FromEnd({rank_, window.end_work}, from_ns)
                          : walk_.FromPassed({rank_, window.end_op}, from_ns);
    for (const PathSegment& segment : path)
      Add(segment, std::min(segment.end_ns, window.end_ns));
  }

  Breakdown breakdown;

 private:
  void Add(const PathSegment& segment, int64_t end_ns) {
    const int64_t length = end_ns - segment.begin_ns;
    if (length <= 0)
      return;
    switch (segment.kind) {
      case PathKind::kWork:
        if (timeline_.OpAt(segment.at).kind == OpKind::kHostFunc)
          breakdown.host_bound_ns += length;
        else
          breakdown.copies_ns += length;
        break;
      case PathKind::kCommunication:
        AddCommunication(segment, end_ns);
        break;
      case PathKind::kUnexplained:
        breakdown.unexplained_ns += length;
        break;
      case PathKind::kHost:
        breakdown.host_ns[segment.source] += length;
        [[fallthrough]];
      case PathKind::kLatency:
      case PathKind::kPoll:
        breakdown.host_bound_ns += length;
        break;
      case PathKind::kCreation:
        breakdown.creation_ns += length;
        break;
      case PathKind::kBefore:
        breakdown.idle_ns += length;
        break;
    }
  }

  void AddCommunication(const PathSegment& segment, int64_t end_ns) {
    const auto found = Explain(timeline_, segment.at);
    const int64_t ready = found ? found->ready_ns : segment.begin_ns;
    const int64_t waiting =
        std::clamp(ready, segment.begin_ns, end_ns) - segment.begin_ns;
    int64_t exposed = end_ns - segment.begin_ns;
    if (found && found->is_transfer) {
      breakdown.bubble_ns += waiting;
      exposed -= waiting;
    } else {
      breakdown.exposed_wait_ns += waiting;
    }
    if (exposed > 0)
      breakdown.exposed_ns[NameOf(timeline_, segment)] += exposed;
  }

  const Timeline& timeline_;
  uint32_t rank_;
  PathWalk walk_;
};

}  // namespace

int64_t Breakdown::Sum() const {
  int64_t sum = compute_ns + bubble_ns + copies_ns + host_bound_ns + creation_ns +
                unexplained_ns + idle_ns;
  for (const auto& [operation, ns] : exposed_ns)
    sum += ns;
  return sum;
}

Breakdown BreakDown(const Timeline& timeline, uint32_t rank, const Iteration& window) {
  const PlayedRank& played = timeline.ranks()[rank];
  Explainer explainer(timeline, rank);
  const std::vector<Span> spans = ComputeSpans(played, window);
  int64_t at = window.begin_ns;
  for (const Span& span : spans) {
    if (span.begin_ns > at)
      explainer.Gap(span.op, window, at);
    const int64_t end = std::min(span.end_ns, window.end_ns);
    explainer.breakdown.compute_ns += end - std::max(span.begin_ns, at);
    at = end;
  }
  if (at < window.end_ns)
    explainer.Gap(kNone, window, at);
  for (uint32_t i = 0; i < played.times.size(); ++i) {
    if (!Communicates(played, played.program->op(i)))
      continue;
    const OpTimes& times = played.times[i];
    auto span = std::lower_bound(
        spans.begin(), spans.end(), times.begin,
        [](const Span& a, int64_t begin) { return a.end_ns <= begin; });
    int64_t overlap = 0;
    for (; span != spans.end() && span->begin_ns < times.end; ++span) {
      overlap += std::max<int64_t>(
          0, std::min({times.end, span->end_ns, window.end_ns}) -
                 std::max({times.begin, span->begin_ns, window.begin_ns}));
    }
    if (overlap > 0) {
      PathSegment segment;
      segment.kind = PathKind::kCommunication;
      segment.at = {rank, i};
      explainer.breakdown.overlapped_ns[NameOf(timeline, segment)] += overlap;
    }
  }
  return explainer.breakdown;
}

}  // namespace vrank::graph
