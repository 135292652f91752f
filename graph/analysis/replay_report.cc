// Puts a report together; see replay_report.h.

#include "graph/analysis/replay_report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace vrank::graph {
namespace {

void FindWaits(const Timeline& timeline, uint32_t rank, const Iteration& window,
               std::vector<Wait>& waits) {
  const PlayedRank& played = timeline.ranks()[rank];
  std::map<std::tuple<int32_t, std::string>, Wait> found;
  for (uint32_t i = 0; i < played.times.size(); ++i) {
    const OpKind kind = played.program->op(i).kind;
    const OpTimes& times = played.times[i];
    if ((kind != OpKind::kCollective && kind != OpKind::kTransfers) ||
        times.begin < window.begin_ns || times.begin >= window.end_ns)
      continue;
    const auto why = Explain(timeline, {rank, i});
    if (!why || why->ready_ns <= times.begin)
      continue;
    PathSegment segment;
    segment.kind = PathKind::kCommunication;
    segment.at = {rank, i};
    const int32_t awaited = timeline.ranks()[why->last.rank].world_rank;
    Wait& wait = found[{awaited, NameOf(timeline, segment)}];
    wait.waiting = played.world_rank;
    wait.awaited = awaited;
    wait.operation = NameOf(timeline, segment);
    wait.time_ns += why->ready_ns - times.begin;
    wait.ranks = played.ranks;
    ++wait.count;
  }
  for (auto& [key, wait] : found)
    waits.push_back(std::move(wait));
}

void AddCriticalPath(const Timeline& timeline, uint32_t rank, const Iteration& window,
                     ReplayReport& report) {
  const PathWalk walk(&timeline, true);
  std::map<std::tuple<PathKind, std::string, int32_t>, Contributor> parts;
  for (const PathSegment& segment :
       walk.FromPassed({rank, window.end_op}, window.begin_ns)) {
    const int32_t on = timeline.ranks()[segment.at.rank].world_rank;
    std::string name = NameOf(timeline, segment);
    Contributor& part = parts[{segment.kind, name, on}];
    part.kind = segment.kind;
    part.name = std::move(name);
    part.rank = on;
    part.time_ns += segment.length_ns();
    ++part.count;
    report.ledger_ns[segment.source] += segment.length_ns();
  }
  for (auto& [key, part] : parts)
    report.critical_path.push_back(std::move(part));
  std::stable_sort(
      report.critical_path.begin(), report.critical_path.end(),
      [](const Contributor& a, const Contributor& b) { return a.time_ns > b.time_ns; });
}

}  // namespace

std::string NameOf(const Timeline& timeline, const PathSegment& segment) {
  const Op& op = timeline.OpAt(segment.at);
  const Details& details = timeline.ranks()[segment.at.rank].program->details();
  switch (segment.kind) {
    case PathKind::kWork:
      if (op.kind == OpKind::kHostFunc)
        return "host_func";
      if (op.a < details.names.size() && !details.names[op.a].empty())
        return details.names[op.a];
      return op.work == WorkClass::kCopy     ? "copy"
             : op.work == WorkClass::kMemset ? "memset"
                                             : "kernel";
    case PathKind::kCommunication: {
      if (op.kind == OpKind::kCollective)
        return Name(details.collectives[op.b].operation);
      const auto why = Explain(timeline, segment.at);
      return why && why->is_send ? "send" : "receive";
    }
    case PathKind::kHost:
      return "host";
    case PathKind::kLatency:
      return "launch_latency";
    case PathKind::kPoll:
      return "poll";
    case PathKind::kCreation:
      return "create_communicator";
    case PathKind::kBefore:
      return "before";
  }
  return "";
}

std::vector<Iteration> FindIterations(
    const PlayedRank& rank, const std::function<bool(const std::string&)>& matches) {
  std::vector<Iteration> iterations;
  std::vector<bool> open;  // ranges: is it the iteration?
  bool inside = false;
  const auto& names = rank.program->details().names;
  for (uint32_t i = 0; i < rank.program->size(); ++i) {
    const Op& op = rank.program->op(i);
    if (op.kind == OpKind::kRangeBegin) {
      const bool begins =
          !inside && matches && op.a < names.size() && matches(names[op.a]);
      open.push_back(begins);
      if (begins) {
        inside = true;
        iterations.push_back({rank.times[i].passed, 0, i, i});
      }
    } else if (op.kind == OpKind::kRangeEnd && !open.empty()) {
      if (open.back()) {
        inside = false;
        iterations.back().end_ns = rank.times[i].passed;
        iterations.back().end_op = i;
      }
      open.pop_back();
    }
  }
  if (inside)
    iterations.pop_back();
  if (iterations.empty() && rank.program->size() > 0) {
    const auto last = static_cast<uint32_t>(rank.program->size() - 1);
    iterations.push_back({0, rank.times[last].passed, 0, last});
  }
  return iterations;
}

