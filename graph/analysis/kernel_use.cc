#include "graph/analysis/kernel_use.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace vrank::graph {
namespace {

using Key = std::tuple<std::string, WorkClass, Source>;

void AddProgram(const Program& program, uint64_t ranks, std::map<Key, KernelUse>* all) {
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.kind != OpKind::kWork)
      continue;
    const std::string& name = program.details().names[op.a];
    auto [found, is_new] =
        all->try_emplace({name, op.work, op.source},
                         KernelUse{.name = name, .work = op.work, .source = op.source});
    KernelUse& use = found->second;
    use.launches += ranks;
    use.total_ns += op.value * static_cast<int64_t>(ranks);
    use.unseen_ns += int64_t{op.b} * static_cast<int64_t>(ranks);
    use.min_ns = is_new ? op.value : std::min(use.min_ns, op.value);
    use.max_ns = is_new ? op.value : std::max(use.max_ns, op.value);
  }
}

}  // namespace

std::vector<KernelUse> KernelsByTime(const ExecutionGraph& graph) {
  std::vector<uint64_t> players(graph.programs.size());
  for (const ExecutionGraph::Rank& rank : graph.ranks)
    ++players[rank.program];
  std::map<Key, KernelUse> all;
  for (size_t i = 0; i < graph.programs.size(); ++i)
    AddProgram(*graph.programs[i], players[i], &all);
  std::vector<KernelUse> uses;
  for (auto& [key, use] : all)
    uses.push_back(std::move(use));
  std::stable_sort(uses.begin(), uses.end(),
                   [](const KernelUse& a, const KernelUse& b) {
                     return a.weight_ns() > b.weight_ns();
                   });
  return uses;
}

}  // namespace vrank::graph
