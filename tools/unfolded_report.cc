#include "tools/unfolded_report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/machine_memory.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/sweep/replay_every_rank.h"
#include "tools/contention_report.h"
#include "tools/graph_losses.h"
#include "tools/job_report.h"
#include "tools/layout_text.h"
#include "tools/output_file.h"
#include "tools/output_style.h"
#include "tools/what_if_report.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

// Shortest, mean and longest of something over ranks, and which rank is slowest.
struct Spread {
  int64_t least = 0, most = 0;
  double sum = 0;
  uint64_t count = 0;
  int32_t slowest = 0;

  void Add(int64_t ns, int32_t rank) {
    if (count == 0 || ns < least)
      least = ns;
    if (count == 0 || ns > most) {
      most = ns;
      slowest = rank;
    }
    sum += static_cast<double>(ns);
    ++count;
  }
  int64_t Mean() const {
    return count == 0 ? 0 : static_cast<int64_t>(sum / static_cast<double>(count));
  }
};

// What the ranks of one class do, on average.
struct ClassActivity {
  std::vector<int32_t> ranks;
  Spread end, busy, communication, waited, host_waited;
  int64_t peak_bytes = 0;
};

struct UnfoldedReport {
  std::vector<Spread> iterations;
  std::vector<ClassActivity> classes;
  graph::Stamp last_end;  // of the rank that ends last
  int32_t last_rank = 0;
  uint64_t nodes = 0;
};

// Of nested ranges the outermost counts.
std::vector<int64_t> IterationTimes(const graph::Program& program,
                                    const std::vector<graph::RangeMark>& marks) {
  std::vector<int64_t> times;
  int64_t begin = 0;
  int depth = 0;
  for (const graph::RangeMark& mark : marks) {
    if (program.op(mark.op).kind == graph::OpKind::kRangeBegin) {
      if (depth++ == 0)
        begin = mark.host.ns;
    } else if (depth > 0 && --depth == 0) {
      times.push_back(mark.host.ns - begin);
    }
  }
  return times;
}

UnfoldedReport MakeReport(const graph::ExecutionGraph& graph,
                          const graph::ResolvedJob& job,
                          const graph::EveryRank& every) {
  UnfoldedReport report;
  report.classes.resize(graph.classes.size());
  const std::vector<bool> absent = AbsentRanks(graph);
  for (size_t place = 0; place < job.job.ranks.size(); ++place) {
    const graph::ReplayJob::Rank& rank = job.job.ranks[place];
    if (!absent.empty() && absent[static_cast<size_t>(rank.world_rank)])
      continue;
    const graph::RankResult& result = every.results[place];
    const graph::RankActivity& activity = every.activities[place];
    const std::vector<int64_t> times =
        IterationTimes(*rank.program, every.marks[place]);
    if (report.iterations.size() < times.size())
      report.iterations.resize(times.size());
    for (size_t i = 0; i < times.size(); ++i)
      report.iterations[i].Add(times[i], rank.world_rank);
    ClassActivity& one =
        report.classes[graph.ranks[static_cast<size_t>(rank.world_rank)].rank_class];
    one.ranks.push_back(rank.world_rank);
    one.end.Add(result.end.ns, rank.world_rank);
    one.busy.Add(activity.busy_ns, rank.world_rank);
    one.communication.Add(activity.communication_ns, rank.world_rank);
    one.waited.Add(activity.communication_waited_ns, rank.world_rank);
    one.host_waited.Add(result.host_waited.nanoseconds(), rank.world_rank);
    one.peak_bytes = std::max(one.peak_bytes, result.peak_memory_bytes);
    if (result.end.ns > report.last_end.ns) {
      report.last_end = result.end;
      report.last_rank = rank.world_rank;
    }
    report.nodes += result.ops;
  }
  return report;
}

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double Percent(const graph::Jitter& jitter) {
  return static_cast<double>(jitter.parts_per_million) / 1e4;
}

Json SpreadJson(const Spread& spread) {
  return Json{{"least_ns", spread.least},
              {"mean_ns", spread.Mean()},
              {"most_ns", spread.most},
              {"slowest_rank", spread.slowest}};
}

// An every-rank replay.
struct Played {
  PricedJob priced;
  std::unique_ptr<SharedLinks> links;  // with contention
  graph::EveryRank every;
  UnfoldedReport report;
  std::optional<WhatIfOutcome> what_if;
};

