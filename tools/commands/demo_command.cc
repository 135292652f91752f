#include "tools/commands/demo_command.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/build/rank_plan.h"
#include "graph/membership/layout.h"
#include "graph/membership/real_rank_choice.h"
#include "tools/commands/emulate_command.h"
#include "tools/job/job.h"
#include "tools/job/rank_output.h"
#include "tools/machine/installation.h"
#include "tools/machine/scratch_folder.h"
#include "tools/replay/graph_replay.h"
#include "tools/report/replay_report.h"
#include "tools/slices/traced_graph.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/say.h"

namespace vrank::tools {
namespace {

// A GPT of the size of GPT-3 (175 B: 96 layers, hidden size 12,288, sequences of
// 2,048), arranged as such models are trained.
constexpr int32_t kWorldSize = 1024;
constexpr char kLayout[] = "tp=8,pp=16,dp=8";
const std::vector<std::string> kModel = {"--layers",
                                         "96",
                                         "--hidden",
                                         "12288",
                                         "--heads",
                                         "96",
                                         "--sequence",
                                         "2048",
                                         "--micro-batches",
                                         "64",
                                         "--iterations",
                                         "3",
                                         "--tp",
                                         "8",
                                         "--pp",
                                         "16",
                                         "--dp",
                                         "8"};

// The other way to the same figures: a slice per stage, one graph, and the graph alone.
absl::Status ShowGraph(const EmulateFlags& flags,
                       const std::vector<std::string>& program,
                       const Installation& installation) {
  if (!flags.job.quiet)
    fmt::print(
        stderr,
        "\nvrank trace --world-size {0} --layout {1} ... -o slices -- ...; vrank "
        "build slices -o job.vgraph; vrank replay job.vgraph\n",
        kWorldSize, kLayout);
  JobFlags job_flags = flags.job;
  job_flags.quiet = true;  // the program has been heard already
  ASSIGN_OR_RETURN(const Job job, Job::Make(job_flags, kWorldSize, program));
  RankOutput output(true, "trace");
  ASSIGN_OR_RETURN(const TracedGraph made,
                   TraceAndBuild(job, graph::PlanRanks(job.layout()).ranks(), &output));
  GraphReplayOptions options;
  options.iteration_pattern = job.iteration_pattern();
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphReplay> replay,
                   GraphReplay::Play(made.graph, installation, options));
  fmt::print(
      "\nThe same job from a graph: {} slices, traced one at a time ({}), make a graph "
      "of {}.\n\n{}",
      made.traced.size(), FormatBytes(static_cast<double>(made.slice_bytes)),
      FormatBytes(static_cast<double>(made.graph_bytes)),
      ReplayText(*replay, replay->Report(options.iteration_pattern)));
  return absl::OkStatus();
}

}  // namespace

int RunDemoCommand(const CommandLine& line) {
  CLI::App app;
  EmulateFlags flags;
  flags.job.gpu = "h100";
  app.add_option("--gpu", flags.job.gpu);
  app.add_option("--cluster", flags.job.cluster);
  app.add_flag("--json", flags.job.json);
  app.add_flag("--quiet", flags.job.quiet);
  if (const auto exit = ParseFlags("demo", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("demo",
                      "the demo brings its own program; `vrank emulate` runs "
                      "another one");
  const auto installation = FindInstallation();
  if (!installation.ok())
    return JobError("demo", installation.status());
  const auto layout = graph::Layout::Parse(kLayout, kWorldSize);
  if (!layout.ok())
    return JobError("demo", layout.status());
  if (const auto scratch = ScratchFolder::Make(); !scratch.ok())
    return JobError("demo", scratch.status());
  std::vector<std::string> program = {installation->bin_dir + "/gpt_trainer"};
  if (access(program[0].c_str(), X_OK) != 0)
    return JobError("demo",
                    absl::NotFoundError(fmt::format(
                        "{}: not there; build the examples (-DVRANK_EXAMPLES=ON, needs "
                        "nvcc: ./scripts/setup fetches it)",
                        program[0])));
  program.insert(program.end(), kModel.begin(), kModel.end());
  flags.world_size = kWorldSize;
  flags.job.layout = kLayout;
  flags.job.kernels = {installation->data_dir + "/gpt_trainer/kernels.textproto"};
  flags.real = FormatRanks(graph::SuggestRealRanks(*layout));
  if (!flags.job.quiet)
    Say("vrank emulate --world-size {} --layout {} --real {} --gpu {} "
        "--kernels {} -- {}\n",
        kWorldSize, kLayout, flags.real, flags.job.gpu, flags.job.kernels[0],
        fmt::join(program, " "));
  const int emulated = Emulate("demo", flags, program);
  if (emulated != kExitFine || flags.job.json)
    return emulated;
  const absl::Status status = ShowGraph(flags, program, *installation);
  return status.ok() ? kExitFine : JobError("demo", status);
}

}  // namespace vrank::tools
