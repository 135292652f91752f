#include "emulator/watch/process_sample.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace vrank::emulator {

std::string ReadProcFile(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  char text[2048];
  const ssize_t got = read(file, text, sizeof text);
  close(file);
  return std::string(text, got > 0 ? static_cast<size_t>(got) : 0);
}

namespace {

// The fields of a stat file from the state on (field 3 of proc(5)). The name in
// parentheses before it may hold anything.
std::string StatFields(const std::filesystem::path& folder) {
  const std::string text = ReadProcFile(folder / "stat");
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size()
             ? std::string()
             : text.substr(name_end + 2);
}

bool IsGone(char state) {
  return state == 'Z' || state == 'X';
}
bool Waits(char state) {
  return state == 'S' || state == 'I' || IsGone(state);
}

// Its state. One that still looks whether it has to sleep counts as asleep in `stat`:
// wait4(2) collects a child so. For `syscall` the kernel waits until it sleeps, or goes
// on after all (task_current_syscall in lib/syscall.c). Some kernels have no such file,
// and not every process may read another one's.
char StateOf(const std::filesystem::path& thread) {
  const std::string fields = StatFields(thread);
  if (fields.empty())
    return 'X';
  const bool may_go_on = Waits(fields[0]) && !IsGone(fields[0]);
  return may_go_on && ReadProcFile(thread / "syscall").starts_with("running")
             ? 'R'
             : fields[0];
}

template <typename Test>
bool AllThreads(const std::filesystem::path& folder, Test test) {
  std::error_code error;
  std::filesystem::directory_iterator thread(folder / "task", error);
  for (; !error && thread != std::filesystem::directory_iterator();
       thread.increment(error))
    if (!test(thread->path()))
      return false;
  return true;
}

uint64_t FileCalls(const std::filesystem::path& folder) {
  std::istringstream file(ReadProcFile(folder / "io"));
  std::string name;
  uint64_t value = 0;
  uint64_t calls = 0;
  while (file >> name >> value)
    if (name == "syscr:" || name == "syscw:")
      calls += value;
  return calls;
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> all;
  AllThreads(fmt::format("/proc/{}", pid), [&](const std::filesystem::path& thread) {
    std::istringstream children(ReadProcFile(thread / "children"));
    for (pid_t child = 0; children >> child;)
      all.push_back(child);
    return true;
  });
  return all;
}

std::optional<ProcessSample> SampleProcess(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  std::istringstream fields(StatFields(folder));
  std::string skipped;
  for (int field = 3; field < 10; ++field)
    fields >> skipped;
  // minflt, cminflt, majflt, cmajflt, utime, stime: fields 10 to 15 of proc(5).
  uint64_t values[6] = {};
  for (uint64_t& value : values)
    fields >> value;
  if (!fields)
    return std::nullopt;
  ProcessSample sample;
  sample.page_faults = values[0] + values[2];
  sample.cpu_ms =
      static_cast<int64_t>(values[4] + values[5]) * 1000 / sysconf(_SC_CLK_TCK);
  sample.file_calls = FileCalls(folder);
  return sample;
}

int64_t CpuOfChildren(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  std::istringstream fields(StatFields(folder));
  std::string skipped;
  for (int field = 3; field < 16; ++field)
    fields >> skipped;
  int64_t reaped_user = 0, reaped_system = 0;  // fields 16 and 17 of proc(5)
  fields >> reaped_user >> reaped_system;
  int64_t cpu_ns =
      (reaped_user + reaped_system) * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  for (const pid_t child : ChildrenOf(pid))
    cpu_ns += SampleProcess(child).value_or(ProcessSample{}).cpu_ms * 1'000'000 +
              CpuOfChildren(child);
  return cpu_ns;
}

std::optional<uint64_t> CpuOfWaiters(pid_t pid) {
  uint64_t cpu_ns = 0;
  const bool wait = AllThreads(
      fmt::format("/proc/{}", pid), [&](const std::filesystem::path& thread) {
        if (!Waits(StateOf(thread)))
          return false;
        std::istringstream schedule(ReadProcFile(thread / "schedstat"));
        uint64_t ran_ns = 0;
        schedule >> ran_ns;
        cpu_ns += ran_ns;
        std::istringstream children(ReadProcFile(thread / "children"));
        for (pid_t child = 0; children >> child;) {
          const std::optional<uint64_t> theirs = CpuOfWaiters(child);
          if (!theirs.has_value())
            return false;
          cpu_ns += *theirs;
        }
        return true;
      });
  return wait ? std::optional(cpu_ns) : std::nullopt;
}

std::optional<uint64_t> RunsOfSleepers(pid_t pid, ThreadsIn where) {
  // futex_do_wait, futex_wait_queue: functions of kernel/futex.
  constexpr std::string_view kFutex = "futex";
  uint64_t runs = 0;
  const bool sleep = AllThreads(
      fmt::format("/proc/{}", pid), [&](const std::filesystem::path& thread) {
        const char state = StateOf(thread);
        if (IsGone(state))
          return true;
        // On the processor, waiting for it, and how often: schedstat of proc(5).
        std::istringstream schedule(ReadProcFile(thread / "schedstat"));
        uint64_t ran_ns = 0, waited_ns = 0, times = 0;
        if (!(schedule >> ran_ns >> waited_ns >> times) || state != 'S')
          return false;
        if (where == ThreadsIn::kWaitsForThreads &&
            !std::string_view(ReadProcFile(thread / "wchan")).starts_with(kFutex))
          return false;
        runs += times + 1;
        std::istringstream children(ReadProcFile(thread / "children"));
        for (pid_t child = 0; children >> child;) {
          const std::optional<uint64_t> theirs = RunsOfSleepers(child, where);
          if (!theirs.has_value())
            return false;
          runs += *theirs;
        }
        return true;
      });
  return sleep ? std::optional(runs) : std::nullopt;
}

}  // namespace vrank::emulator
