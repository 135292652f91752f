#include "tools/commands/trace_command.h"

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/build/rank_plan.h"
#include "graph/trace/trace_file.h"
#include "tools/job/communicator_learning.h"
#include "tools/job/host_time_plan.h"
#include "tools/job/job.h"
#include "tools/job/job_flags.h"
#include "tools/job/rank_output.h"
#include "tools/machine/file_options.h"
#include "tools/slices/slice_recorder.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/shell_word.h"

namespace vrank::tools {
namespace {

// What SliceRecorder's comparison leaves out (graph/build/program_comparison.h).
constexpr char kNotCompared[] =
    "queries that found what they asked for; what threads do that issue no work";

struct TraceFlags {
  JobFlags job;
  int32_t world_size = 0;
  std::string ranks;  // empty: as planned for the layout
  std::string output;
  int32_t together = 1;
  bool overwrite = false;
  bool check = false;
};

absl::StatusOr<std::vector<int32_t>> RanksToTrace(const Job& job,
                                                  const TraceFlags& flags) {
  if (flags.ranks.empty())
    return graph::PlanSlices(job.layout()).ranks();
  ASSIGN_OR_RETURN(const RankList list,
                   ParseRankFlag("--ranks", flags.ranks, job.world_size()));
  return list.ranks;
}

// Classes of which the folder has no slice, with the rank to trace for each: a graph
// needs them. Slices of other ranks are of this job (SliceRecorder::CheckFree).
std::vector<graph::RankPlan::Entry> MissingClasses(const Job& job,
                                                   const std::string& folder) {
  namespace fs = std::filesystem;
  std::set<int32_t> traced;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".vtrace")
      if (const auto session = graph::ReadSession(entry.path().string()); session.ok())
        traced.insert(job.layout().ClassOf(session->rank));
  std::vector<graph::RankPlan::Entry> missing;
  for (graph::RankPlan::Entry& entry : graph::PlanRanks(job.layout()).entries)
    if (!entry.deciding && !traced.contains(entry.rank_class))
      missing.push_back(std::move(entry));
  return missing;
}

std::vector<int32_t> RanksOf(const std::vector<graph::RankPlan::Entry>& entries) {
  std::vector<int32_t> ranks;
  for (const graph::RankPlan::Entry& entry : entries)
    ranks.push_back(entry.rank);
  return ranks;
}

std::string TraceJson(const Job& job, const std::vector<RecordedSlice>& slices,
                      const TraceFlags& flags) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const RecordedSlice& slice : slices)
    rows.push_back(Json{{"rank", slice.rank},
                        {"file", slice.file},
                        {"bytes", slice.bytes},
                        {"real_beside", slice.beside}});
  if (flags.check)
    for (size_t i = 0; i < slices.size(); ++i)
      rows[i]["compared_nodes"] = slices[i].compared_nodes;
  return Json{{"schema", "vrank.trace/1"},
              {"world_size", job.world_size()},
              {"layout", job.layout().ToString()},
              {"layout_inferred", job.flags().layout_inferred},
              {"slices", rows},
              {"missing_ranks", RanksOf(MissingClasses(job, flags.output))}}
      .dump(2);
}

std::string TraceText(const Job& job, const std::vector<RecordedSlice>& slices,
                      const TraceFlags& flags) {
  const std::string& folder = flags.output;
  Table table;
  table.Add({"file", "rank", "size", "beside it, untraced"});
  for (const RecordedSlice& slice : slices)
    table.Add({slice.file, std::to_string(slice.rank),
               FormatBytes(static_cast<double>(slice.bytes)),
               slice.beside.empty() ? "-" : FormatRanks(slice.beside)});
  uint64_t compared = 0;
  for (const RecordedSlice& slice : slices)
    compared += slice.compared_nodes;
  const std::string check =
      !flags.check
          ? ""
          : fmt::format(
                "\n{} slice{} agree{}, node by node, with what the emulator "
                "received: {} nodes, 0 differences\n"
                "not compared, since CUPTI does not tell: {}\n",
                slices.size(), slices.size() == 1 ? "" : "s",
                slices.size() == 1 ? "s" : "", FormatCount(compared), kNotCompared);
  const std::string layout =
      job.flags().layout_inferred
          ? fmt::format("\nlayout {} (inferred)\n", job.layout().ToString())
          : "";
  const auto missing = MissingClasses(job, folder);
  std::string next;
  if (!missing.empty())
    next = fmt::format(
        "A graph needs a slice of each class of ranks, and {}{} {} none yet; trace the "
        "same job with --ranks {} into {}, then:\n",
        missing[0].class_name,
        missing.size() == 1 ? "" : fmt::format(" and {} more", missing.size() - 1),
        missing.size() == 1 ? "has" : "have", FormatRanks(RanksOf(missing)),
        ShellWord(folder));
  return fmt::format("{}{}{}\n{}vrank build {} -o job.vgraph\n", table.ToString(0),
                     layout, check, next, ShellWord(folder));
}

