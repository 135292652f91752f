#include "tools/slices/traced_graph.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "base/status_macros.h"
#include "graph/file/graph_file.h"
#include "tools/machine/scratch_folder.h"
#include "tools/slices/slice_folder.h"
#include "tools/slices/slice_recorder.h"

namespace vrank::tools {
namespace fs = std::filesystem;

absl::StatusOr<TracedGraph> TraceAndBuild(const Job& job,
                                          const std::vector<int32_t>& ranks,
                                          RankOutput* output) {
  ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::Make());
  ASSIGN_OR_RETURN(SliceRecorder recorder,
                   SliceRecorder::Make(job, folder.path(), false, output));
  recorder.FolderIsPassing();
  TracedGraph made;
  made.traced = ranks;
  ASSIGN_OR_RETURN(const std::vector<RecordedSlice> slices,
                   recorder.RecordAll(made.traced, 1));
  for (const RecordedSlice& slice : slices)
    made.slice_bytes += slice.bytes;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ListSlices({folder.path()}));
  ASSIGN_OR_RETURN(const graph::ExecutionGraph built,
                   BuildFromSlices(files, {}, {}, [](const std::string&) {}));
  const std::string path = folder.path() + "/job.vgraph";
  RETURN_IF_ERROR(graph::WriteGraph(built, path));
  std::error_code ignored;
  made.graph_bytes = fs::file_size(path, ignored);
  ASSIGN_OR_RETURN(made.graph, graph::OpenGraph(path));
  return made;
}

}  // namespace vrank::tools
