#include "graph/build/program_builder.h"

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/nccl_kernel.h"
#include "base/status_macros.h"
#include "graph/build/translation.h"
#include "graph/build/work_names.h"

namespace vrank::graph {
namespace {

absl::Status InGraph(const RankTrace& trace, const std::string& what,
                     std::string_view why) {
  return absl::UnimplementedError(
      fmt::format("rank {}: {} runs within a CUDA graph {}; such a program cannot be "
                  "built from traces, run these ranks with `vrank emulate`",
                  trace.session.rank, what, why));
}

std::string NameOf(const TracedOperation& operation) {
  return fmt::format(
      "{} of communicator {}",
      operation.is_collective ? Name(operation.call.operation) : "a transfer",
      operation.communicator);
}

// Where the trace names the nodes of a graph, it also says which of NCCL's operations
// they are. NCCL's kernels of other launches cannot be told apart, and are not work of
// a length of its own.
absl::Status CheckGraphLaunches(const RankTrace& trace) {
  constexpr std::string_view kUnknown =
      "whose nodes the trace does not name (it has a child graph, or was made before "
      "tracing began)";
  std::set<uint32_t> launches, calls, changed;
  for (const TracedCall& call : trace.calls) {
    calls.insert(call.correlation);
    if (IsGraphLaunch(trace.names[call.function]))
      launches.insert(call.correlation);
  }
  if (launches.empty())
    return absl::OkStatus();
  for (const TracedGraphChange& change : trace.graph_changes)
    if (!change.ended)
      changed.insert(change.graph);
  std::map<uint64_t, const TracedOperation*> captured;
  for (const TracedOperation& operation : trace.operations) {
    if (operation.captured != 0)
      captured[operation.captured] = &operation;
    else if (!calls.contains(operation.correlation))
      return InGraph(trace, NameOf(operation), kUnknown);
  }
  std::set<uint64_t> explained;  // nodes
  for (const TracedGraphNode& node : trace.graph_nodes) {
    for (const uint64_t number : node.operations) {
      const auto operation = captured.find(number);
      if (operation == captured.end())
        return InGraph(trace, "an operation of NCCL", "and is not in the trace");
      if (changed.contains(node.graph))
        return InGraph(trace, NameOf(*operation->second),
                       "that was updated after it had been made executable");
      explained.insert(node.node);
    }
  }
  for (const TracedWork& work : trace.work)
    if (work.work == WorkClass::kKernel && launches.contains(work.correlation) &&
        !explained.contains(work.graph_node) && IsNcclKernel(trace.names[work.name]))
      return InGraph(trace, trace.names[work.name], kUnknown);
  return absl::OkStatus();
}

}  // namespace

const char* Name(BuildLoss loss) {
  static constexpr const char* kNames[] = {
#define VRANK_BUILD_LOSS(id, expected, name, meaning) name,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kNames[static_cast<size_t>(loss)];
}

const char* Meaning(BuildLoss loss) {
  static constexpr const char* kMeanings[] = {
#define VRANK_BUILD_LOSS(id, expected, name, meaning) meaning,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kMeanings[static_cast<size_t>(loss)];
}

bool IsExpected(BuildLoss loss) {
  static constexpr bool kExpected[] = {
#define VRANK_BUILD_LOSS(id, expected, name, meaning) expected,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kExpected[static_cast<size_t>(loss)];
}

absl::StatusOr<BuiltProgram> BuildProgram(const RankTrace& trace,
                                          const KernelTable* kernel_times) {
  RETURN_IF_ERROR(CheckTrace(trace));
  RETURN_IF_ERROR(CheckGraphLaunches(trace));
  return Translation(trace, kernel_times).Run();
}

}  // namespace vrank::graph