// A layout that the first iteration shows does not know of groups that come later.
bool MayBeAnotherLayout(const Job& job, const absl::Status& status) {
  return job.flags().layout_inferred && absl::IsInvalidArgument(status);
}

// The slices one after the other; an error ends with the first that fails.
absl::StatusOr<std::vector<RecordedSlice>> RecordAll(const Job& job,
                                                     const TraceFlags& flags,
                                                     const std::vector<int32_t>& ranks,
                                                     RankOutput* output) {
  ASSIGN_OR_RETURN(SliceRecorder recorder,
                   SliceRecorder::Make(job, flags.output, flags.overwrite, output));
  RETURN_IF_ERROR(recorder.CheckFree(ranks));
  if (flags.check)
    recorder.CheckAgainstEmulator();
  auto slices = recorder.RecordAll(ranks, static_cast<size_t>(flags.together));
  if (!slices.ok()) {
    if (MayBeAnotherLayout(job, slices.status()))
      recorder.RemoveWritten();
    recorder.RemoveWhatIsEmpty(ranks);
  }
  return slices;
}

}  // namespace

int RunTraceCommand(const CommandLine& line) {
  CLI::App app;
  TraceFlags flags;
  AddJobFlags(&app, &flags.job);
  AddRealGpuFlag(&app, &flags.job);
  AddHostTimeFlags(&app, &flags.job);
  app.add_option("--world-size", flags.world_size)
      ->required()
      ->check(CLI::Range(1, graph::Layout::kMaxWorldSize));
  app.add_option("--ranks", flags.ranks);
  Fills(app.add_option("-o,--output", flags.output)->required());
  app.add_option("--together", flags.together)->check(CLI::Range(1, 4096));
  app.add_flag("--overwrite", flags.overwrite);
  app.add_flag("--check", flags.check);
  if (const auto exit = ParseFlags("trace", &app, line.flags); exit.has_value())
    return *exit;
  if (const absl::Status fit = CheckRealGpuFlags(flags.job); !fit.ok())
    return UsageError("trace", std::string(fit.message()));
  if (const absl::Status fit = CheckHostTimeFlags(flags.job); !fit.ok())
    return UsageError("trace", std::string(fit.message()));
  if (!flags.job.max_assumed.empty())
    return UsageError(
        "trace",
        "--max-assumed: a slice has no critical path of the job; leave it "
        "out: the ledger of `vrank replay` says what is assumed");
  if (flags.job.real_gpu && flags.check)
    return UsageError("trace",
                      "--check: on a real GPU the emulator sees nothing but NCCL's "
                      "operations; leave out one of --check and --real-gpu");
  if (line.program.empty())
    return UsageError("trace", "no program to run; put it after --");
  ImplyLauncher(line.program, &flags.job);
  auto stated = Job::Make(flags.job, flags.world_size, line.program);
  if (!stated.ok())
    return UsageError("trace", std::string(stated.status().message()));
  if (const auto ranks = RanksToTrace(*stated, flags); !ranks.ok())
    return UsageError("trace", std::string(ranks.status().message()));
  RankOutput output(flags.job.quiet, "trace", /*computes=*/flags.job.real_gpu);
  auto job = WithLayout(*stated, LearnUpTo::kFirstIteration, &output);
  if (!job.ok()) {
    output.ShowTail();
    return JobError("trace", job.status());
  }
  auto ranks = RanksToTrace(*job, flags);
  if (!ranks.ok())
    return UsageError("trace", std::string(ranks.status().message()));
  auto slices = RecordAll(*job, flags, *ranks, &output);
  if (!slices.ok() && MayBeAnotherLayout(*job, slices.status())) {
    auto whole = WithLayout(*stated, LearnUpTo::kEnd, &output);
    if (whole.ok() && whole->layout().ToString() != job->layout().ToString()) {
      job = std::move(whole);
      ranks = RanksToTrace(*job, flags);
      if (!ranks.ok())
        return UsageError("trace", std::string(ranks.status().message()));
      slices = RecordAll(*job, flags, *ranks, &output);
    }
  }
  if (!slices.ok()) {
    output.ShowTail();
    return JobError("trace", slices.status());
  }
  return PrintSummary("trace",
                      flags.job.json ? TraceJson(*job, *slices, flags) + "\n"
                                     : TraceText(*job, *slices, flags),
                      flags.job.json, flags.output);
}

}  // namespace vrank::tools