std::string ReportJson(const graph::ExecutionGraph& graph, const Played& played,
                       const GraphReplayOptions& options) {
  const PricedJob& priced = played.priced;
  const UnfoldedReport& report = played.report;
  const SharedLinks* const links = played.links.get();
  Json iterations = Json::array();
  for (const Spread& iteration : report.iterations)
    iterations.push_back(SpreadJson(iteration));
  Json classes = Json::array();
  for (const ClassActivity& one : report.classes) {
    classes.push_back(Json{{"ranks", FormatRanks(one.ranks)},
                           {"end", SpreadJson(one.end)},
                           {"busy", SpreadJson(one.busy)},
                           {"communication", SpreadJson(one.communication)},
                           {"waited_in_communication", SpreadJson(one.waited)},
                           {"host_waited", SpreadJson(one.host_waited)},
                           {"peak_memory_bytes", nullptr}});
    if (const auto bytes = KnownPeak(graph, one.peak_bytes))
      classes.back()["peak_memory_bytes"] = *bytes;
  }
  const graph::Stamp& end = report.last_end;
  const Ledger ledger = MakeLedger({}, end);
  Json json{{"schema", "vrank.replay_jitter/1"},
            {"world_size", graph.world_size},
            {"layout", LayoutText(graph)},
            {"gpu", graph.gpu},
            {"cluster", priced.cluster},
            {"provenance", ProvenanceJson(ProvenanceOf(graph))},
            {"jitter_parts_per_million", options.jitter.parts_per_million},
            {"seed", options.jitter.seed},
            {"nodes", report.nodes},
            {"iterations", iterations},
            {"classes", classes},
            {"last", Json{{"rank", report.last_rank},
                          {"end_ns", end.ns},
                          {"assumed_ns", ledger.assumed_ns()},
                          {"recorded_ns", ledger.recorded_ns},
                          {"measured_ns", ledger.measured_ns}}}};
  for (const graph::RecordedRank& rank : graph.recorded_ranks)
    json["recorded_ranks"].push_back(rank.rank);  // of an import alone
  if (played.what_if)
    json["what_if"] = WhatIfJson(*played.what_if);
  if (links != nullptr)
    json["contention"] = links->ToJson();
  return json.dump(2) + "\n";
}

std::string ReportText(const graph::ExecutionGraph& graph, const Played& played,
                       const GraphReplayOptions& options) {
  const PricedJob& priced = played.priced;
  const graph::EveryRank& every = played.every;
  const UnfoldedReport& report = played.report;
  const SharedLinks* const links = played.links.get();
  std::string text =
      fmt::format("{} ranks from the graph alone, each played; layout {}\n{} on {}",
                  FormatCount(static_cast<uint64_t>(graph.world_size)),
                  LayoutText(graph), graph.gpu, priced.cluster);
  if (options.jitter.on())
    text += fmt::format("; jitter {:g} % of the work of every rank, seed {}",
                        Percent(options.jitter), options.jitter.seed);
  text += fmt::format("\n\nnodes       {}, by the {}\n{}\n", FormatCount(report.nodes),
                      every.executor, AbsentRanksLine(graph));
  if (played.what_if)
    text += WhatIfText(*played.what_if);
  Table iterations;
  iterations.Add({"iteration", "fastest rank", "mean", "slowest rank", "which"});
  for (size_t i = 0; i < report.iterations.size(); ++i) {
    const Spread& one = report.iterations[i];
    iterations.Add({std::to_string(i), FormatTime(one.least), FormatTime(one.Mean()),
                    FormatTime(one.most), std::to_string(one.slowest)});
  }
  text += iterations.ToString(0) + "\nof the whole run, on average by class\n";
  Table classes;
  classes.Add({"ranks", "ends at", "work", "communication", "of it waiting",
               "host waits", "peak"});
  for (const ClassActivity& one : report.classes) {
    const int64_t whole = one.end.Mean();
    const auto share = [whole](const Spread& part) {
      return FormatPercent(Share(part.Mean(), whole));
    };
    std::string ranks = FormatRanks(one.ranks);
    if (constexpr size_t kWidth = 24; ranks.size() > kWidth)
      ranks = fmt::format("{} and {} more", one.ranks[0], one.ranks.size() - 1);
    classes.Add({ranks, FormatTime(whole), share(one.busy), share(one.communication),
                 share(one.waited), share(one.host_waited),
                 PeakMemoryText(KnownPeak(graph, one.peak_bytes))});
  }
  text += classes.ToString(2);
  if (links != nullptr)
    text += "\n" + links->ToText();
  const Ledger ledger = MakeLedger({}, report.last_end);
  text += fmt::format(
      "\nfidelity    {} recorded, {} modelled, {} assumed (of the path to the end of "
      "rank {})\n",
      FormatPercent(ledger.Share(ledger.recorded_ns)),
      FormatPercent(ledger.Share(ledger.modelled_ns)),
      FormatPercent(ledger.Share(ledger.assumed_ns())), report.last_rank);
  return text + LossLines(graph);
}

