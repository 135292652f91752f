// A job whose durations are edited by what-ifs: its operations, their order and what
// they wait for stay as they are.
//
// Work and host time are edited in copies of the ops of the programs concerned;
// communication by network models around the job's (edited_network.h). An edited time
// counts as assumed. Edits apply in the order given, each to what the others left.
//
// *Like* are two ops that are the n-th of m ops of one name in their iterations, of any
// rank. The median of an even number is the lower one of the two in the middle.
//
// Thread rule: EditableJob is constant; several threads may edit it at a time. An
// EditedJob belongs to one thread.

#ifndef VRANK_GRAPH_WHAT_IF_EDITED_JOB_H_
#define VRANK_GRAPH_WHAT_IF_EDITED_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/fold/job.h"
#include "graph/iterations/rank_iterations.h"
#include "graph/replay/network_model.h"
#include "graph/what_if/what_if.h"

namespace vrank::graph {

// What an edit matched, summed over all ranks and the whole run.
struct EditedNodes {
  uint64_t nodes = 0;
  uint64_t changed = 0;  // of them, by this edit
  double before_ns = 0, after_ns = 0;
  double assumed_ns = 0;  // of before_ns, was an assumption before
  double AssumedShare() const { return before_ns > 0 ? assumed_ns / before_ns : 0; }
};

struct EditedJob {
  ResolvedJob job;
  std::vector<std::unique_ptr<Program>> programs;       // that the job's ranks read
  std::vector<std::unique_ptr<NetworkModel>> networks;  // inner ones first
  const NetworkModel* network = nullptr;
  std::vector<EditedNodes> nodes;  // by edit
};

class EditableJob {
 public:
  // What an op is named by; see NameOf.
  struct Name {
    std::string name;           // demangled, or what the op is: "copy"
    std::string family;         // without result, parameters and template arguments
    std::string communication;  // the operation of a communication kernel
    bool is_gap = false, is_latency = false;
  };
  // Ranks that read one program.
  struct Source {
    const Program* program = nullptr;
    const Op* ops = nullptr;        // all of the program's
    std::vector<Op> copied;         // where they are not contiguous
    std::vector<uint32_t> places;   // in ReplayJob::ranks
    std::vector<Name> names;        // by name of the program
    std::vector<uint32_t> name_id;  // by name of the program: equal in all programs
    std::vector<IterationBounds> bounds;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> transfers;  // by (Op::a, Op::b)
  };

  // `job` and `network` outlive it. `is_iteration`: of names of ranges; empty: none is
  // one. `absent`: by world rank, of ranks of which nothing is known; empty: none is.
  EditableJob(const ResolvedJob* job, const NetworkModel* network,
              const std::function<bool(const std::string&)>& is_iteration,
              const std::vector<bool>& absent);
  EditableJob(EditableJob&&) = default;  // what it refers to stays in place

  // An edit that matches nothing is an error, with the nearest names.
  absl::StatusOr<EditedJob> Edit(const std::vector<WhatIf>& edits) const;
  // By iteration, the longest of any rank.
  absl::StatusOr<std::vector<int64_t>> IterationTimes(const EditedJob& edited) const;

  const ResolvedJob& job() const { return *job_; }
  const NetworkModel& network() const { return *network_; }
  const std::vector<Source>& sources() const { return sources_; }
  // Of every collective of a communicator's members: how often each call.
  const std::map<CollectiveCall, uint64_t>& CallsOf(
      const CommunicatorInstance& instance) const {
    return calls_[instance.sequence];
  }
  std::vector<int32_t> MembersOf(const CommunicatorInstance& instance) const;

  // One edit for each part of the job that an edit may name: families of kernels, the
  // `most` that take the longest; operations; the host, of at most `most` ranks; gaps;
  // latencies; no stragglers. Those with a factor have the factor 0.
  std::vector<WhatIf> Candidates(size_t most) const;

 private:
  const ResolvedJob* job_;
  const NetworkModel* network_;
  std::vector<Source> sources_;
  std::vector<std::map<CollectiveCall, uint64_t>> calls_;    // by sequence
  std::vector<const std::vector<IterationBounds>*> bounds_;  // by place
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_WHAT_IF_EDITED_JOB_H_
