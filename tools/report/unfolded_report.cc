#include "tools/report/unfolded_report.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "tools/job/provenance.h"
#include "tools/machine/output_file.h"
#include "tools/report/contention_report.h"
#include "tools/report/graph_text.h"
#include "tools/report/ledger.h"
#include "tools/report/what_if_report.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

std::string UnfoldedJson(const graph::ExecutionGraph& graph,
                         const UnfoldedReplay& played,
                         const GraphReplayOptions& options) {
  const PricedJob& priced = played.priced;
  const UnfoldedSummary& report = played.summary;
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
    json["contention"] = ContentionJson(*links);
  return json.dump(2) + "\n";
}

std::string UnfoldedText(const graph::ExecutionGraph& graph,
                         const UnfoldedReplay& played,
                         const GraphReplayOptions& options) {
  const PricedJob& priced = played.priced;
  const graph::EveryRank& every = played.every;
  const UnfoldedSummary& report = played.summary;
  const SharedLinks* const links = played.links.get();
  std::string text =
      fmt::format("{}, each played; layout {}\n{} on {}", RanksText(graph),
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
  if (links != nullptr) {
    text += '\n';
    text += ContentionText(*links);
  }
  const Ledger ledger = MakeLedger({}, report.last_end);
  text += fmt::format(
      "\nfidelity    {} recorded, {}{} modelled, {} assumed (of the path to the end of "
      "rank {})\n",
      FormatPercent(ledger.Share(ledger.recorded_ns)),
      ledger.measured_ns == 0
          ? ""
          : FormatPercent(ledger.Share(ledger.measured_ns)) + " measured, ",
      FormatPercent(ledger.Share(ledger.modelled_ns)),
      FormatPercent(ledger.Share(ledger.assumed_ns())), report.last_rank);
  return text + LossLines(graph);
}

absl::Status WriteRankTable(const OutputFile& output,
                            const graph::ExecutionGraph& graph,
                            const UnfoldedReplay& played) {
  const graph::ResolvedJob& job = played.priced.job;
  const graph::EveryRank& every = played.every;
  const std::vector<bool> absent = AbsentRanks(graph);
  return WriteOutput(output, [&](std::ostream& file) {
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

}  // namespace vrank::tools
