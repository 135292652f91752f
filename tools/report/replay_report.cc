#include "tools/report/replay_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "graph/models/kernel_costs.h"
#include "tools/job/provenance.h"
#include "tools/job/stated_options.h"
#include "tools/report/graph_text.h"
#include "tools/report/losses_json.h"
#include "tools/report/recording_report.h"
#include "tools/report/what_if_report.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kContributors = 10;
constexpr size_t kWaitsInText = 5;

const char* Name(graph::PathKind kind) {
  switch (kind) {
    case graph::PathKind::kWork:
      return "work";
    case graph::PathKind::kCommunication:
      return "communication";
    case graph::PathKind::kUnexplained:
      return "unexplained";
    case graph::PathKind::kHost:
      return "host";
    case graph::PathKind::kLatency:
      return "launch_latency";
    case graph::PathKind::kPoll:
      return "poll";
    case graph::PathKind::kCreation:
      return "creation";
    case graph::PathKind::kBefore:
      return "before";
  }
  return "unknown";
}

// The ten largest and one row for the rest: their times add up to the path.
std::vector<graph::Contributor> Largest(const graph::ReplayReport& report) {
  std::vector<graph::Contributor> rows(
      report.critical_path.begin(),
      report.critical_path.begin() + static_cast<std::ptrdiff_t>(std::min(
                                         kContributors, report.critical_path.size())));
  graph::Contributor rest;
  rest.name = "others";
  rest.rank = -1;
  for (size_t i = rows.size(); i < report.critical_path.size(); ++i) {
    rest.time_ns += report.critical_path[i].time_ns;
    rest.count += report.critical_path[i].count;
  }
  if (rest.count != 0)
    rows.push_back(rest);
  return rows;
}

int64_t PathLength(const graph::ReplayReport& report) {
  return std::accumulate(
      report.critical_path.begin(), report.critical_path.end(), int64_t{0},
      [](int64_t sum, const graph::Contributor& row) { return sum + row.time_ns; });
}

double ShareOf(const graph::ReplayReport& report, graph::Source source) {
  const int64_t length = PathLength(report);
  const auto part = report.ledger_ns.find(source);
  return length == 0 || part == report.ledger_ns.end()
             ? 0
             : static_cast<double>(part->second) / static_cast<double>(length);
}

double Rounded(double share) {
  return std::round(share * 1e6) / 1e6;
}

int64_t TimeOf(const std::map<graph::Source, int64_t>& by_source,
               graph::Source source) {
  const auto found = by_source.find(source);
  return found == by_source.end() ? 0 : found->second;
}

Json BySource(const std::map<graph::Source, int64_t>& ns) {
  Json json;
  for (const graph::Source source : {graph::Source::kMeasured, graph::Source::kRecorded,
                                     graph::Source::kModelled, graph::Source::kAssumed})
    json[graph::Name(source)] = TimeOf(ns, source);
  return json;
}

// CPU time of the program between its calls, as `vrank trace --host-time` had it: what
// of a virtual GPU's host is not assumed.
int64_t ProgramTime(const graph::ExecutionGraph& graph,
                    const std::map<graph::Source, int64_t>& host_ns) {
  return !graph.virtual_gpu ? 0
                            : TimeOf(host_ns, graph::Source::kMeasured) +
                                  TimeOf(host_ns, graph::Source::kRecorded);
}

Json HostTimeJson(const graph::ExecutionGraph& graph,
                  const graph::ReplayReport& report) {
  Json json;
  if (graph.virtual_gpu)
    json["mode"] = HostTimeMode(graph.cost_options);
  json["critical_path_ns"] = BySource(report.host_ns);
  return json;
}

// Where the program takes host time of its own.
std::string HostTimeLine(const graph::ExecutionGraph& graph,
                         const graph::ReplayReport& report) {
  const int64_t ns = ProgramTime(graph, report.host_ns);
  return ns == 0 ? ""
                 : fmt::format(
                       "host time   {} of the critical path is CPU time between calls, "
                       "{}\n",
                       FormatTime(ns),
                       HostTimeMode(graph.cost_options) == "measured"
                           ? "measured while the graph was traced"
                           : "recorded");
}

