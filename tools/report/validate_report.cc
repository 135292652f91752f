#include "tools/report/validate_report.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMeaning[] =
    "This is consistency, not accuracy: a run with virtual ranks gives what the fully "
    "real run on the same models gives. How far the models are from a real cluster is "
    "another question.";

Json ComparisonJson(const RunComparison& comparison, bool with_output) {
  Json json{{"iterations", comparison.iterations},
            {"collectives", comparison.collectives},
            {"transfers", comparison.transfers},
            {"unmatched", comparison.unmatched},
            {"max_iteration_error_ns", comparison.max_iteration_error_ns},
            {"max_collective_error_ns", comparison.max_collective_error_ns},
            {"peak_memory_error_bytes", comparison.peak_memory_error_bytes}};
  if (with_output)
    json["output_differences"] = comparison.output_differences;
  return json;
}

std::vector<std::string> Row(const std::string& name, const RunComparison& comparison,
                             bool with_output) {
  std::vector<std::string> row{name,
                               fmt::format("{}", comparison.iterations),
                               fmt::format("{}", comparison.collectives),
                               fmt::format("{}", comparison.transfers),
                               FormatTime(comparison.max_iteration_error_ns),
                               FormatTime(comparison.max_collective_error_ns),
                               fmt::format("{} B", comparison.peak_memory_error_bytes),
                               fmt::format("{}", comparison.unmatched)};
  if (with_output)
    row.push_back(fmt::format("{}", comparison.output_differences));
  return row;
}

// "0, with 1, 4": the case, and who had to be real, too, to be followed.
std::string LiveName(const ValidateCase& one) {
  std::vector<int32_t> added;
  std::set_difference(one.live_real_ranks.begin(), one.live_real_ranks.end(),
                      one.real_ranks.begin(), one.real_ranks.end(),
                      std::back_inserter(added));
  return FormatRanks(one.real_ranks) +
         (added.empty() ? "" : ", with " + FormatRanks(added));
}

std::vector<std::string> Header(const std::string& title, bool with_output) {
  std::vector<std::string> row{title,
                               "iterations",
                               "collectives",
                               "transfers",
                               "iteration error",
                               "collective error",
                               "peak memory error",
                               "unmatched"};
  if (with_output)
    row.push_back("output lines");
  return row;
}

}  // namespace

std::string ValidateJson(const Job& job, const ValidateResult& result) {
  Json json{{"schema", "vrank.validate/1"},      {"ranks", job.world_size()},
            {"layout", job.layout().ToString()}, {"gpu", job.gpu().short_name},
            {"cluster", job.cluster_name()},     {"meaning", kMeaning}};
  json["via_graph"] = result.graph_differences.has_value();
  json["cases"] = Json::array();
  for (const ValidateCase& one : result.cases) {
    Json entry{{"real_ranks", one.real_ranks}};
    entry.update(ComparisonJson(one.recorded, result.with_output));
    if (one.live.has_value()) {
      entry["live"] = Json{{"real_ranks", one.live_real_ranks}};
      entry["live"].update(ComparisonJson(*one.live, result.with_output));
    } else {
      entry["live"] = nullptr;
      if (!one.live_not_run.empty())
        entry["live_not_run"] = one.live_not_run;
    }
    json["cases"].push_back(entry);
  }
  if (result.graph_differences.has_value()) {
    json["graph_differences"] = Json::array();
    for (const GraphDifference& one : *result.graph_differences)
      json["graph_differences"].push_back(Json{
          {"rank", one.rank}, {"plays", one.plays}, {"difference", one.difference}});
  }
  return json.dump(2);
}

namespace {

// Why a graph is not exact, and what makes it so.
std::string DifferencesText(const std::vector<GraphDifference>& differences) {
  std::string text;
  std::vector<int32_t> untraced;
  for (const GraphDifference& one : differences) {
    const bool own = one.plays == one.rank;
    if (!own)
      untraced.push_back(one.rank);
    text += fmt::format(
        "In the full run rank {} did something else than {}: {}\n", one.rank,
        own ? "in its trace" : fmt::format("rank {}, whose trace it plays", one.plays),
        one.difference);
  }
  if (!untraced.empty())
    text += fmt::format(
        "A trace of their own makes the graph exact for them: name rank{} {} in "
        "--trace-ranks, too\n",
        untraced.size() == 1 ? "" : "s", FormatRanks(untraced));
  return text;
}

}  // namespace

std::string ValidateText(const Job& job, const ValidateResult& result) {
  std::string text =
      fmt::format("{} ranks, layout {}, on {}, cluster {}\n\n", job.world_size(),
                  job.layout().ToString(), job.gpu().short_name, job.cluster_name());
  Table recorded, live;
  recorded.Add(Header(result.graph_differences.has_value()
                          ? "real (others play the graph of traced slices)"
                          : "real (others play programs of the full run)",
                      result.with_output));
  live.Add(Header("real (others follow them live)", result.with_output));
  bool any_live = false;
  std::string not_run;
  for (const ValidateCase& one : result.cases) {
    recorded.Add(Row(one.real_ranks.empty() ? "none" : FormatRanks(one.real_ranks),
                     one.recorded, result.with_output));
    if (one.live.has_value()) {
      any_live = true;
      live.Add(Row(LiveName(one), *one.live, result.with_output));
    } else if (!one.live_not_run.empty()) {
      not_run += fmt::format("Not followed live, real {}: {}\n",
                             FormatRanks(one.real_ranks), one.live_not_run);
    }
  }
  text += recorded.ToString(0) + "\n";
  if (any_live)
    text += live.ToString(0) + "\n";
  if (!not_run.empty())
    text += not_run + "\n";
  if (result.graph_differences.has_value() && !result.graph_differences->empty())
    text += DifferencesText(*result.graph_differences) + "\n";
  return text + kMeaning + "\n";
}

}  // namespace vrank::tools
