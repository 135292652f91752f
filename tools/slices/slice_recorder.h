// Runs slices of a job and leaves a .vtrace file per traced rank.
//
// A slice is a session in which a few ranks are real and traced; the ranks of their
// classes follow them, and all others are absent: they arrive whenever the first known
// member does. So are ranks of the class that have a slice of their own: they need not
// do what its leader does (routed experts). What such a wait lasts is no part of the
// graph (graph/build), so the absent ranks cost nothing in exactness.
//
// Who belongs to a communicator is not to be told from the calls of one rank, and what
// a program does depends on it. So the ranks of all classes run together once,
// untraced, before the first slice; what their calls show becomes hints for every
// slice. They run up to the end of the first iteration; where a slice then makes a
// communicator that no hint tells of, they run once more to the end, and all slices are
// recorded again. Where that still leaves something open, the rank that decides runs
// beside the slice.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_SLICES_SLICE_RECORDER_H_
#define VRANK_TOOLS_SLICES_SLICE_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/interruption.h"
#include "graph/membership/group_hint.h"
#include "graph/trace/rank_trace.h"
#include "tools/job/job.h"
#include "tools/job/rank_output.h"
#include "tools/machine/folder_lock.h"

namespace vrank::tools {

struct RecordedSlice {
  int32_t rank = 0;
  std::string file;
  uint64_t bytes = 0;
  std::vector<int32_t> beside;  // other ranks that were real in its session
  uint64_t compared_nodes = 0;  // see CheckSlice
};

class SliceRecorder {
 public:
  // `folder` is made if it is not there. `output` outlives the recorder.
  static absl::StatusOr<SliceRecorder> Make(const Job& job, std::string folder,
                                            bool overwrite, RankOutput* output);

  // An error before anything runs: traces of these ranks are there already, and may not
  // be overwritten, or one of another rank is of another job, which would lie beside
  // these.
  absl::Status CheckFree(const std::vector<int32_t>& ranks) const;

  // Each slice is compared with what the emulator received from the same run
  // (slice_check.h); from now on strictly.
  void CheckAgainstEmulator() { check_ = true; }

  // The folder is a scratch folder: nobody is pointed to what a failed slice leaves.
  void FolderIsPassing() { passing_ = true; }

  // Learns the communicators from the planned ranks, then runs one slice of `together`
  // ranks after the other. Where a slice fails, what its ranks wrote up to then stays
  // in the folder, under names that the error tells.
  absl::StatusOr<std::vector<RecordedSlice>> RecordAll(
      const std::vector<int32_t>& ranks, size_t together);

  std::string PathOf(int32_t rank) const;

  // Removes the slices that RecordAll wrote, where it failed: they are of no use to a
  // job of another layout.
  void RemoveWritten();
  // After a failure: traces of these ranks without a byte in them, and the folders that
  // Make made where nothing is in them now.
  void RemoveWhatIsEmpty(const std::vector<int32_t>& ranks) const;

 private:
  SliceRecorder(const Job* job, std::string folder, FolderLock lock, bool overwrite,
                RankOutput* output, std::string fingerprint, std::string cost_options);

  absl::StatusOr<std::vector<RecordedSlice>> RecordEach(
      const std::vector<int32_t>& ranks, size_t together, bool stop_if_open);
  absl::StatusOr<std::vector<RecordedSlice>> Record(const std::vector<int32_t>& ranks);
  RunOptions Options(const std::vector<int32_t>& real) const;
  absl::Status Attempt(const std::vector<int32_t>& traced,
                       const std::vector<int32_t>& real, std::unique_ptr<Run>* run);
  absl::StatusOr<RecordedSlice> Finish(int32_t rank, const Run& run) const;
  // Where a slice fails, those after it are not replaced: none of another job may stay.
  void RemoveReplaced(const std::vector<int32_t>& ranks) const;
  std::string RawPathOf(int32_t rank) const;
  // Where somebody ends vrank (base/interruption.h).
  void TellWhatStays() const;
  // What a slice is of, as far as it is known before it runs; `like`: the rest.
  graph::TraceSession SessionLike(graph::TraceSession like) const;

  const Job* job_;
  std::string folder_;
  FolderLock lock_;
  std::vector<std::string> made_;  // folders, the innermost first
  std::vector<RemovedOnInterruption> removed_;
  bool overwrite_;
  RankOutput* output_;
  std::string fingerprint_, cost_options_;
  std::vector<graph::GroupHint> hints_;
  std::vector<int32_t> all_traced_;   // of all slices
  std::vector<std::string> written_;  // files
  size_t complete_ = 0;               // slices of this round
  bool open_ = false;  // a slice made a communicator that no hint tells of
  bool check_ = false;
  bool passing_ = false;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_SLICES_SLICE_RECORDER_H_
