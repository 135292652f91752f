#include "tools/slices/slice_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/trace/trace_file.h"
#include "tools/job/job_flags.h"
#include "tools/job/kernel_times.h"
#include "tools/job/program_fingerprint.h"
#include "tools/terminal/shell_word.h"

namespace vrank::tools {

absl::StatusOr<std::vector<std::string>> ListSlices(
    const std::vector<std::string>& places, bool with_raw,
    std::vector<std::string>* left_out) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string& place = places[i];
    std::error_code error;
    if (!fs::exists(place, error))
      return absl::NotFoundError(
          fmt::format("{}: there is no such file or folder", place));
    for (size_t j = 0; j < i; ++j)
      if (fs::equivalent(place, places[j], error))
        return absl::InvalidArgumentError(
            place == places[j]
                ? fmt::format("{}: it was named twice; name it once", place)
                : fmt::format("{} and {}: they are the same; name it once", places[j],
                              place));
    if (!fs::is_directory(place, error)) {
      files.push_back(place);
      continue;
    }
    const size_t before = files.size();
    std::vector<std::string> raw;
    for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
      if (entry.path().string().ends_with(kRawSuffix))
        (with_raw ? files : raw).push_back(entry.path().string());
      else if (entry.path().extension() == ".vtrace")
        files.push_back(entry.path().string());
    }
    if (error)
      return absl::FailedPreconditionError(
          fmt::format("{}: {}", place, error.message()));
    std::sort(raw.begin(), raw.end());
    if (left_out != nullptr)
      left_out->insert(left_out->end(), raw.begin(), raw.end());
    if (files.size() == before && !raw.empty())
      return absl::NotFoundError(fmt::format(
          "{}: no .vtrace file in it, but what {} slice{} that failed left ({}{}); "
          "`vrank build --list {}` shows what is in there; trace the ranks again",
          place, raw.size(), raw.size() == 1 ? "" : "s",
          fs::path(raw.front()).filename().string(),
          raw.size() == 1 ? "" : fmt::format(" and {} more", raw.size() - 1),
          ShellWord(place)));
    if (files.size() == before)
      return absl::NotFoundError(
          fmt::format("{}: no .vtrace file in it; `vrank trace -o {}` leaves them "
                      "there",
                      place, ShellWord(place)));
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, std::string> named;  // by what the path leads to
  for (const std::string& file : files) {
    std::error_code error;
    const auto [other, is_new] =
        named.emplace(fs::weakly_canonical(file, error).string(), file);
    if (!is_new)
      return absl::InvalidArgumentError(
          file == other->second
              ? fmt::format("{}: it was named twice, once by its folder; name it once",
                            file)
              : fmt::format("{} and {}: they are one file; name it once", other->second,
                            file));
  }
  return files;
}

absl::StatusOr<graph::ExecutionGraph> BuildFromSlices(
    const std::vector<std::string>& files, graph::GraphBuildOptions options,
    const std::vector<std::string>& kernel_times,
    const std::function<void(const std::string&)>& progress) {
  for (const std::string& file : files)
    if (file.ends_with(kRawSuffix))
      return absl::InvalidArgumentError(fmt::format(
          "slice '{}': it is what `vrank trace` left of a slice that failed, and makes "
          "no graph; trace the rank again (`vrank build --list {}` shows what it "
          "holds)",
          file, file));
  std::vector<graph::RankTrace> slices;
  for (const std::string& file : files) {
    progress(
        fmt::format("reading {} ({} of {})", file, slices.size() + 1, files.size()));
    ASSIGN_OR_RETURN(graph::RankTrace slice, graph::ReadTrace(file));
    slices.push_back(std::move(slice));
  }
  progress("building");
  if (kernel_times.empty() || slices.empty())
    return graph::BuildGraph(slices, options);
  if (slices.front().session.cost_options.find(kKernelTimesOption) != std::string::npos)
    return absl::FailedPreconditionError(
        "the slices were traced with a table of kernel times, which another one at "
        "build cannot replace: trace without a table, or merge both (`vrank kernels`) "
        "and trace with that");
  ASSIGN_OR_RETURN(const auto table,
                   ReadKernelTimes(kernel_times, slices.front().session.gpu));
  options.kernel_times = table.get();
  ASSIGN_OR_RETURN(graph::ExecutionGraph graph, graph::BuildGraph(slices, options));
  // What a run beside the graph has to state, too.
  for (const std::string& table : kernel_times) {
    ASSIGN_OR_RETURN(const std::string file, FileFingerprint(table));
    if (!graph.cost_options.empty())
      graph.cost_options += ' ';
    graph.cost_options += kKernelTimesOption + file;
  }
  return graph;
}

}  // namespace vrank::tools