Json BreakdownJson(const graph::Breakdown& b) {
  return Json{{"compute", b.compute_ns},
              {"exposed", b.exposed_ns},
              {"bubble", b.bubble_ns},
              {"copies", b.copies_ns},
              {"host_bound", b.host_bound_ns},
              {"creation", b.creation_ns},
              {"unexplained", b.unexplained_ns},
              {"idle", b.idle_ns},
              {"exposed_wait", b.exposed_wait_ns},
              {"host_by_source", BySource(b.host_ns)},
              {"overlapped", b.overlapped_ns}};
}

Json ClassJson(const GraphReplay& replay, const graph::RankReport& one) {
  Json times = Json::array();
  for (const graph::Iteration& iteration : one.iterations)
    times.push_back(iteration.length_ns());
  const graph::MemoryPeak& peak = one.memory;
  Json json{{"ranks", FormatRanks(replay.RanksLike(one.rank))},
            {"iteration_time_ns", times},
            {"breakdown", BreakdownJson(one.breakdown)},
            {"peak_memory_bytes", nullptr}};
  if (const auto bytes = KnownPeak(replay.graph(), peak.bytes))
    json["peak_memory_bytes"] = *bytes;
  json["peak_memory_by_owner_bytes"] =
      Json{{"program", peak.bytes - peak.context_bytes - peak.communicator_bytes},
           {"context", peak.context_bytes},
           {"communicators", peak.communicator_bytes}};
  json["live_at_peak_bytes"] = peak.live_bytes;
  return json;
}

Json IterationSourceJson(const graph::ReplayReport& report) {
  if (report.is_whole_run)
    return Json{{"evidence", nullptr}};
  return Json{{"evidence", graph::Name(report.evidence)},
              {"regularity", Rounded(report.regularity)}};
}

// Nothing where the program annotates its iterations.
std::string HowFound(const graph::ReplayReport& report) {
  if (report.is_whole_run)
    return " (the whole run: no range is named like an iteration, nothing repeats)";
  if (report.evidence == graph::IterationEvidence::kAnnotation)
    return "";
  return fmt::format(" ({}; {} alike)",
                     report.evidence == graph::IterationEvidence::kOptimizer
                         ? "found by parameter updates"
                         : "found by what repeats",
                     FormatPercent(report.regularity));
}

Json CriticalPathJson(const graph::ReplayReport& report) {
  Json rows = Json::array();
  for (const graph::Contributor& row : Largest(report))
    rows.push_back(Json{{"kind", row.rank < 0 ? "others" : Name(row.kind)},
                        {"name", graph::Demangle(row.name)},
                        {"rank", row.rank},
                        {"time_ns", row.time_ns},
                        {"count", row.count}});
  return Json{{"rank", report.critical_rank},
              {"length_ns", PathLength(report)},
              {"contributors", rows}};
}

// What --cluster does to an imported graph; empty: it is not imported, or replays as
// recorded.
std::string NetworkLine(const GraphReplay& replay) {
  if (replay.graph().recorded_ranks.empty() || replay.is_as_recorded())
    return "";
  const NetworkUse use = CountNetworkUse(replay.graph());
  const uint64_t all = use.priced + use.as_recorded;
  if (use.priced == 0)
    return fmt::format(
        "network     the cluster changes nothing: {}\n",
        all == 0 ? "nothing communicates"
                 : fmt::format("of {} operations the members, peers or sizes are not "
                               "known; they last as recorded",
                               FormatCount(all)));
  return fmt::format(
      "network     {} of {} operations take the cluster's times; of the others "
      "members, "
      "peers or sizes are not known, and they last as recorded\n",
      FormatCount(use.priced), FormatCount(all));
}

std::string ClassTable(const GraphReplay& replay, const graph::ReplayReport& report) {
  Table table;
  table.Add(
      {"ranks", "iteration", "compute", "exposed", "bubble", "host", "other", "peak"});
  for (const graph::RankReport& one : report.classes) {
    const graph::Breakdown& b = one.breakdown;
    const int64_t length = b.Sum();
    const auto share = [length](int64_t part) {
      return FormatPercent(length == 0 ? 0 : static_cast<double>(part) / length);
    };
    int64_t exposed = 0;
    for (const auto& [operation, ns] : b.exposed_ns)
      exposed += ns;
    std::string ranks = FormatRanks(replay.RanksLike(one.rank));
    if (constexpr size_t kWidth = 24; ranks.size() > kWidth)
      ranks = fmt::format("{} and {} more", one.rank, one.ranks - 1);
    table.Add({ranks, FormatTime(length), share(b.compute_ns), share(exposed),
               share(b.bubble_ns), share(b.host_bound_ns),
               share(b.copies_ns + b.creation_ns + b.unexplained_ns + b.idle_ns),
               PeakMemoryText(KnownPeak(replay.graph(), one.memory.bytes))});
  }
  return table.ToString(2);
}