// Every number of every rank, so that two replays can be compared to the byte.
absl::Status WriteRankTable(const std::string& path, const graph::ExecutionGraph& graph,
                            const graph::ResolvedJob& job,
                            const graph::EveryRank& every) {
  const std::vector<bool> absent = AbsentRanks(graph);
  return WriteOutput({"--rank-table", path}, [&](std::ostream& file) {
    file << "rank,end_ns,assumed_ns,recorded_ns,measured_ns,assumed_host_ns,"
            "memory_bytes,peak_memory_bytes,peak_communicator_bytes,peak_context_bytes,"
            "nodes,divergences,host_waited_ns,busy_ns,communication_ns,"
            "communication_waited_ns,iterations_ns\n";
    for (size_t place = 0; place < job.job.ranks.size(); ++place) {
      const graph::ReplayJob::Rank& rank = job.job.ranks[place];
      if (!absent.empty() && absent[static_cast<size_t>(rank.world_rank)])
        continue;
      const graph::RankResult& r = every.results[place];
      const graph::RankActivity& a = every.activities[place];
      file << fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", rank.world_rank,
          r.end.ns, r.end.assumed, r.end.recorded, r.end.measured, r.end.assumed_host,
          r.memory_bytes, r.peak_memory_bytes, r.peak_communicator_bytes,
          r.peak_context_bytes, r.ops, r.divergences, r.host_waited.nanoseconds(),
          a.busy_ns, a.communication_ns, a.communication_waited_ns,
          fmt::join(IterationTimes(*rank.program, every.marks[place]), " "));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Played> PlayEveryRank(const graph::ExecutionGraph& graph,
                                     const Installation& installation,
                                     const GraphReplayOptions& options,
                                     const UnfoldedOptions& unfolded) {
  Played played;
  ASSIGN_OR_RETURN(played.priced, PriceJob(graph, installation, options));
  if (options.contention) {
    ASSIGN_OR_RETURN(played.links, SharedLinks::Of(played.priced));
    played.priced.job.job.options.contention = played.links->contention();
  }
  graph::SweepOptions sweep;
  sweep.threads = unfolded.threads;
  sweep.unit = unfolded.unit;
  sweep.max_bytes = std::max<uint64_t>(1, ReadMachineMemory().least());
  sweep.observe = [&options](const std::string& name) {
    return options.iteration_pattern.Matches(name);
  };
  ASSIGN_OR_RETURN(played.every,
                   graph::ReplayEveryRank(played.priced.job, *played.priced.network,
                                          sweep, unfolded.executor));
  played.report = MakeReport(graph, played.priced.job, played.every);
  return played;
}

// Of the last iteration, on its slowest rank.
absl::StatusOr<WhatIfOutcome> CompareWithUnedited(const graph::ExecutionGraph& graph,
                                                  const Installation& installation,
                                                  const GraphReplayOptions& options,
                                                  const UnfoldedOptions& unfolded,
                                                  const Played& edited) {
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const Played played,
                   PlayEveryRank(graph, installation, before, unfolded));
  const std::vector<Spread>& iterations = edited.report.iterations;
  if (iterations.empty() || played.report.iterations.size() != iterations.size())
    return absl::InvalidArgumentError(
        "--what-if: no range of the graph is named like an iteration, and replays of "
        "every rank find none; leave --jitter, --contention, --executor, --rank-table, "
        "--threads and --vector out, or give --iteration-range");
  WhatIfOutcome outcome;
  outcome.edits = options.what_ifs;
  outcome.nodes = edited.priced.edited;
  outcome.iteration = iterations.size() - 1;
  outcome.before_ns = played.report.iterations.back().most;
  outcome.after_ns = iterations.back().most;
  return outcome;
}

}  // namespace

absl::StatusOr<std::string> ReplayUnfolded(const graph::ExecutionGraph& graph,
                                           const Installation& installation,
                                           const GraphReplayOptions& options,
                                           const UnfoldedOptions& unfolded) {
  ASSIGN_OR_RETURN(Played played,
                   PlayEveryRank(graph, installation, options, unfolded));
  if (!options.what_ifs.empty()) {
    ASSIGN_OR_RETURN(played.what_if, CompareWithUnedited(graph, installation, options,
                                                         unfolded, played));
  }
  if (!unfolded.rank_table.empty())
    RETURN_IF_ERROR(
        WriteRankTable(unfolded.rank_table, graph, played.priced.job, played.every));
  return unfolded.json ? ReportJson(graph, played, options)
                       : ReportText(graph, played, options);
}

}  // namespace vrank::tools
