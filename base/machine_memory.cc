#include "base/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace vrank {
namespace {

// A line "NAME:  123 kB" of /proc/meminfo, in bytes.
uint64_t MemoryInfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    std::getline(file, unit);
    if (key == name + ":")
      return kibibytes * 1024;
  }
  return 0;
}

// The number that a file begins with; nothing where it says "max", or is not there.
std::optional<uint64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (!(file >> number))
    return std::nullopt;
  return number;
}

uint64_t Less(uint64_t limit, uint64_t used) {
  return limit > used ? limit - used : 0;
}

}  // namespace

uint64_t MachineMemory::least() const {
  return std::min(
      {available, of_container.value_or(available), of_process.value_or(available)});
}

MachineMemory ReadMachineMemory() {
  MachineMemory memory;
  memory.total = MemoryInfo("MemTotal");
  memory.available = MemoryInfo("MemAvailable");
  if (const auto limit = NumberIn("/sys/fs/cgroup/memory.max"))
    memory.of_container =
        Less(*limit, NumberIn("/sys/fs/cgroup/memory.current").value_or(0));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t pages = NumberIn("/proc/self/statm").value_or(0);
    memory.of_process =
        Less(limit.rlim_cur, pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  }
  return memory;
}

}  // namespace vrank