// What the class with the highest peak held then.
std::string PeakTable(const graph::ReplayReport& report, bool imported) {
  const auto highest =
      std::max_element(report.classes.begin(), report.classes.end(),
                       [](const graph::RankReport& a, const graph::RankReport& b) {
                         return a.memory.bytes < b.memory.bytes;
                       });
  if (highest == report.classes.end() || highest->memory.bytes == 0)
    return "";
  const graph::MemoryPeak& peak = highest->memory;
  Table table;
  table.Add({fmt::format("highest peak, rank {}", highest->rank),
             FormatBytes(static_cast<double>(peak.bytes)), "share"});
  auto add = [&](const std::string& what, int64_t bytes) {
    table.Add(
        {what, FormatBytes(static_cast<double>(bytes)),
         FormatPercent(static_cast<double>(bytes) / static_cast<double>(peak.bytes))});
  };
  for (const auto& [range, bytes] : peak.live_bytes)
    add(range.empty() ? "program, outside of ranges"
                      : fmt::format("program, taken in {}", Shortened(range)),
        bytes);
  if (imported)
    return table.ToString(0) +
           "(reserved by PyTorch's allocator, as recorded; NCCL's memory and CUDA's "
           "context come on top)\n\n";
  add("NCCL", peak.communicator_bytes);
  add("CUDA context", peak.context_bytes);
  return table.ToString(0) + "\n";
}

}  // namespace

