#include "tools/what_if_report.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "tools/graph_losses.h"
#include "tools/layout_text.h"
#include "tools/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;
using graph::EditedNodes;
using graph::WhatIf;

// Parts of a kind in a table: families of kernels, ranks.
constexpr size_t kMostOfAKind = 12;

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

std::vector<std::string> Cells(const WhatIf& edit, const EditedNodes& nodes) {
  return {TextOf(edit), FormatCount(nodes.nodes),
          FormatTime(Nanoseconds(nodes.before_ns)),
          FormatPercent(nodes.AssumedShare())};
}

graph::EditableJob Editable(const PricedJob& priced, const graph::ExecutionGraph& graph,
                            const GraphReplayOptions& options) {
  return graph::EditableJob(
      &priced.job, priced.network.get(),
      [&options](const std::string& name) {
        return options.iteration_pattern.Matches(name);
      },
      AbsentRanks(graph));
}

// A row of the table.
struct Part {
  WhatIf edit;
  EditedNodes nodes;
  std::vector<int64_t> free_ns, half_ns;  // by iteration; half_ns may be empty
};

// Tries what the rows of a table state, on several threads.
class Trials {
 public:
  Trials(const graph::EditableJob& job, std::vector<WhatIf> first)
      : job_(job), first_(std::move(first)) {}

  absl::Status Run(std::vector<Part>* parts, uint32_t threads,
                   const std::function<void(const std::string&)>& progress) {
    const size_t count = 2 * parts->size();
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < count && !failed_; i = next++) {
        Try((*parts)[i / 2], i % 2 != 0);
        if (progress) {
          const std::lock_guard<std::mutex> lock(mutex_);
          progress(fmt::format("{} of {} what-ifs", ++done_, count));
        }
      }
    };
    std::vector<std::thread> helpers;
    for (uint32_t i = 1; i < threads; ++i)
      helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers)
      helper.join();
    return status_;
  }

 private:
  void Try(Part& part, bool half) {
    if (half && part.edit.change != WhatIf::Change::kScale)
      return;
    std::vector<WhatIf> edits = first_;
    edits.push_back(part.edit);
    if (half)
      edits.back().factor = 0.5;
    const auto edited = job_.Edit(edits);
    auto times = edited.ok() ? job_.IterationTimes(*edited) : edited.status();
    if (!times.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = times.status();
      failed_ = true;
      return;
    }
    (half ? part.half_ns : part.free_ns) = *std::move(times);
    if (!half)
      part.nodes = edited->nodes.back();
  }

  const graph::EditableJob& job_;
  const std::vector<WhatIf> first_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // of what follows
  absl::Status status_;
  size_t done_ = 0;
};

// What a table is about.
struct Present {
  std::vector<WhatIf> edits;
  std::vector<EditedNodes> nodes;
  size_t iteration = 0;
  int64_t ns = 0;
};

std::string TableText(const graph::ExecutionGraph& graph, const std::string& cluster,
                      const Present& present, const std::vector<Part>& parts) {
  std::string text = fmt::format(
      "{} ranks from the graph alone; layout {}\n{} on {}\n\niteration {} takes {}",
      FormatCount(static_cast<uint64_t>(graph.world_size)), LayoutText(graph),
      graph.gpu, cluster, present.iteration, FormatTime(present.ns));
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
  for (const Part& part : parts) {
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

std::string TableJson(const graph::ExecutionGraph& graph, const std::string& cluster,
                      const Present& present, const std::vector<Part>& parts) {
  Json edits = Json::array();
  for (size_t i = 0; i < present.edits.size(); ++i)
    edits.push_back(NodesJson(present.edits[i], present.nodes[i]));
  Json rows = Json::array();
  for (const Part& part : parts) {
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
                  {"cluster", cluster},
                  {"provenance", ProvenanceJson(ProvenanceOf(graph))},
                  {"what_ifs", edits},
                  {"iteration", present.iteration},
                  {"iteration_time_ns", present.ns},
                  {"rows", rows},
                  {"losses", LossesJson(graph.losses)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<std::vector<WhatIf>> ParseWhatIfs(
    const std::vector<std::string>& flags) {
  std::vector<WhatIf> edits;
  for (const std::string& flag : flags) {
    ASSIGN_OR_RETURN(WhatIf edit, graph::ParseWhatIf(flag));
    edits.push_back(std::move(edit));
  }
  return edits;
}

absl::StatusOr<std::vector<int64_t>> IterationTimesBefore(
    const graph::ExecutionGraph& graph, const Installation& installation,
    const GraphReplayOptions& options) {
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const PricedJob priced, PriceJob(graph, installation, before));
  const graph::EditableJob job = Editable(priced, graph, before);
  ASSIGN_OR_RETURN(const graph::EditedJob same, job.Edit({}));
  return job.IterationTimes(same);
}

std::string WhatIfText(const WhatIfOutcome& outcome) {
  std::string text = fmt::format(
      "what if     iteration {} takes {} instead of {}: {}\n\n", outcome.iteration,
      FormatTime(outcome.after_ns), FormatTime(outcome.before_ns),
      Change(outcome.before_ns, outcome.after_ns));
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
              {"after_ns", outcome.after_ns}};
}

absl::StatusOr<std::string> WhatIfTable(const graph::ExecutionGraph& graph,
                                        const Installation& installation,
                                        const GraphReplayOptions& options,
                                        const WhatIfTableOptions& table) {
  Present present;
  present.edits = options.what_ifs;
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const PricedJob priced, PriceJob(graph, installation, before));
  const graph::EditableJob job = Editable(priced, graph, before);
  ASSIGN_OR_RETURN(const graph::EditedJob edited, job.Edit(present.edits));
  present.nodes = edited.nodes;
  ASSIGN_OR_RETURN(const std::vector<int64_t> times, job.IterationTimes(edited));
  if (times.empty())
    return absl::InvalidArgumentError(
        "--what-if-table: the graph has no operations, so nothing can take less time");
  if (table.iteration >= static_cast<int32_t>(times.size()))
    return absl::InvalidArgumentError(
        fmt::format("--iteration {}: the last one of all ranks is {}", table.iteration,
                    times.size() - 1));
  present.iteration =
      table.iteration >= 0 ? static_cast<size_t>(table.iteration) : times.size() - 1;
  present.ns = times[present.iteration];

  std::vector<Part> parts;
  for (WhatIf& edit : job.Candidates(kMostOfAKind))
    parts.push_back({std::move(edit), {}, {}, {}});
  const uint32_t threads = table.threads != 0
                               ? table.threads
                               : std::max(1u, std::thread::hardware_concurrency());
  RETURN_IF_ERROR(Trials(job, present.edits).Run(&parts, threads, table.progress));
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
    return a.free_ns[present.iteration] < b.free_ns[present.iteration];
  });
  return table.json ? TableJson(graph, priced.cluster, present, parts)
                    : TableText(graph, priced.cluster, present, parts);
}

}  // namespace vrank::tools
