// What a replay says about a job: how long an iteration takes, where the time goes, who
// waits for whom, what memory it needs. Data only; tools print it (docs/json.md).
//
// Figures are those of one iteration: a range whose name the caller recognises, else
// what graph/iterations finds; without iterations, of the whole run. A class of ranks
// here is a colour of the folding: its ranks have one timeline, so what is said of one
// is true of all.
//
// Thread rule: plain values; functions of their arguments.

#ifndef VRANK_GRAPH_ANALYSIS_REPLAY_REPORT_H_
#define VRANK_GRAPH_ANALYSIS_REPLAY_REPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/analysis/path.h"
#include "graph/analysis/timeline.h"
#include "graph/iterations/rank_iterations.h"

namespace vrank::graph {

// Where one rank's time goes. compute + exposed + bubble + copies + host_bound +
// creation + unexplained + idle is the length of the window, exactly. A rank *computes*
// while any work that is no copy and no communication runs on any lane. The rest of the
// time is explained by what the next computation (at the end: the host) waits for,
// followed back on this rank:
struct Breakdown {
  int64_t compute_ns = 0;
  // A collective, or a transfer whose peer is there, by operation ("all_reduce",
  // "send"). Of collectives this includes waiting for members that come late. Kernels
  // that communicate (base/communication_kernel.h) count, waits included.
  std::map<std::string, int64_t> exposed_ns;
  int64_t exposed_wait_ns = 0;  // of the collectives' share: waiting for late members
  // A transfer whose other side has not come yet: the pipeline stands.
  int64_t bubble_ns = 0;
  int64_t copies_ns = 0;       // a copy
  int64_t host_bound_ns = 0;   // host time, launch latency, a poll that looks late
  int64_t creation_ns = 0;     // a communicator comes into being
  int64_t unexplained_ns = 0;  // a recorded gap on a stream, of unknown cause
  int64_t idle_ns = 0;         // nothing that the program does
  // Beside the sum: of `host_bound_ns`, host time, by where it comes from. Of a virtual
  // GPU's slices, recorded and measured is what the program computes between calls.
  std::map<Source, int64_t> host_ns;
  // Beside the sum: communication while the rank computes, added up over operations.
  std::map<std::string, int64_t> overlapped_ns;

  int64_t Sum() const;
};

// Defined in graph/iterations/rank_iterations.h.
struct Iteration {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t end_op = 0;  // the host has passed it then
  // The device work that ends last, where that is after the host has passed `end_op`.
  uint32_t end_work = kNone;
  int64_t length_ns() const { return end_ns - begin_ns; }
};

struct Iterations {
  std::vector<Iteration> all;
  IterationEvidence evidence = IterationEvidence::kAnnotation;
  double regularity = 1;
  // Neither annotated nor found: `all` is the run as a whole.
  bool is_whole_run = false;
};

// Device memory at a rank's highest moment.
struct MemoryPeak {
  int64_t bytes = 0, communicator_bytes = 0, context_bytes = 0;
  // What the program held then, by the innermost range in which it was taken. Giving
  // back names no allocation: the youngest one of that size is taken to go.
  std::map<std::string, int64_t> live_bytes;
};

struct RankReport {
  int32_t rank = 0;    // lowest of the class
  uint32_t ranks = 1;  // in the class
  std::vector<Iteration> iterations;
  Breakdown breakdown;
  MemoryPeak memory;
};

// A part of the critical path: all segments of one cause on one class of ranks.
struct Contributor {
  PathKind kind = PathKind::kWork;
  std::string name;  // kernel, operation, or the kind's own
  int32_t rank = 0;  // lowest of the class
  int64_t time_ns = 0;
  uint64_t count = 0;
};

// Ranks of one class wait in an operation for one of another, which comes later.
struct Wait {
  int32_t waiting = 0, awaited = 0;  // lowest of each class
  std::string operation;
  int64_t time_ns = 0;  // of one rank
  uint64_t count = 0;
  uint32_t ranks = 1;  // that wait like this
};

struct ReplayReport {
  // Per iteration, the longest of any rank.
  std::vector<int64_t> iteration_time_ns;
  // Of the rank whose iterations are the least regular.
  IterationEvidence evidence = IterationEvidence::kAnnotation;
  double regularity = 1;
  bool is_whole_run = false;        // Iterations::is_whole_run, of any rank
  size_t iteration = 0;             // the one that the rest is about
  std::vector<RankReport> classes;  // by lowest rank
  int32_t critical_rank = 0;        // whose iteration is longest
  // All of the critical path, longest first: their times add up to the iteration.
  std::vector<Contributor> critical_path;
  std::map<Source, int64_t> ledger_ns;  // likewise, by source
  std::map<Source, int64_t> host_ns;    // of that, host time
  std::vector<Wait> waits;              // longest first
};

struct ReportOptions {
  // Of range names. Of nested ranges that match the outermost counts. Without it the
  // report is about the whole run.
  std::function<bool(const std::string&)> is_iteration;
  // Which iteration to look at; the last one where there are fewer.
  size_t iteration = ~size_t{0};
  // By world rank, empty: none. Ranks of which nothing but their place in the job is
  // known; the report is about the others.
  std::vector<bool> absent;
};

ReplayReport MakeReport(const Timeline& timeline, const ReportOptions& options);

// Its parts.
// Without `matches`: the whole run.
Iterations FindIterations(const PlayedRank& rank,
                          const std::function<bool(const std::string&)>& matches);
Breakdown BreakDown(const Timeline& timeline, uint32_t rank, const Iteration& window);
MemoryPeak FindPeak(const PlayedRank& rank);
// "all_reduce", "send", a kernel's name, "host", ...
std::string NameOf(const Timeline& timeline, const PathSegment& segment);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ANALYSIS_REPLAY_REPORT_H_
