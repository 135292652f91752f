#include "tools/slices/slice_contents.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/trace/trace_file.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

SliceContents ContentsOf(const graph::RankTrace& trace) {
  SliceContents contents;
  contents.file = trace.file;
  if (trace.session.world_size > 0) {
    contents.rank = trace.session.rank;
    contents.world_size = trace.session.world_size;
    contents.layout = trace.session.layout;
    contents.gpu = trace.session.gpu;
  }
  contents.complete = trace.complete;
  contents.calls = trace.calls.size();
  for (const graph::TracedWork& work : trace.work)
    ++(work.work == graph::WorkClass::kKernel ? contents.kernels : contents.copies);
  for (const graph::TracedOperation& operation : trace.operations) {
    contents.collectives += operation.is_collective ? 1 : 0;
    contents.transfers += operation.transfers.size();
  }
  for (const graph::TracedNcclCall& call : trace.nccl_calls)
    contents.communicators +=
        call.kind != graph::TracedNcclCall::Kind::kRelease && call.told_size != 0 ? 1
                                                                                  : 0;
  std::vector<uint32_t> open;  // ids of ranges
  for (const graph::TracedRange& range : trace.ranges) {
    contents.ranges += range.begin ? 1 : 0;
    if (range.begin)
      open.push_back(static_cast<uint32_t>(&range - trace.ranges.data()));
    else if (const auto begun = std::find_if(
                 open.rbegin(), open.rend(),
                 [&](uint32_t i) { return trace.ranges[i].id == range.id; });
             begun != open.rend())
      open.erase(std::next(begun).base());
  }
  if (!open.empty())
    contents.open_range = trace.names[trace.ranges[open.back()].name];
  if (!trace.calls.empty()) {
    const auto by_start = [](const auto& a, const auto& b) {
      return a.start_ns < b.start_ns;
    };
    const auto [first, last] =
        std::minmax_element(trace.calls.begin(), trace.calls.end(), by_start);
    contents.duration_ns = std::max(last->end_ns, last->start_ns) - first->start_ns;
  }
  std::set<std::string> sources;
  for (const graph::TracedHostTime& host_time : trace.host_times) {
    contents.host_time_ns += host_time.ns;
    sources.insert(graph::Name(host_time.source));
  }
  contents.host_time_source = fmt::format("{}", fmt::join(sources, ", "));
  contents.dropped = trace.dropped_by_cupti + trace.dropped_by_tracer;
  return contents;
}

}  // namespace

std::vector<SliceContents> ReadContents(const std::vector<std::string>& files) {
  std::vector<SliceContents> contents;
  for (const std::string& file : files) {
    const absl::StatusOr<graph::RankTrace> trace = graph::ReadTrace(file);
    if (trace.ok()) {
      contents.push_back(ContentsOf(*trace));
      continue;
    }
    contents.emplace_back().file = file;
    contents.back().complete = false;
    contents.back().error = std::string(trace.status().message());
  }
  return contents;
}

std::string ContentsText(const std::vector<SliceContents>& contents) {
  Table table;
  const bool any_host_time =
      std::any_of(contents.begin(), contents.end(),
                  [](const SliceContents& one) { return one.host_time_ns != 0; });
  std::vector<std::string> header{
      "file",      "rank",          "calls",
      "kernels",   "copies",        "collectives",
      "transfers", "communicators", "from first to last call"};
  if (any_host_time)
    header.push_back("host time");
  table.Add(header);
  std::string notes;
  for (const SliceContents& one : contents) {
    std::vector<std::string> row{one.file,
                                 one.rank < 0 ? "-" : std::to_string(one.rank),
                                 FormatCount(one.calls),
                                 FormatCount(one.kernels),
                                 FormatCount(one.copies),
                                 FormatCount(one.collectives),
                                 FormatCount(one.transfers),
                                 FormatCount(one.communicators),
                                 FormatTime(one.duration_ns)};
    if (any_host_time)
      row.push_back(one.host_time_ns == 0
                        ? "-"
                        : fmt::format("{} {}", FormatTime(one.host_time_ns),
                                      one.host_time_source));
    table.Add(row);
    if (!one.error.empty())
      notes += one.error + "\n";
    else if (!one.complete && one.calls == 0)
      notes += fmt::format(
          "{}: nothing was recorded: its program ended before its first call was "
          "written, or the disk was full; trace the rank again\n",
          one.file);
    else if (!one.complete)
      notes += fmt::format(
          "{}: incomplete, its program did not end{}; trace the rank again\n", one.file,
          one.open_range.empty()
              ? ""
              : fmt::format(" (it was in range '{}')", one.open_range));
    else if (one.rank < 0)
      notes += fmt::format(
          "{}: its slice did not end, so it makes no graph; trace the rank again\n",
          one.file);
    if (one.dropped != 0)
      notes += fmt::format("{}: {} records are missing\n", one.file,
                           FormatCount(one.dropped));
  }
  return table.ToString(0) + (notes.empty() ? "" : "\n" + notes);
}

std::string ContentsJson(const std::vector<SliceContents>& contents) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const SliceContents& one : contents) {
    Json row{{"file", one.file}};
    row["rank"] = one.rank < 0 ? Json(nullptr) : Json(one.rank);
    row["world_size"] = one.rank < 0 ? Json(nullptr) : Json(one.world_size);
    row["layout"] = one.layout;
    row["gpu"] = one.gpu;
    row["complete"] = one.complete;
    row["calls"] = one.calls;
    row["kernels"] = one.kernels;
    row["copies"] = one.copies;
    row["collectives"] = one.collectives;
    row["transfers"] = one.transfers;
    row["communicators"] = one.communicators;
    row["ranges"] = one.ranges;
    row["open_range"] = one.open_range;
    row["duration_ns"] = one.duration_ns;
    row["host_time_ns"] = one.host_time_ns;
    row["host_time_source"] = one.host_time_source;
    row["dropped_records"] = one.dropped;
    row["error"] = one.error;
    rows.push_back(row);
  }
  return Json{{"schema", "vrank.slices/1"}, {"slices", rows}}.dump(
      2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace vrank::tools
