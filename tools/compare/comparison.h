// Two results of the same job, before and after a change: which figures moved, by how
// much, and how far that can be trusted.
//
// A result is what `vrank replay --json` or `vrank emulate --json` printed. Both are
// predictions of one model in virtual time, equal in every run, so there is no noise to
// allow for: any change is a change of the program. What limits the trust is time that
// was assumed, and a finding says so.
//
// Thread rule: plain values and pure functions.

#ifndef VRANK_TOOLS_COMPARE_COMPARISON_H_
#define VRANK_TOOLS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "tools/compare/work_totals.h"
#include "tools/job/provenance.h"

namespace vrank::tools {

enum class Unit { kTime, kBytes };  // nanoseconds, bytes

struct Metric {
  std::string name;
  Unit unit = Unit::kTime;
  int64_t value = 0;
};

// A part of the critical path, for the question why.
struct PathPart {
  std::string kind, name;
  int64_t time_ns = 0;
};

struct JobResult {
  std::string subject;  // the file that it was read from
  std::string schema;
  std::string job;  // world size, layout, GPU, cluster: what makes results comparable
  // "iteration_time": of the iteration that the result is about (a replay), the last
  // one (an emulation). "peak_memory": the highest of any rank. Then, from a replay,
  // the breakdown of the rank whose iteration is the longest; from an emulation
  // "mean_iteration_time": of all iterations but the first, with what passes between
  // them (evaluations, checkpoints).
  std::vector<Metric> metrics;
  int64_t assumed_ns = 0;  // on the critical path of one iteration
  // Missing in results of older versions.
  std::optional<Provenance> provenance;
  // What a change of the model changes, per iteration: FLOPs of the real ranks or, of a
  // replay, its nodes; and bytes of communication. 0: not known, or none.
  double work = 0, communication_bytes = 0;
  bool is_lower_bound = false;  // HostBound
  // --host-time: "modelled", "recorded", "measured", or "" of an older version. What
  // was measured differs from run to run, and so do two recordings of one program.
  std::string host_time;
  // Of an imported graph: its memory is what a profiler wrote down.
  bool is_imported = false;
  std::vector<PathPart> path;
  WorkTotals totals;  // of an emulation
};

// Reads the JSON of a result. Every unfit file is one error that names it.
absl::StatusOr<JobResult> ReadResult(const std::string& subject,
                                     const std::string& json);

struct Finding {
  Metric base, updated;
  // "measured", "recorded": a time that holds the program's own CPU time, as these runs
  // or two different recordings had it: their noise is in the change.
  // "lower bound": a time of a job whose program uses more CPU time per iteration than
  // was predicted without it; "exact": a figure that rests on no assumption;
  // "modelled": a time whose change is larger than what either critical path assumes;
  // "assumed": one that an assumption could explain.
  std::string confidence;
  // False: it says nothing beside the others.
  bool is_shown = true;

  int64_t change() const { return updated.value - base.value; }
  double relative_change() const;  // of the base; 0 where both are 0
};

// What one part of the critical path contributes to the change. A result lists its
// largest parts only: a part that one of the two does not list has no time there, and
// no change that could be told.
struct Cause {
  std::string kind, name;
  std::optional<int64_t> base_ns, new_ns;
  int64_t change() const { return base_ns && new_ns ? *new_ns - *base_ns : 0; }
};

struct Comparison {
  JobResult base, updated;
  std::vector<Finding> findings;  // metrics that both results have, in their order
  // Parts that changed, the largest change first, then those that only one lists.
  std::vector<Cause> causes;
  // Of emulations: what the ranks do more or less often, or in another time.
  WorkChanges work;
  // Beside what the figures say: command, program, options, software.
  std::vector<ProvenanceDifference> differences;
};

// Fails where the two are not of the same job, or of another model, unless `any_job`:
// work and communication per iteration are both less than this share of the other
// result's. Recomputing all layers or none is 0.75 and 0.67; half the layers are 0.5.
inline constexpr double kOtherModel = 0.6;
absl::StatusOr<Comparison> Compare(JobResult base, JobResult updated, bool any_job);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_COMPARISON_H_
