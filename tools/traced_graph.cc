#include "tools/traced_graph.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/rank_plan.h"
#include "graph/file/graph_file.h"
#include "tools/slice_folder.h"
#include "tools/slice_recorder.h"

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

// A folder that goes with its owner.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "vrank-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr)
      return absl::FailedPreconditionError(
          fmt::format("{}: no folder can be made there ({}); set TMPDIR to a place "
                      "with room",
                      path, strerror(errno)));
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty())
      fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

absl::StatusOr<TracedGraph> TraceAndBuild(const Job& job, RankOutput* output) {
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSIGN_OR_RETURN(SliceRecorder recorder,
                   SliceRecorder::Make(job, folder.path(), false, output));
  TracedGraph made;
  made.traced = graph::PlanRanks(job.layout()).ranks();
  ASSIGN_OR_RETURN(const std::vector<RecordedSlice> slices,
                   recorder.RecordAll(made.traced, 1));
  for (const RecordedSlice& slice : slices)
    made.slice_bytes += slice.bytes;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ListSlices({folder.path()}));
  ASSIGN_OR_RETURN(const graph::ExecutionGraph built,
                   BuildFromSlices(files, {}, [](const std::string&) {}));
  const std::string path = folder.path() + "/job.vgraph";
  RETURN_IF_ERROR(graph::WriteGraph(built, path));
  std::error_code ignored;
  made.graph_bytes = fs::file_size(path, ignored);
  ASSIGN_OR_RETURN(made.graph, graph::OpenGraph(path));
  return made;
}

}  // namespace vrank::tools