namespace {

// The memory op at which the most bytes are taken, the first of several; its program's
// size where none is.
uint64_t FindPeakOp(const Program& program) {
  int64_t bytes = 0, most = 0;
  uint64_t peak = program.size();
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.kind != OpKind::kMemory)
      continue;
    bytes += op.value;
    if (op.value >= 0 && bytes > most) {
      most = bytes;
      peak = i;
    }
  }
  return peak;
}

}  // namespace

MemoryPeak FindPeak(const PlayedRank& rank) {
  const Program& program = *rank.program;
  const uint64_t last = FindPeakOp(program);
  MemoryPeak peak;
  if (last == program.size())
    return peak;
  // Blocks by size and owner: the ranges that they were taken in, the latest at the
  // end, which is given back first.
  std::map<std::pair<int64_t, uint32_t>, std::vector<uint32_t>> live;
  std::vector<uint32_t> ranges;
  for (uint64_t i = 0; i <= last; ++i) {
    const Op& op = program.op(i);
    if (op.kind == OpKind::kRangeBegin)
      ranges.push_back(op.a);
    if (op.kind == OpKind::kRangeEnd && !ranges.empty())
      ranges.pop_back();
    if (op.kind != OpKind::kMemory)
      continue;
    peak.bytes += op.value;
    if (op.value >= 0) {
      live[{op.value, op.b}].push_back(ranges.empty() ? 0 : ranges.back());
      continue;
    }
    const auto gone = live.find({-op.value, op.b});
    if (gone != live.end() && !gone->second.empty())
      gone->second.pop_back();
  }
  for (const auto& [block, taken_in] : live) {
    const auto& [bytes, owner] = block;
    for (const uint32_t range : taken_in) {
      if (owner == static_cast<uint32_t>(MemoryOwner::kContext))
        peak.context_bytes += bytes;
      else if (owner == static_cast<uint32_t>(MemoryOwner::kCommunicator))
        peak.communicator_bytes += bytes;
      else
        peak.live_bytes[program.details().names[range]] += bytes;
    }
  }
  return peak;
}

ReplayReport MakeReport(const Timeline& timeline, const ReportOptions& options) {
  ReplayReport report;
  std::vector<uint32_t> present;
  std::vector<std::vector<Iteration>> iterations(timeline.ranks().size());
  size_t common = ~size_t{0};
  for (uint32_t rank = 0; rank < iterations.size(); ++rank) {
    const PlayedRank& played = timeline.ranks()[rank];
    if (!options.absent.empty() &&
        options.absent[static_cast<size_t>(played.world_rank)])
      continue;
    present.push_back(rank);
    iterations[rank] = FindIterations(played, options.is_iteration);
    common = std::min(common, iterations[rank].size());
  }
  if (present.empty() || common == 0)
    return report;
  report.iteration = std::min(options.iteration, common - 1);
  report.iteration_time_ns.resize(common);
  uint32_t critical = present.front();
  for (const uint32_t rank : present) {
    for (size_t i = 0; i < common; ++i) {
      report.iteration_time_ns[i] =
          std::max(report.iteration_time_ns[i], iterations[rank][i].length_ns());
    }
    const PlayedRank& played = timeline.ranks()[rank];
    const Iteration& window = iterations[rank][report.iteration];
    const int64_t longest = iterations[critical][report.iteration].length_ns();
    if (window.length_ns() > longest ||
        (window.length_ns() == longest &&
         played.world_rank < timeline.ranks()[critical].world_rank))
      critical = rank;
    report.classes.push_back({played.world_rank, played.ranks, iterations[rank],
                              BreakDown(timeline, rank, window), FindPeak(played)});
    FindWaits(timeline, rank, window, report.waits);
  }
  std::sort(report.classes.begin(), report.classes.end(),
            [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
  std::sort(report.waits.begin(), report.waits.end(), [](const Wait& a, const Wait& b) {
    return std::tuple(-a.time_ns, a.waiting, a.awaited, a.operation) <
           std::tuple(-b.time_ns, b.waiting, b.awaited, b.operation);
  });
  report.critical_rank = timeline.ranks()[critical].world_rank;
  AddCriticalPath(timeline, critical, iterations[critical][report.iteration], report);
  return report;
}

}  // namespace vrank::graph
