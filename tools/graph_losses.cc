#include "tools/graph_losses.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "tools/output_style.h"

namespace vrank::tools {

std::string LossLines(const graph::ExecutionGraph& graph) {
  struct Sum {
    uint64_t count = 0, subjects = 0;
    std::string subject;
  };
  std::map<std::pair<std::string, std::string>, Sum> kinds;  // by name and meaning
  for (const graph::ExecutionGraph::Loss& loss : graph.losses) {
    Sum& sum = kinds[{loss.name, loss.meaning}];
    sum.count += loss.count;
    ++sum.subjects;
    sum.subject = loss.subject;
  }
  std::string text;
  for (const auto& [kind, sum] : kinds)
    text += fmt::format("{:<11} {}, {} times{}: {}\n", "loss", kind.first,
                        FormatCount(sum.count),
                        sum.subjects > 1 ? fmt::format(" in {} slices", sum.subjects)
                        : sum.subject.empty() ? ""
                                              : fmt::format(" ({})", sum.subject),
                        kind.second);
  return text;
}

}  // namespace vrank::tools
