#include "graph/build/program_builder.h"

#include <set>
#include <string>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/translation.h"
#include "graph/build/work_names.h"

namespace vrank::graph {
namespace {

absl::Status InGraph(const RankTrace& trace, const std::string& what) {
  return absl::UnimplementedError(
      fmt::format("rank {}: {} runs within a CUDA graph; programs with captured "
                  "collectives cannot be built from traces, run these ranks with "
                  "`vrank emulate`",
                  trace.session.rank, what));
}

// NCCL kernels of a graph launch cannot be told apart: the trace does not say which of
// the captured calls each of them is, and they are not work of a length of its own. Nor
// does it say which launch an operation belongs to whose kernel it does not show.
absl::Status CheckGraphLaunches(const RankTrace& trace) {
  std::set<uint32_t> launches, calls;
  for (const TracedCall& call : trace.calls) {
    calls.insert(call.correlation);
    if (IsGraphLaunch(trace.names[call.function]))
      launches.insert(call.correlation);
  }
  if (launches.empty())
    return absl::OkStatus();
  for (const TracedOperation& operation : trace.operations)
    if (!calls.contains(operation.correlation))
      return InGraph(
          trace, fmt::format("{} of communicator {}",
                             operation.is_collective ? Name(operation.call.operation)
                                                     : "a transfer",
                             operation.communicator));
  for (const TracedWork& work : trace.work)
    if (work.work == WorkClass::kKernel && launches.contains(work.correlation) &&
        trace.names[work.name].starts_with("nccl"))
      return InGraph(trace, trace.names[work.name]);
  return absl::OkStatus();
}

}  // namespace

const char* Name(BuildLoss loss) {
  static constexpr const char* kNames[] = {
#define VRANK_BUILD_LOSS(id, name, meaning) name,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kNames[static_cast<size_t>(loss)];
}

const char* Meaning(BuildLoss loss) {
  static constexpr const char* kMeanings[] = {
#define VRANK_BUILD_LOSS(id, name, meaning) meaning,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kMeanings[static_cast<size_t>(loss)];
}

absl::StatusOr<BuiltProgram> BuildProgram(const RankTrace& trace) {
  RETURN_IF_ERROR(CheckTrace(trace));
  RETURN_IF_ERROR(CheckGraphLaunches(trace));
  return Translation(trace).Run();
}

}  // namespace vrank::graph
