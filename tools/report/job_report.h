// What a finished run has to say, as plain data: the same for text and JSON.
//
// But for CPU time of the host (host_cpu_ns, host_bound), nothing in it depends on real
// time, host addresses or process numbers: two runs give equal reports.
//
// Thread rule: plain values.

#ifndef VRANK_TOOLS_REPORT_JOB_REPORT_H_
#define VRANK_TOOLS_REPORT_JOB_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "emulator/launch/supervisor.h"
#include "emulator/world/gpu_activity.h"
#include "emulator/world/gpu_memory.h"
#include "emulator/world/iteration_log.h"
#include "emulator/world/result_collector.h"
#include "graph/replay/stamp.h"
#include "tools/job/job.h"
#include "tools/job/provenance.h"
#include "tools/job/run_losses.h"
#include "tools/report/ledger.h"
#include "tools/report/peak_contents.h"

namespace vrank::tools {

struct RankReport {
  int32_t rank = 0;
  bool real = false;
  // Of a real rank until its device work is complete (emulator::TimedIteration), of a
  // virtual one by its host.
  std::vector<emulator::Iteration> iterations;
  // CPU time of the rank's process in each of them (emulator::HostCpu), of a real rank;
  // nullopt where the program has no wait at which it is sampled.
  std::vector<std::optional<int64_t>> host_cpu_ns;
  int64_t host_cpu_children_ns = 0;  // of the whole run
  // Of PyTorch's caching allocator; 0: the program has none. What was allocated at most
  // by the end of each iteration only grows.
  emulator::AllocatorBytes allocator;
  std::vector<uint64_t> allocated_by_iteration;
  std::optional<PeakContents> peak_contents;
  // Of each iteration: the first op and the last. Real ranks only.
  std::vector<graph::IterationBounds> iteration_bounds;
  // Of the last iteration, on the device. Of a real rank with a virtual GPU, unless
  // that iteration is too long (GpuActivity::kMostSpans).
  std::optional<emulator::GpuTime> gpu_time;
  // In some iteration the host was done before the device. Real ranks only.
  bool host_runs_ahead = false;
  int64_t end_ns = 0;
  int64_t waited_ns = 0;
  // Of the fullest GPU that the rank uses, and what of it was the rank's own context
  // and communicators, and other ranks' on the same GPU.
  int64_t peak_bytes = 0, peak_context_bytes = 0, peak_communicator_bytes = 0;
  int64_t peak_other_bytes = 0;
  int64_t peak_program_bytes() const {
    return peak_bytes - peak_context_bytes - peak_communicator_bytes - peak_other_bytes;
  }
  // Real ranks only. The clock of its GPU at the end, and the highest, which it is
  // unless the power limit holds it back (graph/models/clock_governor.h); 0: none is
  // modelled.
  uint32_t clock_khz = 0, highest_clock_khz = 0;
  uint64_t flops = 0, device_bytes = 0;
  std::map<std::string, emulator::CommunicationTotal> communication;
  // What the host's time went to, waits not included; most time first.
  std::vector<std::pair<std::string, emulator::KernelTotal>> host;
  emulator::ExitStatus exit;
  bool lost = false;  // the job went on without it
};

// Memory that each of the last iterations has added to the most that was allocated.
struct AllocatorGrowth {
  size_t first_iteration = 0;  // from 0: the first that added some
  uint64_t bytes = 0;          // per iteration, the median
};
// nullopt: fewer than kLeastGrowing of the last iterations have added any.
constexpr size_t kLeastGrowing = 3;
std::optional<AllocatorGrowth> GrowthOf(
    const std::vector<uint64_t>& allocated_by_iteration);

struct KernelRow {
  std::string name;  // demangled
  graph::Source source = graph::Source::kModelled;
  uint64_t count = 0;
  int64_t time_ns = 0;
  // By how much more it weighs in the ledger (graph::WorkCost::unseen_ns).
  int64_t unseen_ns = 0;
  int64_t weight_ns() const { return time_ns + unseen_ns; }
};

// How the iterations of a job were told from one another.
struct IterationSource {
  graph::IterationEvidence evidence = graph::IterationEvidence::kAnnotation;
  double regularity = 1;  // graph::FoundIterations; the lowest of any real rank
  bool complete = true;   // emulator::TimedIterations
};

// CPU time of the program that the predicted iteration leaves out, and that exceeds it.
struct HostBound {
  enum class Of {
    kProcess,  // all of the process that issues work: nothing of it is played
    kThreads,  // threads that issue no work, of that process or of one that it started
    kIssuers,  // those that issue work: what was recorded of them is far less
  };
  int32_t rank = 0;
  int64_t cpu_ns = 0;  // of a typical iteration; of `threads` the average
  // The median after the first, or the mean from end to end where that is more.
  int64_t iteration_ns = 0;
  Of of = Of::kProcess;
  std::string threads;  // kThreads: their name
  int32_t count = 1;    // ... and number
  bool in_child = false;
};

// What the program itself takes between its calls.
struct HostTimeReport {
  protocol::HostTime mode = protocol::HostTime::kModelled;
  uint64_t speed_millionths = 1'000'000;
  std::string cpu;  // that it was recorded on
  // Of all real ranks, by kAnchorDepths, then those that were not known; empty where
  // nothing recorded is played.
  std::vector<uint64_t> gaps_found;
};

// Numbers that were not computed, which hosts of real ranks read before they issued
// more work.
struct UnknownReads {
  uint64_t count = 0;  // over all real ranks
  // The first one of the lowest rank that has any.
  int32_t rank = 0;
  std::optional<size_t> iteration;  // from 0; nullopt: outside of iterations
  std::string kernel, reason;
};

struct JobReport {
  int32_t world_size = 0;
  std::string layout, gpu, cluster;
  size_t followers = 0, recorded = 0, absent = 0;
  // Ranks follow rank 0, and it waits for its GPU: they repeat what it alone may do
  // (print a loss, save).
  struct RankZero {
    size_t followers = 0;
    std::vector<int32_t> real;  // with these they follow another rank
  };
  std::optional<RankZero> rank_zero;
  // Real ranks ran on real GPUs, by a real clock: their kernels and memory were not
  // seen. `gpu` is what this machine has, empty where that is unknown.
  bool real_gpu = false;
  uint64_t device_memory_bytes = 0;
  // The slowest rank of each: of all ranks where each host waits for its device in
  // every iteration, else of the real ones, whose device work is known.
  std::vector<int64_t> iteration_time_ns;
  // On the rank whose last one ends last, the means after the first: from the end of an
  // iteration to the begin of the next, and to its end. nullopt: there are fewer than
  // two.
  std::optional<int64_t> between_iterations_ns, mean_step_ns;
  IterationSource iteration_source;
  HostTimeReport host_time;
  // The largest of any real rank; nullopt: none uses more than an iteration has.
  // Depends on this machine, as host_cpu_ns does.
  std::optional<HostBound> host_bound;
  std::vector<RankReport> ranks;  // real ones first, then virtual, ascending
  std::vector<emulator::GpuMemory::Peak> shared_gpus;
  std::map<std::pair<std::string, uint32_t>, emulator::CollectiveRow> collectives;
  Ledger ledger;
  // Of each iteration on the rank whose last one ends last.
  std::vector<Ledger> iteration_ledgers;
  std::vector<KernelRow> kernels;  // over all real ranks, the heaviest first
  std::vector<LossRow> losses;
  // Objects (pickles) that real ranks gathered and that stand for those of virtual
  // ones.
  uint64_t copied_objects = 0;
  // The last call of a real rank that wanted memory found too little.
  bool is_short_of_memory = false;
  // By which the program decided: sizes of tensors, and integers and truth values by
  // which it may have.
  UnknownReads unknown_sizes, unknown_conditions;
  Provenance provenance;
  // Why the job ended before its program did; empty: it did not. The report is then
  // about what was done until the failure.
  std::string failure;
  uint64_t nodes = 0;  // ops executed, over all ranks
  uint64_t divergences = 0;
  uint64_t assumed_arrivals = 0;

