#include "tools/report/graph_text.h"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "tools/replay/graph_replay.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {

std::string RanksText(const graph::ExecutionGraph& graph) {
  return fmt::format("{} rank{} from the graph alone",
                     FormatCount(static_cast<uint64_t>(graph.world_size)),
                     graph.world_size == 1 ? "" : "s");
}

std::string LayoutText(const graph::ExecutionGraph& graph) {
  return graph.recorded_ranks.empty() ? graph.layout : "unknown";
}

std::string AbsentRanksLine(const graph::ExecutionGraph& graph) {
  if (AbsentRanks(graph).empty())
    return "";
  std::vector<int32_t> ranks;
  for (const graph::RecordedRank& rank : graph.recorded_ranks)
    ranks.push_back(rank.rank);
  return fmt::format("recorded    only {} of {} ranks ({}); all figures are of {}\n",
                     ranks.size(), graph.world_size, FormatRanks(ranks),
                     ranks.size() == 1 ? "this one" : "these");
}

std::string LossLines(const graph::ExecutionGraph& graph) {
  struct Sum {
    uint64_t count = 0, subjects = 0;
    std::string subject;
  };
  std::map<std::pair<std::string, std::string>, Sum> kinds;  // by name and meaning
  for (const graph::ExecutionGraph::Loss& loss : graph.losses) {
    Sum& sum = kinds[{loss.name, loss.meaning}];
    sum.count += loss.count;
    if (++sum.subjects == 1)
      sum.subject = loss.subject;
  }
  std::string text;
  for (const auto& [kind, sum] : kinds)
    text += fmt::format(
        "{:<11} {}, {} times{}: {}\n", "loss", kind.first, FormatCount(sum.count),
        sum.subjects > 1
            ? fmt::format(" at {} places ({}, ...)", sum.subjects, sum.subject)
        : sum.subject.empty() ? ""
                              : fmt::format(" ({})", sum.subject),
        kind.second);
  return text;
}

std::string PeakMemoryText(const std::optional<int64_t>& bytes) {
  return bytes ? FormatBytes(static_cast<double>(*bytes)) : "unknown";
}

}  // namespace vrank::tools