std::string ReplayJson(const GraphReplay& replay, const graph::ReplayReport& report,
                       const ReplayExtras& extras) {
  const graph::ExecutionGraph& graph = replay.graph();
  Json classes = Json::array();
  for (const graph::RankReport& one : report.classes)
    classes.push_back(ClassJson(replay, one));
  Json waits = Json::array();
  for (const graph::Wait& wait : report.waits)
    waits.push_back(Json{{"waiting", wait.waiting},
                         {"awaited", wait.awaited},
                         {"operation", wait.operation},
                         {"time_ns", wait.time_ns},
                         {"count", wait.count},
                         {"ranks", wait.ranks}});
  Json json{
      {"schema", "vrank.replay/1"},
      {"world_size", graph.world_size},
      {"layout", LayoutText(graph)},
      {"gpu", graph.gpu},
      {"cluster", replay.cluster()},
      {"provenance", ProvenanceJson(ProvenanceOf(graph))},
      {"iteration_time_ns", report.iteration_time_ns},
      {"iteration_source", IterationSourceJson(report)},
      {"iteration", report.iteration},
      {"nodes", replay.nodes()},
      {"nodes_played", replay.nodes_played()},
      {"communication_bytes", CommunicationBytes(graph)},
      {"classes", classes},
      {"critical_path", CriticalPathJson(report)},
      {"waits", waits},
      {"ledger", Json{{"measured", Rounded(ShareOf(report, graph::Source::kMeasured))},
                      {"recorded", Rounded(ShareOf(report, graph::Source::kRecorded))},
                      {"modelled", Rounded(ShareOf(report, graph::Source::kModelled))},
                      {"assumed", Rounded(ShareOf(report, graph::Source::kAssumed))}}},
      {"host_time", HostTimeJson(graph, report)},
      {"losses", LossesJson(graph.losses)}};
  if (!graph.recorded_ranks.empty()) {
    Json& recorded = json["recorded_ranks"] = Json::array();
    for (const graph::RecordedRank& rank : graph.recorded_ranks)
      recorded.push_back(rank.rank);
    if (!replay.is_as_recorded()) {
      const NetworkUse use = CountNetworkUse(graph);
      json["network"] = Json{{"priced", use.priced}, {"as_recorded", use.as_recorded}};
    }
  }
  if (extras.what_if)
    json["what_if"] = WhatIfJson(*extras.what_if);
  if (extras.against_recording)
    json["against_recording"] = ComparisonJson(*extras.against_recording);
  if (extras.goal)
    json["goal"] = Json{{"processes", extras.goal->processes},
                        {"ops", extras.goal->ops},
                        {"end_ns", extras.goal->end_ns}};
  if (extras.collectives) {
    Json rows = Json::array();
    for (const auto& [key, row] : replay.results().Collectives())
      rows.push_back(
          Json{{"communicator", key.first},
               {"sequence", key.second},
               {"operation", graph::Name(row.call.operation)},
               {"bytes", row.call.count * graph::ElementBytes(row.call.type)},
               {"end_ns", row.end_ns}});
    json["collectives"] = rows;
  }
  // Names are whatever the program says, and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string ReplayText(const GraphReplay& replay, const graph::ReplayReport& report,
                       const ReplayExtras& extras) {
  const graph::ExecutionGraph& graph = replay.graph();
  std::vector<std::string> times;
  for (const int64_t ns : report.iteration_time_ns)
    times.push_back(FormatTime(ns));
  const bool imported = !graph.recorded_ranks.empty();
  std::string text = fmt::format(
      "{}, {} of them {}; layout {}\n{} on {}\n\n"
      "iterations  {}{}\nnodes       {}, {} of them played (ranks with one timeline "
      "are "
      "played once)\n{}\n",
      RanksText(graph),
      imported ? graph.recorded_ranks.size() : TracedRanks(graph).size(),
      imported ? "recorded" : "traced", LayoutText(graph), graph.gpu, replay.cluster(),
      fmt::join(times, ", "), HowFound(report), FormatCount(replay.nodes()),
      FormatCount(replay.nodes_played()), NetworkLine(replay) + AbsentRanksLine(graph));
  if (extras.what_if)
    text += WhatIfText(*extras.what_if);
  text += fmt::format("iteration {} by class\n{}\n", report.iteration,
                      ClassTable(replay, report));

  text += PeakTable(report, imported);

  Table path;
  path.Add({"critical path", "rank", "time", "share", "count"});
  const int64_t length = PathLength(report);
  for (const graph::Contributor& row : Largest(report))
    path.Add(
        {Shortened(graph::Demangle(row.name)),
         row.rank < 0 ? "" : std::to_string(row.rank), FormatTime(row.time_ns),
         FormatPercent(length == 0 ? 0 : static_cast<double>(row.time_ns) / length),
         FormatCount(row.count)});
  text += path.ToString(0) + "\n";

  Table waits;
  waits.Add({"waiting", "for", "in", "time", "count"});
  for (size_t i = 0; i < std::min(kWaitsInText, report.waits.size()); ++i) {
    const graph::Wait& wait = report.waits[i];
    waits.Add({fmt::format("rank {} and its class", wait.waiting),
               fmt::format("rank {}", wait.awaited), wait.operation,
               FormatTime(wait.time_ns), FormatCount(wait.count)});
  }
  if (report.waits.size() > kWaitsInText)
    waits.Add(
        {fmt::format("  and {} more (--json)", report.waits.size() - kWaitsInText)});
  if (!report.waits.empty())
    text += waits.ToString(0) + "\n";
  const double measured = ShareOf(report, graph::Source::kMeasured);
  text += fmt::format(
      "fidelity    {} recorded, {}{} modelled, {} assumed (of the critical path)\n",
      FormatPercent(ShareOf(report, graph::Source::kRecorded)),
      measured == 0 ? "" : FormatPercent(measured) + " measured, ",
      FormatPercent(ShareOf(report, graph::Source::kModelled)),
      FormatPercent(ShareOf(report, graph::Source::kAssumed)));
  text += HostTimeLine(graph, report);
  if (extras.goal)
    text +=
        fmt::format("\nGOAL        {} processes, {} ops; the last one ends at {} ns\n",
                    FormatCount(extras.goal->processes), FormatCount(extras.goal->ops),
                    extras.goal->end_ns);
  if (extras.against_recording)
    text += "\n" + ComparisonText(*extras.against_recording);
  return text + LossLines(graph);
}

}  // namespace vrank::tools
