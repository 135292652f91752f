// Whether all threads of a process, and of the processes that it has started, wait.
//
// The session polls, and most threads have not run since the previous poll. For such a
// thread it reads two files of /proc, which stay open; for any other thread five, since
// `stat` reports a thread as asleep that is still deciding whether to sleep (see
// below). A thread must run to start a thread or a process, so the lists of threads and
// children are read again only after one has run.
//
// Which thread waits is the kernel's word (proc(5)):
//   stat       its state: S where it sleeps, or is about to
//   schedstat  its CPU time, and how often it has run so far
//   syscall    "running" until it sleeps indeed: reading it waits for that decision
//              (task_current_syscall in lib/syscall.c)
//   wchan      the function of the kernel in which it sleeps
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WATCH_THREAD_WATCH_H_
#define VRANK_EMULATOR_WATCH_THREAD_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace vrank::emulator {

enum class ThreadsIn {
  kAnyWait,
  // For a futex: in a lock, a condition, a join. Nobody but another thread of the job
  // wakes it then. A wait without a limit for a futex that processes share does not
  // count: a process outside of the job may wake it.
  kWaitsForThreads,
};

class ThreadWatch {
 public:
  ThreadWatch();
  ~ThreadWatch();
  ThreadWatch(const ThreadWatch&) = delete;
  ThreadWatch& operator=(const ThreadWatch&) = delete;

  // Of all threads of a process and of its descendants, which all wait.
  struct Waiters {
    uint64_t runs = 0;    // how often they have run so far, plus their number
    uint64_t cpu_ns = 0;  // CPU time that they have used so far
  };
  // nullopt where one does not wait in that way. Two looks with equal `runs`: at some
  // time between them none of the threads could run.
  std::optional<Waiters> Look(pid_t pid, ThreadsIn where = ThreadsIn::kAnyWait);
  // Whether a thread of the process that ran at the last look runs still: one file.
  bool StillRuns(pid_t pid);

 private:
  class File;
  struct Thread;
  struct Process;
  enum class Seen { kAsBefore, kWaits, kRuns, kGone };

  Seen LookAt(Thread* thread, pid_t pid);
  bool LookAtProcess(pid_t pid, ThreadsIn where, Waiters* sum);
  static bool FindThreads(Process* process, pid_t pid, bool* found_new);
  static bool WaitsForThread(Thread* thread, pid_t pid);

  // Forgets processes that nobody has looked at for long: they have ended.
  void ForgetOld();

  int files_left_;  // that may be kept open
  uint64_t looks_ = 0;
  std::map<pid_t, std::unique_ptr<Process>> processes_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_THREAD_WATCH_H_
