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

namespace {

// PF_FORKNOEXEC of include/linux/sched.h, in field 9 of stat.
constexpr uint64_t kForkedOnly = 0x40;

bool HasExecuted(const std::filesystem::path& folder) {
  std::istringstream fields(StatFields(folder));
  std::string skipped;
  for (int field = 3; field < 9; ++field)
    fields >> skipped;
  uint64_t flags = 0;
  fields >> flags;
  return (flags & kForkedOnly) == 0;
}

void AddThreads(pid_t pid, bool in_child, std::vector<ThreadCpu>* all) {
  const bool executed = in_child && HasExecuted(fmt::format("/proc/{}", pid));
  AllThreads(fmt::format("/proc/{}", pid), [&](const std::filesystem::path& thread) {
    ThreadCpu found;
    found.in_child = in_child;
    found.executed = executed;
    std::istringstream(thread.filename().string()) >> found.tid;
    std::istringstream schedule(ReadProcFile(thread / "schedstat"));
    if (!(schedule >> found.cpu_ns))
      return true;  // it has ended
    found.name = ReadProcFile(thread / "comm");
    found.name.erase(std::min(found.name.find('\n'), found.name.size()));
    all->push_back(std::move(found));
    std::istringstream children(ReadProcFile(thread / "children"));
    for (pid_t child = 0; children >> child;)
      AddThreads(child, /*in_child=*/true, all);
    return true;
  });
}

}  // namespace

std::vector<ThreadCpu> CpuOfThreads(pid_t pid) {
  std::vector<ThreadCpu> all;
  AddThreads(pid, /*in_child=*/false, &all);
  return all;
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

}  // namespace vrank::emulator
