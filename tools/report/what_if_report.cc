#include "tools/report/what_if_report.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tools/job/provenance.h"
#include "tools/report/graph_text.h"
#include "tools/report/losses_json.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;
using graph::EditedNodes;
using graph::WhatIf;

int64_t Nanoseconds(double ns) {
  return static_cast<int64_t>(std::llround(ns));
}

double Rounded(double share) {
  return std::round(share * 1e6) / 1e6;
}

// "22.1 % shorter".
std::string Change(int64_t before_ns, int64_t after_ns) {
  if (before_ns == after_ns || before_ns <= 0)
    return "no change";
  const double share = static_cast<double>(std::abs(before_ns - after_ns)) /
                       static_cast<double>(before_ns);
  return fmt::format("{} {}", FormatPercent(share),
                     after_ns < before_ns ? "shorter" : "longer");
}

Json NodesJson(const WhatIf& edit, const EditedNodes& nodes) {
  return Json{{"edit", edit.text},
              {"nodes", nodes.nodes},
              {"changed_nodes", nodes.changed},
              {"before_ns", Nanoseconds(nodes.before_ns)},
              {"after_ns", Nanoseconds(nodes.after_ns)},
              {"assumed_before", Rounded(nodes.AssumedShare())}};
}

// Short enough for a table, and still the same edit where a glob can be shorter.
std::string TextOf(const WhatIf& edit) {
  constexpr size_t kMost = 60, kSide = 20;
  if (edit.subject != WhatIf::Subject::kKernel || edit.text.size() <= kMost)
    return edit.text;
  const size_t name = edit.text.find(edit.name);
  std::string text = edit.text.substr(0, name + kSide);
  text += '*';
  text += edit.text.substr(name + edit.name.size() - kSide);
  return text;
}

// The mean says something else than the one iteration.
bool MeansDiffer(const WhatIfOutcome& outcome) {
  constexpr double kAlike = 0.01;
  if (outcome.mean_before_ns == 0 || outcome.before_ns == 0)
    return false;
  const double one = static_cast<double>(outcome.after_ns) /
                     static_cast<double>(outcome.before_ns),
               mean = static_cast<double>(outcome.mean_after_ns) /
                      static_cast<double>(outcome.mean_before_ns);
  return std::abs(one - mean) > kAlike;
}

std::vector<std::string> Cells(const WhatIf& edit, const EditedNodes& nodes) {
  return {TextOf(edit), FormatCount(nodes.nodes),
          FormatTime(Nanoseconds(nodes.before_ns)),
          FormatPercent(nodes.AssumedShare())};
}

}  // namespace

std::string WhatIfText(const WhatIfOutcome& outcome) {
  std::string text = fmt::format(
      "what if     iteration {} takes {} instead of {}: {}\n", outcome.iteration,
      FormatTime(outcome.after_ns), FormatTime(outcome.before_ns),
      Change(outcome.before_ns, outcome.after_ns));
  if (MeansDiffer(outcome))
    text += fmt::format(
        "            all but the first take {} instead of {} on average: {}\n",
        FormatTime(outcome.mean_after_ns), FormatTime(outcome.mean_before_ns),
        Change(outcome.mean_before_ns, outcome.mean_after_ns));
  text += '\n';
  Table table;
  table.Add({"edit", "nodes", "their time", "assumed", "then", "changed"});
  for (size_t i = 0; i < outcome.edits.size(); ++i) {
    std::vector<std::string> row = Cells(outcome.edits[i], outcome.nodes[i]);
    row.push_back(FormatTime(Nanoseconds(outcome.nodes[i].after_ns)));
    row.push_back(FormatCount(outcome.nodes[i].changed));
    table.Add(std::move(row));
  }
  text += table.ToString(0);
  text += '\n';
  return text;
}

Json WhatIfJson(const WhatIfOutcome& outcome) {
  Json edits = Json::array();
  for (size_t i = 0; i < outcome.edits.size(); ++i)
    edits.push_back(NodesJson(outcome.edits[i], outcome.nodes[i]));
  return Json{{"edits", edits},
              {"iteration", outcome.iteration},
              {"before_ns", outcome.before_ns},
              {"after_ns", outcome.after_ns},
              {"mean_before_ns", outcome.mean_before_ns},
              {"mean_after_ns", outcome.mean_after_ns}};
}

std::string WhatIfTableText(const graph::ExecutionGraph& graph,
                            const WhatIfTrials& present) {
  std::string text =
      fmt::format("{}; layout {}\n{} on {}\n\niteration {} takes {}", RanksText(graph),
                  LayoutText(graph), graph.gpu, present.cluster, present.iteration,
                  FormatTime(present.ns));
  if (!present.edits.empty())
    text += " with";
  text += '\n';
  for (size_t i = 0; i < present.edits.size(); ++i)
    text += fmt::format("  {} ({} nodes)\n", present.edits[i].text,
                        FormatCount(present.nodes[i].nodes));
  Table table;
  table.Add({"what if", "nodes", "their time", "assumed", "iteration", "gain",
             "at half", "gain"});
  size_t without = 0;
  for (const WhatIfTrial& part : present.rows) {
    if (part.free_ns[present.iteration] == present.ns) {
      ++without;
      continue;
    }
    const auto gain = [&present](int64_t ns) {
      return present.ns == 0 || ns == present.ns
                 ? std::string("0 %")
                 : fmt::format("{:.2f} %", 100 * static_cast<double>(present.ns - ns) /
                                               static_cast<double>(present.ns));
    };
    std::vector<std::string> row = Cells(part.edit, part.nodes);
    const int64_t free_ns = part.free_ns[present.iteration];
    row.push_back(FormatTime(free_ns));
    row.push_back(gain(free_ns));
    if (!part.half_ns.empty()) {
      row.push_back(FormatTime(part.half_ns[present.iteration]));
      row.push_back(gain(part.half_ns[present.iteration]));
    }
    table.Add(std::move(row));
  }
  text += '\n';
  text += table.ToString(0);
  if (without != 0)
    text += fmt::format("{} more would bring nothing (--json)\n", without);
  text +=
      "\nnodes and their time are of all ranks and the whole run; assumed: the share "
      "of "
      "that\ntime that no model and no recording vouches for\n";
  text += LossLines(graph);
  return text;
}

std::string WhatIfTableJson(const graph::ExecutionGraph& graph,
                            const WhatIfTrials& present) {
  Json edits = Json::array();
  for (size_t i = 0; i < present.edits.size(); ++i)
    edits.push_back(NodesJson(present.edits[i], present.nodes[i]));
  Json rows = Json::array();
  for (const WhatIfTrial& part : present.rows) {
    Json row = NodesJson(part.edit, part.nodes);
    row.erase("after_ns");
    const int64_t free_ns = part.free_ns[present.iteration];
    row["iteration_time_ns"] = free_ns;
    row["gain_ns"] = present.ns - free_ns;
    row["iteration_time_at_half_ns"] = nullptr;
    if (!part.half_ns.empty())
      row["iteration_time_at_half_ns"] = part.half_ns[present.iteration];
    rows.push_back(std::move(row));
  }
  const Json json{{"schema", "vrank.what_if_table/1"},
                  {"world_size", graph.world_size},
                  {"layout", LayoutText(graph)},
                  {"gpu", graph.gpu},
                  {"cluster", present.cluster},
                  {"provenance", ProvenanceJson(ProvenanceOf(graph))},
                  {"what_ifs", edits},
                  {"iteration", present.iteration},
                  {"iteration_time_ns", present.ns},
                  {"rows", rows},
                  {"losses", LossesJson(graph.losses)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vrank::tools
