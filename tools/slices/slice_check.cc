#include "tools/slices/slice_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/program_builder.h"
#include "graph/build/program_comparison.h"
#include "graph/trace/trace_file.h"

namespace vrank::tools {

absl::StatusOr<uint64_t> CheckSlice(const std::string& file,
                                    const graph::Program& emulated, bool strict) {
  ASSIGN_OR_RETURN(const graph::RankTrace trace, graph::ReadTrace(file));
  const absl::StatusOr<graph::BuiltProgram> built = graph::BuildProgram(trace);
  if (!built.ok()) {
    if (strict)
      return built.status();
    return uint64_t{0};
  }
  graph::ProgramComparison comparison{.answered_queries = false,
                                      .a_name = "the emulator's stream",
                                      .b_name = "the trace"};
  if (!strict)
    comparison.host_times = !built->losses.contains(graph::BuildLoss::kAssumedCopyCost);
  const std::string difference =
      graph::FirstDifference(emulated, *built->program, comparison);
  if (difference.empty())
    return emulated.size();
  if (!strict && std::any_of(built->losses.begin(), built->losses.end(),
                             [](const auto& loss) { return IsExpected(loss.first); }))
    return uint64_t{0};
  return absl::DataLossError(fmt::format(
      "{}: not what the emulator received from rank {}: {}; where the program, or a "
      "library of it, uses CUPTI itself (a profiler), that may have switched records "
      "off: run it without",
      file, trace.session.rank, difference));
}

}  // namespace vrank::tools
