#include "tools/compare/run_comparison.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace vrank::tools {
namespace {

using IterationsByRank = std::map<int32_t, std::vector<emulator::Iteration>>;

void CompareIterations(const IterationsByRank& full, const IterationsByRank& hybrid,
                       bool of_all_ranks, RunComparison* result) {
  for (const auto& [rank, expected] : full) {
    const auto found = hybrid.find(rank);
    if (found == hybrid.end() && !of_all_ranks)
      continue;
    const size_t count = found == hybrid.end() ? 0 : found->second.size();
    result->unmatched +=
        std::max(expected.size(), count) - std::min(expected.size(), count);
    for (size_t i = 0; i < std::min(expected.size(), count); ++i) {
      const emulator::Iteration& a = expected[i];
      const emulator::Iteration& b = found->second[i];
      ++result->iterations;
      result->max_iteration_error_ns =
          std::max({result->max_iteration_error_ns, std::abs(a.begin.ns - b.begin.ns),
                    std::abs(a.end.ns - b.end.ns)});
    }
  }
}

void CompareEnds(const RunRecord& full, const RunRecord& hybrid,
                 RunComparison* result) {
  auto a = full.ends.begin();
  auto b = hybrid.ends.begin();
  while (a != full.ends.end() || b != hybrid.ends.end()) {
    if (b == hybrid.ends.end() || (a != full.ends.end() && a->first < b->first)) {
      ++result->unmatched;
      ++a;
    } else if (a == full.ends.end() || b->first < a->first) {
      ++result->unmatched;
      ++b;
    } else {
      ++(a->first.peer == protocol::kNone ? result->collectives : result->transfers);
      result->max_collective_error_ns =
          std::max(result->max_collective_error_ns, std::abs(a->second - b->second));
      ++a;
      ++b;
    }
  }
}

void CompareOutput(const RunRecord& full, const RunRecord& hybrid,
                   RunComparison* result) {
  for (const auto& [rank, lines] : hybrid.output) {
    const auto found = full.output.find(rank);
    if (found == full.output.end())
      continue;
    const std::vector<std::string>& expected = found->second;
    const size_t count = std::min(expected.size(), lines.size());
    result->output_differences += std::max(expected.size(), lines.size()) - count;
    for (size_t i = 0; i < count; ++i)
      result->output_differences += expected[i] != lines[i] ? 1 : 0;
  }
}

RunRecord::Peak PeakOf(const graph::RankResult& result) {
  return {result.peak_memory_bytes, result.peak_context_bytes,
          result.peak_communicator_bytes};
}

void AddEnds(const emulator::ResultCollector& results, RunRecord* record) {
  for (const emulator::MemberEnd& end : results.member_ends())
    record->ends[RunRecord::EndKey{results.communicators()[end.communicator],
                                   end.member, end.peer, end.is_send, end.sequence}] =
        end.end_ns;
}

}  // namespace

RunRecord MakeRecord(const Run& run,
                     std::map<int32_t, std::vector<std::string>> output) {
  const emulator::World& world = run.session().world();
  RunRecord record;
  record.output = std::move(output);
  std::vector<int32_t> ranks = run.real_ranks();
  for (const emulator::VirtualRank& rank : run.virtual_ranks())
    ranks.push_back(rank.rank);
  for (const int32_t rank : ranks) {
    record.iterations[rank] = world.results().iterations(rank);
    record.peaks[rank] = PeakOf(world.engine().result(rank));
  }
  for (const auto& real : world.real()) {
    if (!record.iterations[real->rank()].empty())
      continue;
    for (const emulator::TimedIteration& found :
         real->iteration_log().Find(graph::IterationSearch::kActions).iterations)
      record.found_iterations[real->rank()].push_back({found.begin, found.end});
  }
  AddEnds(world.results(), &record);
  return record;
}

RunRecord MakeRecord(const GraphReplay& replay) {
  RunRecord record;
  for (int32_t rank = 0; rank < replay.graph().world_size; ++rank) {
    record.iterations[rank] = replay.results().iterations(rank);
    record.peaks[rank] = PeakOf(replay.result(rank));
  }
  AddEnds(replay.results(), &record);
  return record;
}

RunComparison Compare(const RunRecord& full, const RunRecord& hybrid) {
  RunComparison result;
  CompareIterations(full.iterations, hybrid.iterations, true, &result);
  CompareIterations(full.found_iterations, hybrid.found_iterations, false, &result);
  CompareEnds(full, hybrid, &result);
  CompareOutput(full, hybrid, &result);
  for (const auto& [rank, peak] : full.peaks) {
    const auto found = hybrid.peaks.find(rank);
    if (found == hybrid.peaks.end()) {
      ++result.unmatched;
      continue;
    }
    const RunRecord::Peak& other = found->second;
    result.peak_memory_error_bytes =
        std::max({result.peak_memory_error_bytes, std::abs(other.bytes - peak.bytes),
                  std::abs(other.context_bytes - peak.context_bytes),
                  std::abs(other.communicator_bytes - peak.communicator_bytes)});
  }
  return result;
}

}  // namespace vrank::tools
