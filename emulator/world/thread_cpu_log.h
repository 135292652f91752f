// CPU time of each thread of a real rank's processes, by op of the rank's program: the
// threads that issue no work (data-loader workers, a thread that prefetches) pass no
// virtual time, and an iteration cannot be shorter than what one of them computes for
// it.
//
// Unlike most of a result it is of this machine, and differs from run to run.
//
// Memory: a node of std::map per sample and thread, at most kMostSamples of each.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_THREAD_CPU_LOG_H_
#define VRANK_EMULATOR_WORLD_THREAD_CPU_LOG_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/watch/process_sample.h"

namespace vrank::emulator {

class ThreadCpuLog {
 public:
  static constexpr size_t kMostSamples = size_t{1} << 10;

  // This thread issues work.
  void NoteIssuer(pid_t tid) { issuers_.insert(tid); }
  // Looks at the process and its descendants, unless the last look was just now. `op`
  // ascends; `program_ns`: CPU time between calls of the threads that issue work, so
  // far (SegmentHeader::program_ns).
  void Look(uint64_t op, pid_t pid, int64_t program_ns);
  // What a look has seen. Of more than kMostSamples, every second one is dropped.
  void Add(uint64_t op, const std::vector<ThreadCpu>& threads, int64_t program_ns);

  // Threads of one name that work side by side.
  struct Team {
    std::string name;
    bool in_child = false;
    bool issues = false;  // all threads that issue work, whatever their names
    // Most at one time, of those with at least half the CPU time of the busiest.
    int32_t threads = 0;
    // By iteration: of one of so many; of `issues`, what all compute between calls.
    int64_t cpu_ns = 0;
  };
  // `bounds`: first and last op of each iteration. The heaviest team comes first; empty
  // where the samples are less than an iteration apart.
  //
  // A loader works for iterations that are still to come: it fills its queue in the
  // first ones, and has nothing to do in the last ones where its data end. So this is
  // the larger of what the later half of the iterations used, and of what all but the
  // first used, in which a loader starts, divided by their number and one more for each
  // thread of the team: PyTorch's loaders prepare two batches in advance
  // (prefetch_factor), one of them about in the first iteration.
  std::vector<Team> ByIteration(
      const std::vector<std::pair<uint64_t, uint64_t>>& bounds) const;

 private:
  struct Sample {
    uint64_t op = 0;
    int64_t program_ns = 0;
    std::map<pid_t, int64_t> cpu_ns;
  };
  struct Thread {
    bool in_child = false, executed = false;
    std::string name;  // the latest: a worker takes its own after it has started
  };
  // What the thread has used between two samples.
  int64_t Used(pid_t tid, size_t first, size_t last) const;
  // Those between two samples; `iterations` apart, and `ahead` more by each thread.
  std::vector<Team> TeamsOf(size_t first, size_t last, double iterations,
                            double ahead) const;

  std::set<pid_t> issuers_;
  std::map<pid_t, Thread> threads_;
  std::vector<Sample> samples_;
  uint64_t seen_ = 0, stride_ = 1;  // every stride-th sample is kept
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_THREAD_CPU_LOG_H_