  const RankReport* HighestPeak() const;
  // The job failed when a call had found too little memory: more than the peak is
  // needed.
  bool RanOutOfMemory() const;
  // Ranks whose own calls this run has not seen: a fault of one of them alone (a
  // collective fewer, another size) does not show.
  size_t unchecked() const { return followers + absent; }
  // The commands that compare the calls of all ranks.
  std::string ComparesAll() const;
  // The fullest of shared_gpus; nullptr: some rank's own GPU is fuller, or none is
  // shared.
  const emulator::GpuMemory::Peak* HighestSharedPeak() const;
};

JobReport MakeReport(const Job& job, const Run& run);

// "GPU 0 of node 3".
std::string NameOfGpu(const emulator::GpuMemory::Peak& gpu);
// An error where a GPU that several ranks use does not have the memory for all of them.
absl::Status CheckSharedGpus(const JobReport& report);
// Kernels whose time is assumed, the heaviest first.
std::vector<const KernelRow*> AssumedKernels(const JobReport& report);
// An error that names them where more work is assumed than --max-assumed allows. Time
// of the host does not count: no description of the program could make it less.
// Without a limit all is fine.
absl::Status CheckAssumed(const std::optional<double>& max_assumed,
                          const JobReport& report);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_JOB_REPORT_H_
