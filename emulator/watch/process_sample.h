// What /proc says of a process and all its threads at one moment.
//
// Thread rule: any thread. Reads /proc; nothing is kept.

#ifndef VRANK_EMULATOR_WATCH_PROCESS_SAMPLE_H_
#define VRANK_EMULATOR_WATCH_PROCESS_SAMPLE_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace vrank::emulator {

// What a file of /proc holds (its first 2 KiB); empty where the process is gone, before
// or while it is read. Streams throw in the second case.
std::string ReadProcFile(const std::filesystem::path& path);

// The processes that its threads have started and that still run.
std::vector<pid_t> ChildrenOf(pid_t pid);

struct ProcessSample {
  int64_t cpu_ms = 0;        // used so far by all threads
  uint64_t page_faults = 0;  // so far: a program that touches new memory makes them
  uint64_t file_calls = 0;   // reads and writes so far
};
// nullopt where there is no such process.
std::optional<ProcessSample> SampleProcess(pid_t pid);

struct ThreadCpu {
  pid_t tid = 0;
  bool in_child = false;  // of a process that `pid` has started, or one of those
  int64_t cpu_ns = 0;     // used so far, user and system
  std::string name;       // as of the kernel: 15 bytes, the program's to choose
  // Its process has become another program since it was forked: what its start took
  // (imports) is in `cpu_ns`.
  bool executed = false;
};
// Of the threads of a process and of its descendants that run at this moment, in any
// order. Of descendants only where the kernel lists children.
std::vector<ThreadCpu> CpuOfThreads(pid_t pid);

// CPU time in ns that its child processes, and theirs, have used so far, also those
// that have been waited for. Of the ones that run, only where the kernel lists
// children.
int64_t CpuOfChildren(pid_t pid);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_PROCESS_SAMPLE_H_
