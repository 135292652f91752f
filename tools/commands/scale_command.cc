#include "tools/commands/scale_command.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "graph/file/graph_file.h"
#include "graph/membership/layout.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/scale/scale_graph.h"
#include "tools/machine/file_options.h"
#include "tools/machine/installation.h"
#include "tools/machine/output_file.h"
#include "tools/replay/graph_cast.h"
#include "tools/replay/graph_cluster.h"
#include "tools/replay/graph_replay.h"
#include "tools/report/graph_text.h"
#include "tools/report/losses_json.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/shell_word.h"

namespace vrank::tools {
namespace {

struct ScaleFlags {
  std::string graph;
  std::string layout;
  std::string output;
  bool json = false;
};

absl::StatusOr<graph::ExecutionGraph> Scale(const graph::ExecutionGraph& graph,
                                            const graph::Layout& to) {
  // Before anything that an import does not hold is missed.
  if (!graph.recorded_ranks.empty())
    return absl::InvalidArgumentError(
        "the graph was imported: its operations last as they were recorded, at any "
        "size, and no recording states which ranks are replicas; scale a graph of "
        "`vrank build`");
  ASSIGN_OR_RETURN(const GraphCast cast, GraphCast::Make(graph));
  ASSIGN_OR_RETURN(const std::vector<graph::GroupHint> hints, cast.Hints());
  ASSIGN_OR_RETURN(const auto membership, MembershipOf(graph));
  ASSIGN_OR_RETURN(const graph::ResolvedJob job,
                   graph::ResolveCommunicators(graph::JobOf(graph), membership.get()));
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  ASSIGN_OR_RETURN(const GraphCluster cluster, ClusterOf(graph, installation, ""));
  return graph::ScaleGraph(
      graph, job, hints,
      graph::AlphaBetaNetwork(cluster.description).communicator_memory(), to);
}

std::string ScaleJson(const graph::ExecutionGraph& scaled, const ScaleFlags& flags,
                      int32_t was) {
  using Json = nlohmann::ordered_json;
  return Json{{"schema", "vrank.scale/1"},
              {"graph", flags.graph},
              {"file", flags.output},
              {"world_size", scaled.world_size},
              {"world_size_of_graph", was},
              {"layout", scaled.layout},
              {"communicators", scaled.communicators.size()},
              {"losses", LossesJson(scaled.losses)}}
      .dump(2);
}

std::string ScaleText(const graph::ExecutionGraph& scaled, const ScaleFlags& flags,
                      int32_t was) {
  return fmt::format(
      "{}: {} ranks, {} in {}; layout {}, {} communicators\n{}\nvrank replay {}\n",
      flags.output, FormatCount(static_cast<uint64_t>(scaled.world_size)),
      FormatCount(static_cast<uint64_t>(was)), flags.graph, scaled.layout,
      FormatCount(scaled.communicators.size()), LossLines(scaled),
      ShellWord(flags.output));
}

}  // namespace

int RunScaleCommand(const CommandLine& line) {
  CLI::App app;
  ScaleFlags flags;
  Reads(app.add_option("graph", flags.graph)->required());
  app.add_option("--layout", flags.layout)->required();
  Writes(app.add_option("-o,--output", flags.output)->required());
  app.add_flag("--json", flags.json);
  if (const auto exit = ParseFlags("scale", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("scale", "no program is run; leave out what follows --");
  const auto to = graph::Layout::ParseWorld(flags.layout);
  if (!to.ok())
    return UsageError("scale", std::string(to.status().message()));
  if (const absl::Status free = CheckReplacedOutput({"-o", flags.output}); !free.ok())
    return JobError("scale", free);
  const auto graph = graph::OpenGraph(flags.graph);
  if (!graph.ok())
    return JobError("scale", graph.status());
  const auto scaled = Scale(*graph, *to);
  if (!scaled.ok())
    return JobError("scale", scaled.status());
  if (const absl::Status written = graph::WriteGraph(*scaled, flags.output);
      !written.ok())
    return JobError("scale", written);
  return PrintSummary("scale",
                      flags.json ? ScaleJson(*scaled, flags, graph->world_size) + "\n"
                                 : ScaleText(*scaled, flags, graph->world_size),
                      flags.json, flags.output);
}

}  // namespace vrank::tools
